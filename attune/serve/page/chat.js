// The chat: what is typed becomes a turn, the turn is heard and answered, and the answer can be asked about.

import { Trouble, analyze, models, reply, store } from "./api.js";
import { PersonBubble, ReplyBubble } from "./bubbles.js";
import { Conversation, download } from "./conversation.js";
import { find, node } from "./dom.js";
import { consent } from "./feedback.js";
import { clearNotice, say, sayTrouble } from "./notice.js";
import { Wheel, shares, sounds } from "./wheel.js";
import { openWhy } from "./why.js";
import { INTENTS, STARTERS, colour } from "./words.js";

const LONGEST = 10_000; // characters of one message that are read

const talk = new Conversation();
const message = find("message");
const scroll = find("scroll");
const wheels = [new Wheel(), new Wheel({ words: false })];
let known = []; // the systems of the server
let under = null; // the reply under way: its AbortController
let tries = 0; // how often the last message was answered again

// -------------------------------------------------------------------------------------------------------- answering

function send(text) {
  clearNotice();
  tries = 0;
  addPerson(talk.add({ role: "user", content: text }));
  follow();
  answer();
}

async function answer() {
  if (under) return;
  const person = talk.turns.at(-1);
  const turn = { role: "assistant", content: "" };
  const bubble = addReply(turn);
  const { signal } = (under = new AbortController());
  // The page keeps the conversation; the server is asked not to. Asked again, it weighs several replies, which cannot be streamed.
  const request = { model: find("system").value || undefined, messages: talk.messages(), stream: !tries, store: false };
  if (find("intent").value) request.intent = find("intent").value;
  if (tries) request.seed = tries;
  clearNotice();
  working(true);
  follow();
  hear(person, request, signal);
  try {
    for await (const { id, model, text, attune } of reply(request, signal)) {
      const low = isLow();
      Object.assign(turn, { id, model });
      if (text) bubble.write(text);
      if (attune) {
        turn.reply = attune;
        if (attune.emotion) heard(person, { ...person.heard, emotion: attune.emotion, emotions: attune.emotions });
      }
      if (low) follow();
    }
    settle(turn, bubble, person);
  } catch (error) {
    turn.stopped = true;
    settle(turn, bubble, person);
    if (signal.aborted) {
      if (talk.turns.at(-1) === person) say("Stopped before anything was said.", ["Ask again", answer]);
    } else failed(error, person);
  } finally {
    if (under?.signal === signal) working(false);
  }
}

/** Show what is felt while the reply is being made. The reply brings the same at its end, so trouble here is passed over. */
async function hear(person, { messages, model }, signal) {
  try {
    heard(person, await analyze(messages, model, signal));
  } catch (error) {
    if (!(error instanceof Trouble) && !signal.aborted) throw error;
  }
}

function heard(person, found) {
  if (!talk.turns.includes(person)) return;
  person.heard = { ...found, graph: found.graph ?? person.heard?.graph };
  talk.keep();
  person.bubble?.hear(person.heard);
  if (talk.turns.findLast((turn) => turn.role === "user") === person) feel(person.heard);
}

/** Keep what was said, or take the bubble away: an empty one, or one of a conversation that is gone. */
function settle(turn, bubble, person) {
  turn.content = turn.content.trim();
  if (!turn.content || !talk.turns.includes(person)) return bubble.remove();
  const low = isLow();
  talk.add(turn);
  bubble.finish();
  onlyLastAgain();
  find("spoken").textContent = `Attune: ${turn.content}`;
  if (low) follow();
}

function failed(error, person) {
  if (!(error instanceof Trouble)) throw error;
  const partial = talk.turns.at(-1) !== person;
  if (error.kind === "long" || error.kind === "refused") {
    if (!partial) takeBack(person);
    const more = error.kind === "long" && talk.turns.length > 1 ? [["New conversation", begin]] : [];
    say(partial ? error.message : `${error.message} Your words are back in the box.`, ...more);
  } else sayTrouble(error, partial ? again : answer);
}

/** A message that was refused goes back into the box, to be changed. */
function takeBack(person) {
  person.bubble.element.remove();
  talk.cut(person);
  message.value = person.content;
  grow();
  greet();
}

/** Answer the last message once more, in another way. */
function again() {
  if (under) return;
  const last = talk.turns.at(-1);
  if (last.role === "assistant") {
    talk.cut(last);
    find("messages").lastElementChild.remove();
  }
  tries += 1;
  message.focus();
  answer();
}

function stop() {
  under?.abort();
}

function working(on) {
  if (!on) under = null;
  find("send").hidden = on;
  find("stop").hidden = !on;
  if (document.activeElement === document.body) message.focus();
  onlyLastAgain();
}

// ---------------------------------------------------------------------------------------------------------- showing

function addPerson(turn) {
  const bubble = new PersonBubble(turn);
  Object.defineProperty(turn, "bubble", { value: bubble, enumerable: false, configurable: true }); // not kept, not exported
  find("messages").append(bubble.element);
  greet();
}

function addReply(turn) {
  const bubble = new ReplyBubble(turn, {
    why: () => openWhy(turn, talk.before(turn)?.heard),
    again,
    keep: () => talk.keep(),
    messages: () => talk.messages(turn),
    doing: tries ? "Attune is weighing several replies" : "Attune is thinking",
  });
  find("messages").append(bubble.element);
  return bubble;
}

function onlyLastAgain() {
  const buttons = [...document.querySelectorAll(".again")];
  buttons.forEach((button, i) => (button.hidden = Boolean(under) || i + 1 < buttons.length));
}

/** The wheel, the words, and the faint light of the page. */
function feel(found) {
  const { emotion, emotions } = found ?? {};
  for (const wheel of wheels) wheel.show(emotions);
  find("sounds").replaceChildren(...(found ? sounds(emotions) : ["Nothing yet. Tell it something."]));
  find("shares").replaceChildren(...shares(emotions));
  find("feeling").classList.toggle("felt", Boolean(emotion));
  document.documentElement.style.setProperty("--felt", emotion ? colour(emotion) : "var(--sun)");
}

function greet() {
  find("welcome").hidden = talk.turns.length > 0;
  find("export").disabled = talk.turns.length === 0;
}

function showAll() {
  find("messages").replaceChildren();
  for (const turn of talk.turns) {
    if (turn.role === "user") addPerson(turn);
    else addReply(turn).finish();
  }
  feel(talk.turns.findLast((turn) => turn.role === "user")?.heard);
  greet();
  onlyLastAgain();
  if (talk.turns.length) follow();
}

function isLow() {
  return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 90;
}

function follow() {
  scroll.scrollTop = scroll.scrollHeight;
}

// ------------------------------------------------------------------------------------------------ beginning and keeping

function begin() {
  stop();
  const before = talk.turns;
  talk.replace([]);
  showAll();
  message.focus();
  if (before.length) {
    say("This is a new conversation. The last one is gone from this tab.", ["Bring it back", () => (stop(), talk.replace(before), showAll())]);
  }
}

async function meet() {
  try {
    known = (await models()).filter((one) => !one.attune?.capabilities || one.attune.capabilities.includes("reply"));
  } catch (error) {
    if (!(error instanceof Trouble)) throw error;
    return sayTrouble(error, meet);
  }
  store().then(keeps, () => {});
  const usual = known.find((one) => one.attune?.default) ?? known[0];
  find("system").replaceChildren(...known.map((one) => node("option", { value: one.id, selected: one === usual }, one.id)));
  licence();
  if (talk.turns.at(-1)?.role === "user") say("Your last message has no answer yet.", ["Ask again", answer]);
}

/** Say whether feedback can be kept at all. */
function keeps(where) {
  consent.possible = where !== "none";
  find("keeps").textContent = consent.possible ? "" : "This server keeps no feedback; what you note stays in this tab and its export.";
}

function licence() {
  const chosen = known.find((one) => one.id === find("system").value);
  const terms = chosen?.attune?.licence;
  find("licence").textContent = terms ? `Weights: ${terms}.` : "";
  find("about-licence").textContent = `Attune’s code is under Apache-2.0.${terms ? ` The weights of the system “${chosen.id}” are under ${terms}.` : ""}`;
}

// ------------------------------------------------------------------------------------------------------------- wiring

function grow() {
  message.style.height = "auto";
  message.style.height = `${message.scrollHeight}px`;
  const over = message.value.trim().length - LONGEST;
  const near = over > -LONGEST / 10;
  find("count").textContent = over > 0 ? `${over.toLocaleString("en")} characters too many` : near ? `${-over} left` : "";
  find("count").classList.toggle("over", over > 0);
  message.setAttribute("aria-invalid", String(over > 0));
}

function submit(event) {
  event?.preventDefault();
  const text = message.value.trim();
  if (!text || under) return;
  if (text.length > LONGEST) return say(`This message is too long: ${text.length.toLocaleString("en")} characters, and at most ${LONGEST.toLocaleString("en")} are read. Please shorten it.`);
  message.value = "";
  grow();
  message.focus();
  send(text);
}

function dark() {
  const set = document.documentElement.dataset.theme;
  return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function showTheme() {
  find("dark").setAttribute("aria-pressed", String(dark()));
}

function wire() {
  for (const wheel of wheels) find("wheel").append(wheel.element);
  wheels[1].element.classList.add("little");
  find("intent").append(node("option", { value: "" }, "freely"), ...Object.entries(INTENTS).map(([intent, meant]) => node("option", { value: intent }, `${intent} – ${meant}`)));
  find("starters").append(...STARTERS.map((text) => node("li", {}, node("button", { type: "button", on: { click: () => (message.focus(), send(text)) } }, text))));
  find("composer").addEventListener("submit", submit);
  message.addEventListener("input", grow);
  message.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  });
  find("stop").addEventListener("click", () => (stop(), message.focus()));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open]")) stop();
  });
  find("system").addEventListener("change", licence);
  find("new").addEventListener("click", begin);
  find("export").addEventListener("click", () => download(talk.exported(), `attune-${new Date().toISOString().slice(0, 10)}.json`));
  find("open-about").addEventListener("click", () => find("about").showModal());
  find("latest").addEventListener("click", () => (follow(), message.focus()));
  scroll.addEventListener("scroll", () => (find("latest").hidden = isLow()));
  find("dark").addEventListener("click", () => {
    const next = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try {
      sessionStorage.setItem("attune.theme", next);
    } catch {
      // for this page only
    }
    showTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
  for (const box of document.querySelectorAll("input.consent")) consent.tie(box);
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }
}

wire();
showTheme();
showAll();
grow();
meet();
