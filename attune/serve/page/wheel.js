// The 32 emotions drawn: a wheel whose petals grow with their share, and a small ribbon. Words always stand beside them.

import { node, shape } from "./dom.js";
import { EMOTIONS, colour, percent, ranked, sentence } from "./words.js";

const REACH = 100; // of the longest petal
const STEP = 360 / EMOTIONS.length;
const REST = 0.5; // how long a petal is when nothing is heard

const PETAL = "M0 -6C-5 -30 -17 -92 0 -100C17 -92 5 -30 0 -6z"; // as long as REACH

/** A wheel that can change: the strongest emotion has the longest petal, the others stand in proportion. With `words`, each petal has its emotion at the rim. */
export class Wheel {
  constructor({ words = true } = {}) {
    this.least = words ? 0.24 : 0.42; // of a petal without a share; a small wheel is still to look like one
    const edge = words ? 176 : REACH + 4;
    this.petals = new Map();
    this.labels = new Map();
    const petals = EMOTIONS.map((emotion, i) => {
      const petal = shape("path", {
        d: PETAL,
        class: "petal",
        style: { "--turn": `${i * STEP}deg`, "--tint": colour(emotion) },
      });
      this.petals.set(emotion, petal);
      return petal;
    });
    const labels = words ? EMOTIONS.map((emotion, i) => this.#label(emotion, i * STEP)) : [];
    this.element = shape(
      "svg",
      { viewBox: `${-edge} ${-edge} ${2 * edge} ${2 * edge}`, class: "flower", role: "img" },
      shape("circle", { r: REACH + 3, class: "ring" }),
      ...petals,
      shape("circle", { r: 8, class: "heart" }),
      ...labels,
    );
    this.show({});
  }

  #label(emotion, angle) {
    const left = angle > 180;
    const label = shape(
      "text",
      {
        transform: `rotate(${angle - 90}) translate(${REACH + 10} 0)${left ? " rotate(180)" : ""}`,
        "text-anchor": left ? "end" : "start",
        dy: "0.34em",
      },
      emotion,
    );
    this.labels.set(emotion, label);
    return label;
  }

  show(emotions) {
    const order = ranked(emotions);
    const most = order[0]?.[1] || 1;
    const top = new Set(strongest(emotions).map(([emotion]) => emotion));
    for (const [emotion, petal] of this.petals) {
      const share = emotions?.[emotion] ?? 0;
      const length = order.length ? this.least + (1 - this.least) * Math.sqrt(share / most) : REST;
      petal.style.setProperty("--long", length.toFixed(3));
      petal.style.setProperty("--wide", (0.3 + 0.7 * length).toFixed(3));
      petal.classList.toggle("top", top.has(emotion));
      this.labels.get(emotion)?.classList.toggle("top", top.has(emotion));
    }
    this.element.classList.toggle("resting", !order.length);
    this.element.setAttribute("aria-label", inWords(emotions, 5));
  }
}

/** Thirty-two small bars in the order of the wheel, and the strongest emotions as words. */
export function ribbon(emotions) {
  const bars = EMOTIONS.map((emotion, i) => {
    const height = 2 + 14 * Math.sqrt(emotions?.[emotion] ?? 0);
    const box = { x: i * 4, y: 16 - height, width: 3, height, rx: 1.2 };
    return shape("rect", { ...box, style: { "--tint": colour(emotion) } });
  });
  const drawn = shape("svg", { viewBox: "0 0 127 16", width: 127, height: 16, class: "bars", "aria-hidden": "true" }, ...bars);
  const words = strongest(emotions).map(([emotion, share]) =>
    node("span", { class: "felt" }, node("b", {}, emotion), ` ${percent(share)}`),
  );
  return node("p", { class: "ribbon" }, drawn, node("span", { class: "unseen" }, "Attune hears: "), ...words);
}

/** The few emotions that are worth a word. */
function strongest(emotions) {
  return ranked(emotions)
    .slice(0, 3)
    .filter(([, share], i) => i === 0 || share >= 0.05);
}

/** The strongest emotions as a list with bars. */
export function shares(emotions, most = 5) {
  return ranked(emotions)
    .slice(0, most)
    .map(([emotion, share]) =>
      node(
        "li",
        { style: { "--tint": colour(emotion), "--share": share } },
        node("span", { class: "word" }, emotion),
        node("span", { class: "track", "aria-hidden": "true" }, node("i")),
        node("span", { class: "number" }, percent(share)),
      ),
    );
}

/** "You may feel lonely, perhaps sad." with the emotions set apart. */
export function sounds(emotions) {
  return sentence(emotions).map(([text, felt]) => (felt ? node("em", { style: { "--tint": colour(text) } }, text) : text));
}

export function inWords(emotions, most) {
  const order = ranked(emotions).slice(0, most);
  return order.length ? order.map(([emotion, share]) => `${emotion} ${percent(share)}`).join(", ") : "Nothing heard yet";
}
