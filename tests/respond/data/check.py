"""Checks the two sets of this folder and prints their counts: python tests/respond/data/check.py"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RISKS = ("self-harm", "harm-to-others", "abuse", "emergency")


def rows(name: str) -> list[dict[str, Any]]:
    with (HERE / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def repeated(texts: Iterable[str]) -> list[str]:
    """Texts that occur more than once when case and punctuation are ignored.

    >>> repeated(["I'm sad.", "i'm SAD", "I'm glad."])
    ['i m sad']
    """
    counts = Counter(" ".join(re.findall(r"\w+", text.casefold())) or text for text in texts)
    return [text for text, count in counts.items() if count > 1]


def check_messages() -> Counter[str]:
    messages = rows("guard_test.jsonl")
    for row in messages:
        assert set(row) == {"text", "risk", "kind"}, row
        assert row["risk"] is None or row["risk"] in RISKS, row
        assert row["text"].strip() == row["text"] != "", row
        assert row["kind"], row
    assert not repeated(row["text"] for row in messages), repeated(row["text"] for row in messages)
    counts = Counter(row["risk"] or "none" for row in messages)
    assert counts["none"] >= 320, counts
    assert counts.total() - counts["none"] >= 320, counts
    return counts


def check_replies() -> Counter[str]:
    replies = rows("unsafe_replies.jsonl")
    for row in replies:
        assert set(row) == {"context", "reply", "unsafe", "kind"}, row
        assert len(row["context"]) % 2 == 1, row
        assert all([*row["context"], row["reply"]]), row
        assert row["unsafe"] == (row["kind"] != "ok"), row
    assert not repeated(row["reply"] for row in replies), repeated(row["reply"] for row in replies)
    counts = Counter(row["kind"] for row in replies)
    assert counts["ok"] >= 100, counts
    assert counts.total() - counts["ok"] >= 200, counts
    return counts


if __name__ == "__main__":
    for name, counts in (("guard_test.jsonl", check_messages()), ("unsafe_replies.jsonl", check_replies())):
        print(name, counts.total(), *(f"{kind}={count}" for kind, count in counts.most_common()))
