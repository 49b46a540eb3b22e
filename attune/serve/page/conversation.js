// The conversation: a list of turns in memory, with a copy for this tab only, so that a reload does not lose it.

const PLACE = "attune.conversation";

/**
 * A turn is {role, content} and, of the person: `heard` (the analysis); of Attune: `id`, `model` (the system), `reply` (what the
 * server said about it), `stopped`, `thumb`, `better`, and `kept`: {id, thumb, better} of the feedback that the server keeps.
 */
export class Conversation {
  constructor() {
    this.turns = [];
    try {
      const kept = JSON.parse(sessionStorage.getItem(PLACE));
      if (Array.isArray(kept)) this.turns = kept;
    } catch {
      // nothing kept, or nothing that can be read
    }
  }

  add(turn) {
    this.turns.push(turn);
    this.keep();
    return turn;
  }

  /** The turn before another. */
  before(turn) {
    return this.turns[this.turns.indexOf(turn) - 1];
  }

  /** Take away a turn and what follows it. */
  cut(turn) {
    const place = this.turns.indexOf(turn);
    if (place >= 0) this.turns.length = place;
    this.keep();
  }

  replace(turns) {
    this.turns = turns;
    this.keep();
  }

  /** The messages up to and including a turn, as the server reads them. */
  messages(last = this.turns.at(-1)) {
    const upTo = this.turns.slice(0, this.turns.indexOf(last) + 1);
    return upTo.map(({ role, content }) => ({ role, content }));
  }

  keep() {
    try {
      sessionStorage.setItem(PLACE, JSON.stringify(this.turns));
    } catch {
      // full or forbidden: memory is enough
    }
  }

  /** The whole as a file that `attune explain --dialogue` and every other verb reads (the format `chat`). */
  exported() {
    const messages = this.turns.map(({ role, content, heard, reply, stopped, thumb, better, kept }) => {
      const { reply_id, ...why } = reply ?? {};
      const said = { emotion: heard?.emotion, emotions: heard?.emotions, attune: reply ? why : undefined };
      return { role, content, ...said, stopped: stopped || undefined, thumb: thumb ?? undefined, better: better ?? undefined, feedback: kept?.id };
    });
    return JSON.stringify({ id: `chat-${new Date().toISOString()}`, messages }, null, 2);
  }
}

/** Hand a text to the person as a file, without any server. */
export function download(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
