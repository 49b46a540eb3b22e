"""What a corpus holds, and what is wrong with it: `attune data check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attune.dialogue.protocols import PROTOCOLS
from attune.dialogue.readers import READERS, detect, read, splits
from attune.dialogue.text import normal_form
from attune.dialogue.types import Dialogue, ReadReport

if TYPE_CHECKING:
    from rich.console import Console

SHOWN_BAD_ROWS = 10


@dataclass(slots=True)
class SplitCheck:
    """The counts of one split. A duplicate is one whose words all stood in the same split before."""

    file: str
    reader: str
    dialogues: int = 0
    turns: int = 0
    listener_turns: int = 0
    examples: dict[str, int] = field(default_factory=dict)  # by protocol
    emotions: dict[str, int] = field(default_factory=dict)  # dialogues with each emotion, the most frequent first
    labels: dict[str, int] = field(default_factory=dict)  # turns with each label
    words: int = 0
    vocabulary: int = 0
    oov_rate: float | None = None  # share of words that the training split lacks
    duplicate_ids: int = 0
    duplicate_dialogues: int = 0
    duplicate_contexts: int = 0
    bad_rows: int = 0


@dataclass(slots=True)
class CorpusCheck:
    """The counts of every split, and what stands in two of them."""

    path: str
    splits: dict[str, SplitCheck] = field(default_factory=dict)
    shared_dialogues: dict[str, int] = field(default_factory=dict)  # by "train+test"
    shared_contexts: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)  # emotions and labels that are not among the known ones
    bad: list[str] = field(default_factory=list)  # the first bad rows of each split

    def as_json(self) -> dict[str, Any]:
        """The whole check as plain values."""
        return asdict(self)


def check(
    path: str | Path, *, reader: str | None = None, strict: bool = False, known: Collection[str] = ()
) -> CorpusCheck:
    """Read a corpus folder or file once and count. Texts are compared in normal form, by their hashes.

    With `known` labels, the others are counted under `unknown`.
    """
    path = Path(path)
    files = splits(path, reader=reader) if path.is_dir() else {"all": path}
    found = CorpusCheck(str(path))
    seen: dict[str, _Seen] = {}
    unknown: Counter[str] = Counter()
    for split, file in files.items():
        format = READERS[reader] if reader else detect(file)
        counts = found.splits[split] = SplitCheck(str(file), format.name)
        report = ReadReport()
        here = seen[split] = _Seen()
        emotions: Counter[str] = Counter()
        labels: Counter[str] = Counter()
        examples: Counter[str] = Counter(dict.fromkeys(PROTOCOLS, 0))
        for dialogue in read(file, reader=format.name, strict=strict, report=report):
            here.add(dialogue)
            emotions.update([dialogue.emotion] if dialogue.emotion else [])
            labels.update(turn.label for turn in dialogue.turns if turn.label)
            counts.listener_turns += sum(turn.role == "listener" for turn in dialogue.turns)
            for name, protocol in PROTOCOLS.items():
                examples[name] += sum(1 for _ in protocol.function(dialogue))
        counts.dialogues, counts.turns, counts.bad_rows = report.dialogues, report.turns, len(report.bad)
        counts.examples, counts.emotions, counts.labels = dict(examples), _balance(emotions), _balance(labels)
        counts.words, counts.vocabulary = here.words.total(), len(here.words)
        counts.duplicate_ids = here.ids.total() - len(here.ids)
        counts.duplicate_dialogues = here.dialogues.total() - len(here.dialogues)
        counts.duplicate_contexts = here.contexts.total() - len(here.contexts)
        if known:
            unknown.update({name: n for name, n in (emotions + labels).items() if name not in known})
        found.bad += map(str, report.bad[:SHOWN_BAD_ROWS])
    found.unknown = _balance(unknown)
    for one, other in combinations(seen, 2):
        found.shared_dialogues[f"{one}+{other}"] = len(seen[one].dialogues.keys() & seen[other].dialogues.keys())
        found.shared_contexts[f"{one}+{other}"] = len(seen[one].contexts.keys() & seen[other].contexts.keys())
    if "train" in seen:
        for split in seen.keys() - {"train"}:
            missing = sum(n for word, n in seen[split].words.items() if word not in seen["train"].words)
            found.splits[split].oov_rate = missing / max(1, found.splits[split].words)
    return found


class _Seen:
    """What stood in a split: words as they are, the rest as hashes."""

    def __init__(self) -> None:
        self.words: Counter[str] = Counter()
        self.ids: Counter[bytes] = Counter()
        self.dialogues: Counter[bytes] = Counter()
        self.contexts: Counter[bytes] = Counter()

    def add(self, dialogue: Dialogue) -> None:
        said = blake2b(digest_size=12)
        for i, turn in enumerate(dialogue.turns):
            if i and turn.role == "listener":
                self.contexts[said.digest()] += 1
            form = normal_form(turn.text)
            self.words.update(form.split())
            said.update(f"{turn.role}\n{form}\n".encode())
        self.dialogues[said.digest()] += 1
        self.ids[blake2b(dialogue.id.encode(), digest_size=12).digest()] += 1


def _balance(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def show(found: CorpusCheck, console: Console) -> None:
    """Print a check as tables."""
    from rich.table import Table

    console.print(found.path, markup=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for split in found.splits:
        table.add_column(split, justify="right")

    def row(name: str, *values: object) -> None:
        shown = ("–" if v is None else f"{v:,}" if isinstance(v, int) else str(v) for v in values)
        table.add_row(name, *shown)

    parts = list(found.splits.values())
    row("reader", *(part.reader for part in parts))
    row("dialogues", *(part.dialogues for part in parts))
    row("turns", *(part.turns for part in parts))
    row("listener turns", *(part.listener_turns for part in parts))
    for protocol in PROTOCOLS.values():
        row(f"examples, {protocol}", *(part.examples[protocol.name] for part in parts))
    row("words", *(part.words for part in parts))
    row("vocabulary", *(part.vocabulary for part in parts))
    row("words not in train", *(None if p.oov_rate is None else f"{p.oov_rate:.2%}" for p in parts))
    row("duplicate ids", *(part.duplicate_ids for part in parts))
    row("duplicate dialogues", *(part.duplicate_dialogues for part in parts))
    row("duplicate contexts", *(part.duplicate_contexts for part in parts))
    row("bad rows", *(part.bad_rows for part in parts))
    console.print(table)
    for what, shared in (("dialogues", found.shared_dialogues), ("contexts", found.shared_contexts)):
        if shared:
            console.print(f"{what} in two splits: " + ", ".join(f"{pair} {n:,}" for pair, n in shared.items()))
    for what in ("emotions", "labels"):
        _show_balance(what, found, console)
    if found.unknown:
        counts = ", ".join(f"{name} {n:,}" for name, n in found.unknown.items())
        console.print(f"not among the 41 labels: {counts}", markup=False)
    bad = sum(part.bad_rows for part in parts)
    if bad:
        console.print(f"bad rows left out: {bad:,}; the first of them:")
        for reason in found.bad[:SHOWN_BAD_ROWS]:
            console.print(f"  {reason}", markup=False, soft_wrap=True)


def _show_balance(what: str, found: CorpusCheck, console: Console) -> None:
    from rich.columns import Columns
    from rich.markup import escape

    total: Counter[str] = Counter()
    for part in found.splits.values():
        total.update(getattr(part, what))
    if total:
        console.print(f"{what} ({len(total)}):")
        shares = (escape(f"{name} {count:,} ({count / total.total():.1%})") for name, count in _balance(total).items())
        console.print(Columns(shares, padding=(0, 2), column_first=True))
