// The drawer that says why a reply is what it is.

import { find, node } from "./dom.js";
import { drawGraph } from "./graph.js";
import { Wheel, shares, sounds } from "./wheel.js";
import { INTENTS, milliseconds, spoken } from "./words.js";

const STAGES = { perceive: "hear", recall: "recall", decide: "decide", say: "say", guard: "check" };
const MOST_CONCEPTS = 8;

/**
 * Open the drawer for a turn of Attune's and what was heard before it. The browser keeps the focus inside, closes on Escape,
 * and gives the focus back.
 */
export function openWhy(turn, heardBefore) {
  const drawer = find("why");
  const said = turn.reply ?? {};
  const found = heardBefore ?? {};
  const body = find("why-body");
  drawer.showModal(); // the graph is drawn as wide as the drawer is
  body.replaceChildren(node("blockquote", { dir: "auto" }, turn.content));
  const parts = [guarded(said), heard(said.emotions ?? found.emotions)];
  if (said.guard?.action !== "answered") {
    // a message written beforehand has no other reasons, and a person at risk is spared what comes to a machine's mind
    const concepts = said.concepts?.length ? said.concepts : (found.concepts ?? []);
    parts.push(decided(said, found), recalled(concepts), graph(found.graph), considered(said, turn.content));
  }
  body.append(...[...parts, took(said)].filter(Boolean));
  body.scrollTop = 0;
}

function part(title, ...content) {
  return node("section", {}, node("h3", {}, title), ...content);
}

function guarded({ guard }) {
  if (!guard || (!guard.risk && (guard.action ?? "none") === "none")) return null;
  const done = {
    answered: "This message was written by people beforehand. Nothing was generated.",
    replaced: "What was generated was not fit to be said, so another reply took its place.",
    removed: "A part of what was generated was not fit to be said, so it was left out.",
  };
  const lines = [done[guard.action], guard.why && begun(guard.why)].filter(Boolean);
  const found = node("section", { class: "care" }, node("h3", {}, "With care"));
  found.append(...lines.map((line) => node("p", {}, line)));
  return found;
}

function heard(emotions) {
  if (!emotions || !Object.keys(emotions).length)
    return part("What it heard", node("p", { class: "none" }, "This system does not say which emotion it hears."));
  const wheel = new Wheel();
  wheel.show(emotions);
  const words = node("p", { class: "sounds" }, ...sounds(emotions));
  return part("What it heard", words, node("div", { class: "pair" }, wheel.element, node("ol", { class: "shares" }, ...shares(emotions))));
}

function decided({ intent, intent_why: why }, { intents }) {
  if (!intent) return part("What it decided", node("p", { class: "none" }, why ? begun(why) : "This system answers without choosing an intent first."));
  const others = Object.entries(intents ?? {})
    .filter(([name, share]) => name !== intent && share >= 0.03)
    .sort((one, other) => other[1] - one[1])
    .slice(0, 3);
  const meant = INTENTS[intent] ? ` to ${INTENTS[intent]}` : "";
  return part(
    "What it decided",
    node("p", {}, node("b", { class: "chip" }, intent), meant),
    why ? node("p", {}, begun(why)) : null,
    others.length
      ? node("p", { class: "small" }, `Also likely: ${others.map(([name, share]) => `${name} ${Math.round(share * 100)} %`).join(", ")}.`)
      : null,
  );
}

/** Words of the server as a sentence. */
function begun(said) {
  const text = said[0].toUpperCase() + said.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function recalled(concepts) {
  if (!concepts.length) return part("What came to mind", node("p", { class: "none" }, "No concept was used for this reply."));
  const best = Math.max(...concepts.map((concept) => concept.score ?? 0), Number.EPSILON);
  const rows = concepts.slice(0, MOST_CONCEPTS).map(({ head, relation, tail, score }) =>
    node(
      "li",
      { style: { "--share": (score ?? 0) / best } },
      node("span", { class: "said" }, node("b", {}, head), node("i", {}, ` ${spoken(relation)} `), node("b", {}, tail)),
      node("span", { class: "track", "aria-hidden": "true" }, node("i")),
      node("span", { class: "number" }, score === undefined || score === null ? "" : score.toFixed(2)),
    ),
  );
  return part("What came to mind", node("ol", { class: "concepts" }, ...rows));
}

function graph(found) {
  if (!found?.nodes?.some((one) => one.kind === "concept")) return null;
  const width = Math.max(Math.min(find("why-body").clientWidth - 48, 560), 300);
  return part(
    "The emotional context graph",
    node("p", { class: "small" }, "Concepts grow from the words they belong to. The larger a dot, the stronger the word."),
    node("figure", {}, drawGraph(found, width)),
  );
}

function considered({ candidates }, said) {
  if (!candidates?.length) return null;
  if (candidates.length === 1)
    return part("What else it could have said", node("p", { class: "none" }, "It said the first reply it thought of, as it came. “Another reply” weighs several."));
  const rows = candidates.map(({ text, score, refused }) => {
    const chosen = text.trim() === said.trim();
    const about = [score === undefined || score === null ? "" : score.toFixed(2), chosen && "said", refused && "refused"].filter(Boolean).join(" · ");
    return node("li", { class: chosen ? "chosen" : false, title: refused }, node("span", { dir: "auto" }, text), node("span", { class: "number" }, about));
  });
  return part("What else it could have said", node("ol", { class: "candidates" }, ...rows));
}

function took({ timings, system, licence }) {
  const stages = Object.entries(STAGES).filter(([stage]) => timings?.[stage] !== undefined);
  const whole = stages.reduce((sum, [stage]) => sum + timings[stage], 0) || 1;
  const bar = stages.map(([stage]) => node("i", { class: stage, style: { "--share": timings[stage] / whole } }));
  const list = stages.map(([stage, name]) =>
    node("li", {}, node("i", { class: stage, "aria-hidden": "true" }), `${name} `, node("b", {}, milliseconds(timings[stage]))),
  );
  if (timings?.total !== undefined) list.push(node("li", {}, "in all ", node("b", {}, milliseconds(timings.total))));
  const by = [system && `System: ${system}.`, licence && `Weights: ${licence}.`].filter(Boolean).join(" ");
  if (!list.length && !by) return null;
  return part(
    "How long it took",
    stages.length ? node("div", { class: "stages", "aria-hidden": "true" }, ...bar) : null,
    node("ul", { class: "legend" }, ...list),
    by ? node("p", { class: "small" }, by) : null,
  );
}
