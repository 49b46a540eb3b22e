// The messages of a conversation, as list items.

import { icon, node } from "./dom.js";
import { Feedback } from "./feedback.js";
import { linked } from "./links.js";
import { ribbon } from "./wheel.js";
import { colour } from "./words.js";

const SLOW = 8000; // milliseconds after which waiting is spoken of again

/** What the person said, with a ribbon of what was heard in it. */
export class PersonBubble {
  constructor(turn) {
    this.below = node("div", { class: "below-bubble" });
    this.element = node("li", { class: "message person" }, who("You said:"), bubble(turn.content), this.below);
    if (turn.heard) this.hear(turn.heard);
  }

  hear({ emotion, emotions }) {
    const same = this.emotions === JSON.stringify(emotions);
    if (!emotion || same) return;
    this.emotions = JSON.stringify(emotions);
    this.element.style.setProperty("--felt", colour(emotion));
    this.element.classList.add("heard");
    this.below.replaceChildren(ribbon(emotions));
  }
}

/** What Attune says: first waiting, then growing, then finished with its buttons. */
export class ReplyBubble {
  constructor(turn, doings) {
    this.turn = turn;
    this.doings = doings; // {why, again, keep, messages, doing}
    this.waiting = node("p", { class: "waiting" }, node("span", { class: "dots", "aria-hidden": "true" }, node("i"), node("i"), node("i")), node("span", {}, doings.doing));
    this.slow = setTimeout(() => (this.waiting.lastChild.textContent = "Still thinking …"), SLOW);
    this.bubble = node("div", { class: "bubble", dir: "auto" }, this.waiting);
    this.element = node("li", { class: "message attune", "aria-busy": "true" }, who("Attune said:"), this.bubble);
  }

  write(text) {
    clearTimeout(this.slow);
    this.waiting.remove();
    this.turn.content += text;
    this.bubble.append(node("span", { class: "piece" }, text));
  }

  finish() {
    clearTimeout(this.slow);
    const { content, reply, stopped } = this.turn;
    const { risk, action } = reply?.guard ?? {};
    const written = action === "answered"; // by people, beforehand
    const careful = written && Boolean(risk);
    this.element.removeAttribute("aria-busy");
    this.element.classList.toggle("care", careful);
    this.bubble.replaceChildren(...(careful ? [node("p", { class: "heading" }, icon("care"), "Please read this")] : []), ...(careful ? linked(content) : [content]));
    const notes = [];
    if (stopped) notes.push("Stopped here.");
    if (written) notes.push("Written by people beforehand, not generated.");
    this.element.append(...notes.map((note) => node("p", { class: "note" }, note)), this.#actions());
  }

  remove() {
    clearTimeout(this.slow);
    this.element.remove();
  }

  #actions() {
    const { why, again, keep, messages } = this.doings;
    const said = new Feedback(this.turn, { keep, messages });
    const other = node("button", { type: "button", class: "quiet short again", title: "Weighs several replies before it speaks", on: { click: again } }, icon("again"), node("span", {}, "Another reply"));
    const row = node(
      "div",
      { class: "actions", role: "group", "aria-label": "About this reply" },
      node("button", { type: "button", class: "quiet", "aria-haspopup": "dialog", on: { click: why } }, icon("why"), node("span", {}, "Why this reply")),
      said.up,
      said.down,
      said.open,
      this.turn.reply?.guard?.action === "answered" ? null : other, // what was written beforehand stays
    );
    return node("div", { class: "about-reply" }, row, said.form, said.state, said.reference);
  }
}

function who(text) {
  return node("span", { class: "unseen" }, text);
}

function bubble(text) {
  return node("div", { class: "bubble", dir: "auto" }, text);
}
