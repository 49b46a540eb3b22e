// What a person thinks of a reply. Nothing leaves the page before they have said that it may be kept, and it can be taken back.

import { Trouble, feedback, retract } from "./api.js";
import { icon, node } from "./dom.js";

const KEPT = "Kept with your consent. Thank you.";
const BACK = "Taken back.";
const HERE = "Noted in this tab and its export only: this server keeps nothing.";

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
      node("p", { class: "small" }, "If you agree, this server keeps the conversation up to this reply, which system gave it, your thumb and your words, for study and training. Otherwise nothing is sent."),
      node(
        "div",
        { class: "choices" },
        node("button", { class: "solid" }, "Send feedback"),
        node("button", { type: "button", class: "quiet", on: { click: () => this.#toggle(false) } }, "Close"),
      ),
    );
    this.state = node("p", { class: "state", role: "status" });
    this.id = node("code");
    this.reference = node("p", { class: "note" }, "Your feedback’s number: ", this.id, ". To have it erased, take it back here, or name the number to whoever runs this server.");
    this.sent = Promise.resolve(); // what is on its way
    this.#show();
  }

  #thumb(way, name) {
    const press = () => {
      this.turn.thumb = this.turn.thumb === way ? null : way;
      this.keep();
      this.#show();
      if (!consent.possible) return this.#say(this.turn.thumb ? HERE : "");
      if (this.turn.thumb && !consent.given) this.#toggle(true, false);
      this.#send();
    };
    return node("button", { type: "button", class: "quiet thumb", "aria-label": name, title: name, "aria-pressed": "false", on: { click: press } }, icon(way));
  }

  #show() {
    this.up.setAttribute("aria-pressed", String(this.turn.thumb === "up"));
    this.down.setAttribute("aria-pressed", String(this.turn.thumb === "down"));
    this.id.textContent = this.turn.kept?.id ?? "";
    this.reference.hidden = !this.turn.kept;
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
    if (consent.possible) return this.#send(true);
    this.#say(HERE);
    this.#toggle(false);
  }

  /** One after the other, so that the last word counts. `asked`: by the button, not by a thumb alone. */
  #send(asked = false) {
    this.sent = this.sent.then(() => this.#settle(asked));
  }

  /** Let the server keep what it may. Without consent that is at most what it keeps already; the rest of that is taken back. */
  async #settle(asked) {
    const { id = null, model, thumb = null, better = null, kept } = this.turn;
    const allowed = (now, before) => (consent.given || now === before ? now : null);
    const said = { thumb: allowed(thumb, kept?.thumb), better: allowed(better, kept?.better) };
    const any = Boolean(said.thumb || said.better);
    const back = Boolean((kept?.thumb && !said.thumb) || (kept?.better && !said.better));
    try {
      if (any && (consent.given || back)) {
        this.turn.kept = { id: await feedback({ reply_id: id, model, messages: this.messages(), ...said }), ...said };
      } else if (kept && !any) {
        await retract(kept.id);
        delete this.turn.kept;
      }
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
      return this.#say(`${any ? "Not kept" : "Not taken back"}. ${error.message}`, true);
    }
    this.keep();
    this.#show();
    if (said.thumb !== thumb || said.better !== better) this.#unsent(asked, back);
    else if (any || kept) {
      this.#say(back ? `${BACK}${any ? " The rest stays kept." : ""}` : KEPT);
      if (!this.form.hidden) this.#toggle(false, asked);
    } else if (asked) {
      this.#say("There is nothing to send yet: give a thumb, or say it in your words.", true);
      this.text.focus();
    } else this.#say("");
  }

  /** Something is new, and there is no consent to send it. */
  #unsent(asked, back) {
    if (asked) this.#say(`${back ? `${BACK} Nothing new` : "Nothing"} was sent: switch on “Keep this conversation” first, if you agree.`, true);
    else if (back) this.#say(BACK);
    if (asked) this.switch.focus();
  }

  #say(text, wrong = false) {
    this.state.textContent = text;
    this.state.classList.toggle("wrong", wrong);
  }
}
