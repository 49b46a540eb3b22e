// One place above the message box where the page says what went wrong and what can be done.

import { useKey } from "./api.js";
import { find, node } from "./dom.js";

let ticking = null;

export function clearNotice() {
  clearInterval(ticking);
  find("notice").replaceChildren();
}

/** Say something, with buttons: [name, what to do]. */
export function say(text, ...choices) {
  clearNotice();
  find("notice").replaceChildren(node("div", { class: "inner" }, node("p", {}, text), ...buttons(choices)));
}

/** Say what went wrong with an answer. `again` asks once more. */
export function sayTrouble(trouble, again) {
  if (trouble.kind === "busy") wait(trouble, again);
  else if (trouble.kind === "key") askForKey(trouble, again);
  else say(trouble.message, ["Try again", again]);
}

/** Count down, then ask again without being told. The count is only for the eye; a screen reader hears it once. */
function wait(trouble, again) {
  clearNotice();
  let left = trouble.wait;
  const count = node("b", { class: "seconds", "aria-hidden": "true" }, `${left} s`);
  const text = node("p", {}, trouble.message, " Your message is safe here; it is sent again in ", count, node("span", { class: "unseen" }, `${left} seconds`), ".");
  find("notice").replaceChildren(node("div", { class: "inner" }, text, ...buttons([["Try now", again], ["Not now", clearNotice]])));
  ticking = setInterval(() => {
    left -= 1;
    count.textContent = `${left} s`;
    if (left <= 0) {
      clearNotice();
      again();
    }
  }, 1000);
}

function askForKey(trouble, again) {
  clearNotice();
  const field = node("input", { type: "password", autocomplete: "off", required: true });
  const submit = (event) => {
    event.preventDefault();
    useKey(field.value.trim());
    clearNotice();
    again();
  };
  const form = node("form", { on: { submit } }, node("label", {}, "Key ", field), node("button", { class: "solid" }, "Use it"));
  find("notice").replaceChildren(node("div", { class: "inner" }, node("p", {}, trouble.message), form));
  field.focus();
}

function buttons(choices) {
  const made = choices.map(([name, press]) => {
    const pressed = () => {
      clearNotice();
      find("message").focus();
      press();
    };
    return node("button", { type: "button", class: "quiet", on: { click: pressed } }, name);
  });
  return made.length ? [node("div", { class: "choices" }, ...made)] : [];
}
