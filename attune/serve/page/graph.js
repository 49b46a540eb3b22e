// The emotional context graph, drawn as `attune explain` draws it: words stand on the ground in reading order, concepts grow
// from the words they belong to, and CLS shines on all of them. What size and colour say is also said in each title.

import { shape } from "./dom.js";
import { spoken } from "./words.js";

const MARGIN = 14;
const SKY = 56; // above the first turn
const GROUND = 34; // from the ground to the end of its band
const FIRST = 36; // from the ground to the lowest concept
const LEVEL = 35; // from one concept to the one above it
const MOST = 90; // words; of more, those with concepts and the last ones are drawn
const LABEL = "600 13px";
const PLAIN = "13px";
const SMALL = "10.5px";

const pen = document.createElement("canvas").getContext("2d");

/** The graph as SVG, `width` units wide. */
export function drawGraph(graph, width) {
  const { words, concepts } = planted(graph, width);
  const rows = flow(words, width);
  const height = stand(rows, width);
  const sun = { x: width / 2, y: 26, r: 13 };
  const all = rows.flatMap((row) => row.words);
  for (const word of all) for (const concept of word.concepts) place(concept, word);
  const shown = concepts.filter((concept) => concept.x !== undefined);
  const about = `${words.length} words in reading order and ${concepts.length} concepts that grow from them: ${concepts
    .map((concept) => `${concept.words[0].text} ${concept.relation} ${concept.text}`)
    .join("; ")}.`;
  return shape(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "graph", role: "img", "aria-label": `Emotional context graph. ${about}` },
    ...bands(rows, width),
    shape("g", { class: "rays" }, ...[...all, ...shown].map((one) => shape("path", { d: `M${sun.x} ${sun.y} ${one.x} ${one.y}` }))),
    shape("g", { class: "steps" }, ...steps(rows)),
    shape("g", { class: "stems" }, ...shown.flatMap((concept) => stems(concept, all))),
    shape(
      "g",
      { class: "cls" },
      shape("title", {}, "CLS: joined to every word and concept"),
      shape("circle", { cx: sun.x, cy: sun.y, r: sun.r * 1.7, class: "halo" }),
      shape("circle", { cx: sun.x, cy: sun.y, r: sun.r }),
      shape("text", { x: sun.x, y: sun.y + 3.3 }, "CLS"),
    ),
    ...all.map(drawnWord),
    ...shown.map(drawnConcept),
  );
}

/** Words with the concepts that grow from them. A concept grows from the first word that leads to it. */
function planted(graph, width) {
  const room = width / 2 - MARGIN - 46;
  const words = new Map();
  const concepts = new Map();
  for (const { id, text, kind, intensity, valence, turn, role } of graph.nodes) {
    const one = { id, text, intensity: intensity ?? 0, feeling: feeling(valence), r: 0 };
    if (kind === "concept") concepts.set(id, { ...one, r: 4 + 7 * one.intensity, words: [], relation: "", label: fitted(text, LABEL, room) });
    else if (kind === "word") {
      const label = fitted(text, LABEL, room);
      words.set(id, { ...one, r: 2.2 + 6 * one.intensity, turn: turn ?? 0, role, concepts: [], label, half: Math.max(wide(label, LABEL) / 2, 7) });
    }
  }
  for (const { from, to, relation } of graph.edges) {
    const concept = concepts.get(to) ?? concepts.get(from);
    const word = words.get(concepts.has(to) ? from : to);
    if (!concept || !word || concept.words.includes(word)) continue;
    if (!concept.words.length) {
      concept.relation = spoken(relation);
      word.concepts.push(concept);
    }
    concept.words.push(word);
  }
  for (const word of words.values()) {
    word.concepts.forEach((concept, i) => {
      concept.small = fitted(concept.relation, SMALL, room);
      const alone = i % 2 === 0 && i + 1 === word.concepts.length;
      concept.side = alone ? 0 : i % 2 ? -1 : 1;
      concept.level = Math.floor(i / 2);
    });
  }
  let drawn = [...words.values()];
  if (drawn.length > MOST) {
    const bare = drawn.filter((word) => !word.concepts.length);
    const left = new Set(bare.slice(0, drawn.length - MOST));
    drawn = drawn.filter((word) => !left.has(word));
  }
  return { words: drawn, concepts: [...concepts.values()].filter((concept) => concept.words.length) };
}

/** Words into rows as wide as the drawing; a turn begins a new row. */
function flow(words, width) {
  const rows = [];
  let row = null;
  let free = 0; // where the ground is free from
  let air = 0; // and the air above it
  for (const word of words) {
    const [left, right] = reach(word);
    let x = Math.max(free + word.half + 7, word.concepts.length ? air + left : 0, MARGIN + left);
    if (!row || row.turn !== word.turn || x + right > width - MARGIN) {
      row = { turn: word.turn, role: word.role, first: !row || row.turn !== word.turn, words: [] };
      rows.push(row);
      x = Math.max(MARGIN + left, MARGIN + 8 + word.half);
      air = 0;
    }
    word.x = x;
    row.words.push(word);
    free = x + word.half;
    if (word.concepts.length) air = x + right + 10;
  }
  return rows;
}

/** How far a word and its concepts reach to the left and to the right. */
function reach(word) {
  const far = { "-1": word.half, 1: word.half };
  for (const concept of word.concepts) {
    const label = Math.max(wide(concept.label, LABEL), wide(concept.small, SMALL));
    const side = concept.side || 1;
    far[side] = Math.max(far[side], lean(concept) + concept.r + 5 + label);
  }
  return [far[-1], far[1]];
}

/** Spread each row over the width and give it its height; returns the height of the whole. */
function stand(rows, width) {
  let y = SKY;
  rows.forEach((row, i) => {
    row.last = i + 1 === rows.length || rows[i + 1].first;
    const levels = Math.max(0, ...row.words.flatMap((word) => word.concepts.map((concept) => concept.level + 1)));
    row.top = y;
    row.ground = y + (row.first && row.role ? 20 : 8) + (levels ? FIRST + LEVEL * (levels - 1) + 16 : 10);
    y = row.ground + GROUND + (row.last ? 8 : 0);
    const slack = width - MARGIN - Math.max(...row.words.map((word) => word.x + reach(word)[1]));
    const apart = Math.min(slack / Math.max(row.words.length - 1, 1), 16);
    const start = (slack - apart * (row.words.length - 1)) / 2;
    row.words.forEach((word, j) => {
      word.x += start + j * apart;
      word.y = row.ground;
    });
  });
  return y;
}

function place(concept, word) {
  concept.x = word.x + concept.side * lean(concept);
  concept.y = word.y - FIRST - LEVEL * concept.level;
}

function lean({ side, level }) {
  return side ? Math.max(30 - 9 * level, 13) : 0;
}

function* bands(rows, width) {
  let top = SKY;
  for (const row of rows) {
    if (row.first) top = row.top;
    if (!row.last) continue;
    const box = { x: 2, y: top, width: width - 4, height: row.ground + GROUND - top - 4, rx: 12 };
    const name = row.role ? [shape("text", { x: 14, y: top + 17, class: "name" }, row.role === "speaker" ? "You" : "Attune")] : [];
    yield shape("g", { class: `band ${row.role ?? "speaker"}` }, shape("rect", box), ...name);
  }
}

/** Each word is joined to the word before it. */
function* steps(rows) {
  for (const row of rows)
    for (const [i, word] of row.words.entries()) {
      if (!i) continue;
      const before = row.words[i - 1];
      const end = before.x + before.r + 3;
      yield shape("path", { d: `M${word.x - word.r - 2} ${word.y}H${end}m4 -2.6l-4 2.6l4 2.6` });
    }
}

function stems(concept, drawn) {
  return concept.words
    .filter((word) => drawn.includes(word))
    .map((word, i) => {
      const bend = (word.y + concept.y) / 2;
      const d = `M${word.x} ${word.y - word.r}C${word.x} ${bend} ${concept.x} ${bend} ${concept.x} ${concept.y + concept.r}`;
      return shape("path", { d, class: i ? "stem far" : "stem" });
    });
}

function drawnWord(word) {
  const plain = !word.concepts.length && word.intensity < 0.15;
  return shape(
    "g",
    { class: `word ${word.feeling}${plain ? " plain" : ""}`, style: { "--i": word.intensity } },
    shape("title", {}, `${word.text}: word, intensity ${word.intensity.toFixed(2)}`),
    shape("circle", { cx: word.x, cy: word.y, r: word.r }),
    shape("text", { x: word.x, y: word.y + 21 }, word.label),
  );
}

function drawnConcept(concept) {
  const left = concept.side < 0;
  const x = concept.x + (left ? -1 : 1) * (concept.r + 5);
  const said = `${concept.words[0].text} ${concept.relation} ${concept.text}`;
  return shape(
    "g",
    { class: `concept ${concept.feeling}${left ? " left" : ""}`, style: { "--i": concept.intensity } },
    shape("title", {}, `${said}: concept, intensity ${concept.intensity.toFixed(2)}`),
    shape("circle", { cx: concept.x, cy: concept.y, r: concept.r + 4, class: "halo" }),
    shape("circle", { cx: concept.x, cy: concept.y, r: concept.r }),
    shape("text", { x, y: concept.y + 1 }, concept.label),
    shape("text", { x, y: concept.y + 13.5, class: "relation" }, concept.small),
  );
}

/** Pleasant, unpleasant or neither; without a valence the graph has one colour. */
function feeling(valence) {
  if (valence === null || valence === undefined) return "unknown";
  return valence > 0.55 ? "pleasant" : valence < 0.45 ? "unpleasant" : "neutral";
}

function fitted(text, size, room) {
  if (wide(text, size) <= room) return text;
  let cut = text;
  while (cut && wide(`${cut}…`, size) > room) cut = cut.slice(0, -1);
  return `${cut.trimEnd()}…`;
}

function wide(text, size) {
  pen.font = `${size} ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}
