// What a person thinks of a reply. Nothing leaves the page before they have said that it may be kept.

import { Trouble, feedback } from "./api.js";
import { icon, node } from "./dom.js";

const KEPT = "Kept with your consent. Thank you.";
const HERE = "Noted in this tab and its export only: this server keeps nothing.";
const UNSENT = "Nothing was sent: switch on “Keep this conversation” first, if you agree.";

/** One switch for the whole page, shown in several places; off in every new tab. */
export const consent = {
  given: false,
  possible: true, // false on a server that keeps nothing
  boxes: new Set(),
  /** A checkbox that shows and changes it. */
  tie(box) {
    box.checked = this.given;
    this.boxes.add(box);
    box.addEventListener("change", () => {
      this.given = box.checked;
      for (const other of this.boxes) other.checked = this.given;
    });
    return box;
  },
};

/** The thumbs and the "I would have said …" of one reply. `keep` saves the turn, `messages` gives the conversation up to it. */
export class Feedback {
  constructor(turn, { keep, messages }) {
    this.turn = turn;
    this.keep = keep;
    this.messages = messages;
    this.up = this.#thumb("up", "This helped");
    this.down = this.#thumb("down", "This did not help");
    this.open = node(
      "button",
      { type: "button", class: "quiet short", title: "I would have said …", "aria-expanded": "false", on: { click: () => this.#toggle(this.form.hidden) } },
      icon("pen"),
      node("span", {}, "I would have said …"),
    );
    this.text = node("textarea", { rows: 2, maxlength: 2000, placeholder: "Your own words, in place of this reply" });
    this.text.value = turn.better ?? "";
    this.switch = consent.tie(node("input", { type: "checkbox", role: "switch", class: "consent" }));
    this.form = node(
      "form",
      { class: "feedback", hidden: true, on: { submit: (event) => this.#submit(event), keydown: (event) => this.#escape(event) } },
      node("label", { class: "field" }, node("span", {}, "I would have said"), this.text),
      node("label", { class: "switch" }, this.switch, node("span", {}, "Keep this conversation with my feedback")),
      node("p", { class: "small" }, "If you agree, this server keeps the conversation up to this reply, your thumb and your words, for study and training. Otherwise nothing is sent."),
      node(
        "div",
        { class: "choices" },
        node("button", { class: "solid" }, "Send feedback"),
        node("button", { type: "button", class: "quiet", on: { click: () => this.#toggle(false) } }, "Close"),
      ),
    );
    this.state = node("p", { class: "state", role: "status" });
    this.#show();
  }

  #thumb(way, name) {
    const press = () => {
      this.turn.thumb = this.turn.thumb === way ? null : way;
      this.keep();
      this.#show();
      if (!consent.possible) this.#say(this.turn.thumb ? HERE : "");
      else if (consent.given) this.#send();
      else if (this.turn.thumb) this.#toggle(true, false);
    };
    return node("button", { type: "button", class: "quiet thumb", "aria-label": name, title: name, "aria-pressed": "false", on: { click: press } }, icon(way));
  }

  #show() {
    this.up.setAttribute("aria-pressed", String(this.turn.thumb === "up"));
    this.down.setAttribute("aria-pressed", String(this.turn.thumb === "down"));
  }

  #toggle(open, focus = true) {
    this.form.hidden = !open;
    this.open.setAttribute("aria-expanded", String(open));
    if (focus) (open ? this.text : this.open).focus();
    if (open) this.form.scrollIntoView({ block: "nearest" });
  }

  #escape(event) {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    this.#toggle(false);
  }

  #submit(event) {
    event.preventDefault();
    this.turn.better = this.text.value.trim() || null;
    this.keep();
    if (!consent.possible) {
      this.#say(HERE);
      this.#toggle(false);
    } else if (!consent.given) {
      this.#say(UNSENT, true);
      this.switch.focus();
    } else if (!this.turn.better && !this.turn.thumb) {
      this.#say("There is nothing to send yet: give a thumb, or say it in your words.", true);
      this.text.focus();
    } else this.#send();
  }

  async #send() {
    const { thumb = null, better = null, reply } = this.turn;
    try {
      await feedback({ reply_id: reply?.reply_id ?? null, messages: this.messages(), thumb, better });
      this.#say(KEPT);
      if (!this.form.hidden) this.#toggle(false);
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
      this.#say(`Not kept. ${error.message}`, true);
    }
  }

  #say(text, wrong = false) {
    this.state.textContent = text;
    this.state.classList.toggle("wrong", wrong);
  }
}
