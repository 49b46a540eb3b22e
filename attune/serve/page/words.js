// The words of the page: emotions in the order of the wheel, intents, and how numbers and relations are said.

/** Families of emotions around the wheel, so that neighbours feel alike. Each has a colour `--name` in base.css. */
export const FAMILIES = {
  joy: ["confident", "proud", "impressed", "surprised", "excited", "joyful"],
  warmth: ["grateful", "content", "caring", "trusting", "faithful"],
  longing: ["sentimental", "nostalgic", "lonely"],
  sorrow: ["sad", "devastated", "disappointed"],
  shame: ["guilty", "ashamed", "embarrassed"],
  anger: ["jealous", "disgusted", "annoyed", "angry", "furious"],
  fear: ["terrified", "afraid", "anxious", "apprehensive"],
  expectation: ["anticipating", "hopeful", "prepared"],
};
export const EMOTIONS = Object.values(FAMILIES).flat();
const FAMILY = Object.fromEntries(Object.entries(FAMILIES).flatMap(([name, all]) => all.map((one) => [one, name])));

export const INTENTS = {
  agreeing: "say yes to it",
  acknowledging: "show that it was heard",
  encouraging: "give heart",
  consoling: "comfort",
  sympathizing: "feel with you",
  suggesting: "offer an idea",
  questioning: "ask further",
  wishing: "wish you something good",
};

export const STARTERS = [
  "I finally got the job I have wanted for years!",
  "My old dog died on Monday, and the house is so quiet.",
  "I have an exam tomorrow and I cannot sleep.",
  "My best friend forgot my birthday.",
];

/** The colour of an emotion, as CSS. */
export function colour(emotion) {
  return FAMILY[emotion] ? `var(--${FAMILY[emotion]})` : "var(--neutral)";
}

/** Emotions with their shares, the strongest first. */
export function ranked(emotions) {
  return Object.entries(emotions ?? {}).sort((one, other) => other[1] - one[1]);
}

export function percent(share) {
  return share > 0 && share < 0.01 ? "under 1 %" : `${Math.round(share * 100)} %`;
}

/** What is heard, as a sentence of which each emotion is a part of its own: [text, isEmotion]. */
export function sentence(emotions) {
  const [first, second] = ranked(emotions);
  if (!first) return [["This system does not say what it hears.", false]];
  const sure = first[1] >= 0.6 ? "You sound " : "You may feel ";
  const said = [[sure, false], [first[0], true]];
  if (second && second[1] >= 0.1 && second[1] >= first[1] / 4) said.push([", perhaps ", false], [second[0], true]);
  return [...said, [".", false]];
}

/** A relation as it is spoken: "HasSubevent" is "has subevent". */
export function spoken(relation) {
  return (relation ?? "").replaceAll("/", " ").replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase();
}

export function milliseconds(time) {
  return time >= 1000 ? `${(time / 1000).toFixed(1)} s` : `${Math.round(time)} ms`;
}
