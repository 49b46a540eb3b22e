// The texts on the page that stand out too little from what is behind them (WCAG AA: 4.5, or 3 for large letters).
() => {
  const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((one, i) => one * a + below[i] * (1 - a));
  const light = (colour) => {
    const [r, g, b] = colour.map((one) => one / 255).map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // The page's own ground carries a breath of the felt emotion: at most 15 %.
  const felt = rgba(getComputedStyle(document.documentElement).getPropertyValue("--felt"));
  const ground = over([...felt.slice(0, 3), 0.15], rgba(getComputedStyle(document.body).backgroundColor));
  const behind = (element) => {
    const layers = [];
    for (let one = element; one && one !== document.body; one = one.parentElement) {
      layers.push(rgba(getComputedStyle(one).backgroundColor));
      if (layers.at(-1)[3] === 1) break;
    }
    return layers.reduceRight((below, layer) => over(layer, below), ground);
  };
  const poor = [];
  const open = document.querySelector("dialog[open]");
  const walker = document.createTreeWalker(open ?? document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !element.checkVisibility({ visibilityProperty: true }) || element.closest(":disabled, .unseen, .skip, title, option, noscript")) continue;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (element.closest(".graph .cls")) continue; // its ground is the sun, not a background
    const below = behind(element);
    const letters = over(rgba(element instanceof SVGElement ? style.fill : style.color), below);
    const [dim, bright] = [light(letters), light(below)].sort((one, other) => one - other);
    const ratio = (bright + 0.05) / (dim + 0.05);
    if (ratio < (large ? 3 : 4.5)) poor.push(`${text.slice(0, 30)}: ${ratio.toFixed(2)} (${style.color} on ${below.map(Math.round)})`);
  }
  return poor;
}
