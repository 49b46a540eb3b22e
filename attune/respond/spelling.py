"""Replies as people like to read them. Corpora are typed in haste, and a system that learnt from them types so too. English only."""

from __future__ import annotations

import re

_NOT = "ain|aren|can|couldn|didn|doesn|don|hadn|hasn|haven|isn|mustn|needn|shouldn|wasn|weren|won|wouldn"
_IS = "he|here|how|she|that|there|what|where|who"
_MISSING = {
    **{f"{verb}t": f"{verb}'t" for verb in _NOT.split("|")},
    **{f"{word}s": f"{word}'s" for word in _IS.split("|")},
    **{f"{who}{end}": f"{who}'{end}" for who in ("you", "they") for end in ("re", "ve", "ll", "d")},
    **{f"{verb}ve": f"{verb}'ve" for verb in ("could", "should", "would", "might", "must")},
    "im": "I'm",
    "ive": "I've",
    "itll": "it'll",
    "thatll": "that'll",
    "yall": "y'all",
}
_OPENING = {"lets": "let's"}  # "She lets me in" is right; nothing but a proposal begins with it
_WORD = re.compile(r"(?<![\w'’.@#/-])(?:[Ii](?=['’](?:m|ve|ll|d)\b)|[A-Za-z]+(?!['’\w]))(?![@/-]|\.\w)")
_ENDS = re.compile(r"(?:^|(?:(?<!\.)\.|[!?])[\"'”’)]*\s+)[\"'“‘(]*$")
_SHORT = re.compile(r"(?:\b(?:dr|mr|mrs|ms|st|vs|etc|approx)|\.\w)\.\s+$", re.IGNORECASE)


def spelled(text: str, before: str = "") -> str:
    """A text with the apostrophes and capitals that were left out; `before` is what was said before it in the same reply.

    Words of which one cannot be sure stay as they are: "its", "were", "ill".

    >>> spelled("thats awful! i dont know what id do, im so sorry. its hard.")
    "That's awful! I don't know what id do, I'm so sorry. Its hard."
    >>> spelled(" how is she now?", "Oh no!"), spelled(" how is she now?", "Oh no,")
    (' How is she now?', ' how is she now?')
    """
    whole = before + text

    def mended(word: re.Match[str]) -> str:
        found, start = word[0], len(before) + word.start()
        plain = found.lower() if found == found.capitalize() or found.islower() else found
        opens = _opens(whole[:start])
        shown = "I" if plain == "i" else _MISSING.get(plain) or (opens and _OPENING.get(plain)) or found
        return shown[:1].upper() + shown[1:] if found[0].isupper() or (opens and found.islower()) else shown

    return _WORD.sub(mended, text)


def _opens(before: str) -> bool:
    """Whether a sentence begins after this."""
    return _ENDS.search(before) is not None and _SHORT.search(before) is None
