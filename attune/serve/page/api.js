// What the page asks of the server it came from, and what can go wrong, in words for people.

/** Something went wrong. `kind`: away, busy, long, key, late, broken or refused; `wait` is in seconds. */
export class Trouble extends Error {
  constructor(kind, message, wait = null) {
    super(message);
    this.kind = kind;
    this.wait = wait;
  }
}

let key = remembered();

/** Use a key from now on; it is kept in this tab only. */
export function useKey(given) {
  key = given;
  try {
    sessionStorage.setItem("attune.key", given);
  } catch {
    // kept in memory only
  }
}

export async function models() {
  return (await (await ask("/v1/models")).json()).data;
}

/** What is felt in a conversation, what comes to mind, and the graph of both. */
export async function analyze(messages, model, signal) {
  return (await ask("/v1/analyze", { messages, model }, signal)).json();
}

/** Keep what a person thinks of a reply; the id by which it can be erased. Call it only with their consent. */
export async function feedback(about) {
  return (await (await ask("/v1/feedback", { ...about, consent: true })).json()).id;
}

/** Erase what was kept under an id. Nothing else is sent. */
export async function retract(id) {
  await ask(`/v1/feedback/${id}`, null, null, "DELETE");
}

/** Whether this server keeps feedback: "ok", "away", or "none"; null if it does not say. */
export async function store() {
  return (await (await ask("/health")).json()).store ?? null;
}

/** A reply, piece by piece: yields {id, model, text} as it comes, with `attune` once, at the end. Not streamed, it comes as one piece. */
export async function* reply(request, signal) {
  const response = await ask("/v1/chat/completions", request, signal);
  if (!request.stream) {
    const { id, model, choices, attune } = await response.json();
    yield { id, model, text: choices[0].message.content, attune };
    return;
  }
  let ended = false;
  for await (const data of events(response, signal)) {
    if (data === "[DONE]") {
      ended = true;
      break;
    }
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Trouble("broken", chunk.error.message ?? "The server could not finish this reply.");
    const { id, model, choices, attune } = chunk;
    yield { id, model, text: choices?.[0]?.delta?.content, attune };
  }
  if (!ended) throw new Trouble("broken", "The connection broke off before the reply was finished.");
}

async function* events(response, signal) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (waiting + value).split(/\r?\n\r?\n/);
      waiting = parts.pop();
      for (const part of parts) {
        const data = part.split(/\r?\n/).filter((line) => line.startsWith("data:"));
        if (data.length) yield data.map((line) => line.slice(5).trimStart()).join("\n");
      }
    }
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Trouble("broken", "The connection broke off before the reply was finished.");
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function ask(path, body, signal, method = body ? "POST" : "GET") {
  const headers = { ...(body && { "Content-Type": "application/json" }), ...(key && { Authorization: `Bearer ${key}` }) };
  const sent = body && JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, { method, headers, body: sent, signal, credentials: "same-origin" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Trouble("away", "The server does not answer. Is it running, and are you online?");
  }
  if (!response.ok) throw await troubleOf(response);
  return response;
}

async function troubleOf(response) {
  const said = await response.json().then(message, () => null);
  switch (response.status) {
    case 401:
    case 403:
      return new Trouble("key", said ?? "This server asks for a key.");
    case 413:
      return new Trouble("long", said ?? "This is longer than the server reads.");
    case 429:
      return new Trouble("busy", "Many people are talking just now.", waitOf(response));
    case 503:
    case 504:
      return new Trouble("late", said ?? "The server did not find the time to answer.");
    default:
      return new Trouble("refused", said ?? `The server answered ${response.status}.`);
  }
}

function waitOf(response) {
  const after = response.headers.get("Retry-After") ?? "";
  const seconds = /^\d+$/.test(after) ? Number(after) : (Date.parse(after) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.min(Math.max(Math.ceil(seconds), 1), 600) : 5;
}

/** The sentence in an error's body, whichever of the usual shapes it has. */
function message(body) {
  const said = body?.error?.message ?? body?.message ?? body?.detail;
  if (Array.isArray(said)) return said.map((one) => one.msg).join("; ") || null;
  return typeof said === "string" ? said : null;
}

function remembered() {
  try {
    return sessionStorage.getItem("attune.key");
  } catch {
    return null;
  }
}
