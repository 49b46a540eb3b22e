// Elements from plain values. Texts stay texts: nothing here ever reads HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `on` holds listeners, `style` holds custom properties; true and false add or leave out an attribute. */
export function node(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function shape(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** An icon of the page's sprite; it only repeats a word beside it. */
export function icon(name) {
  return shape("svg", { "aria-hidden": "true" }, shape("use", { href: `#i-${name}` }));
}

export function find(id) {
  return document.getElementById(id);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, heard] of Object.entries(value)) made.addEventListener(event, heard);
    else if (name === "style") for (const [property, set] of Object.entries(value)) made.style.setProperty(property, set);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
