// Addresses and telephone numbers in a text, as links.

import { node } from "./dom.js";

const ADDRESS = /https:\/\/[^\s<>"')]+[^\s<>"').,;:]/;
// Three digits or more in a row, or five or more in groups; two only after who answers. No part of a word, a time, a date or "24/7".
const GAP = "[ \\u00a0-]";
const YEAR = "(?:19|20)\\d\\d";
const DATE = `(?!${YEAR}-)(?!(?<=\\b(?:in|since|until|from|of|by|before|after)\\s)${YEAR}(?!${GAP}?\\d))`;
const DIGITS = `(?:\\(\\d{2,}\\)${GAP}?)?\\d(?:${GAP}?\\d){4,}|\\d{3,}|(?<=\\b(?:ambulance|police|fire)\\s)\\d\\d`;
const COUNTED = `(?!${GAP}?(?:%|(?:am|pm|h|hours?|minutes?|days?|weeks?|years?|times|people|languages)\\b))`;
const NUMBER = `(?<![\\w+/:.,)-]|\\d${GAP})${DATE}\\+?(?:${DIGITS})(?![\\w/%]|[:.,-]\\d)${COUNTED}`;
const LINK = new RegExp(`(${ADDRESS.source}|${NUMBER})`, "i");
const TO_TEXT = /(?<!\bor )\btext\b(?!.*\bcall\b)[^.,;:]{0,24}$/i; // what stands before a number that is only written to

/** A text in parts, of which addresses and numbers are links; they open apart, and only when asked to. */
export function linked(text) {
  return text.split(LINK).map((part, i, parts) => {
    if (i % 2 === 0) return part;
    if (part.startsWith("https:")) return node("a", { href: part, target: "_blank", rel: "noopener noreferrer" }, part.replace("https://", ""));
    const scheme = TO_TEXT.test(parts[i - 1]) ? "sms" : "tel";
    return node("a", { href: `${scheme}:${part.replace(/[^\d+]/g, "")}` }, part);
  });
}
