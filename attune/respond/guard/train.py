"""Fit one of the guard's classifiers to the tuning data: ``python -m attune.respond.guard.train NAME [ROUND]``, from that round on.

It needs the extra "train", and EmpatheticDialogues below ATTUNE_DATA: how people talk when nothing is wrong, of which the tuning data
alone know too little. NAME is "hear", "judge" or "judge-pairs". One line in ten, chosen by its text, is never fitted on; what the classifier makes of those, and of the corpus's
validation split, is printed at the end. The words of the messages, by frequency, are what misspelt words are mended to (`data/known.txt`).
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save

from attune.dialogue.readers import read
from attune.files import atomic_write
from attune.parts import locate
from attune.respond.guard.classifier import (
    FITTED,
    HEARD,
    JUDGED,
    OF_ANOTHER,
    SCALE,
    Array,
    Classifier,
    Classifiers,
    open_classifier,
    weights_of,
)
from attune.respond.guard.words import KNOWN, Reader, load_reader, real_words

if TYPE_CHECKING:
    import torch

# Epochs, and the rate that falls to nothing over them; each round starts where the last ended. The package's weights were fitted
# to both tasks together in the first three, on fewer lines and with rank 16, and then parted; the fourth was each one's own. The
# fifth went on from the judge's weights, on replies too that are alike in words and differ in kindness (their groups are "pairs").
ROUNDS = ((3, 2e-3), (2, 1e-3), (2, 1e-3), (3, 1e-3), (3, 1e-3))


class Fitting(NamedTuple):
    """How one of the classifiers is fitted: its rounds, the rank of what is added to each layer, whose weights it begins with."""

    rounds: range
    rank: int = 32
    start: str | None = None


FITTINGS = {"hear": Fitting(range(4)), "judge": Fitting(range(4)), "judge-pairs": Fitting(range(4, 5), 48, "judge")}
BATCH = 32
WARM_UP = 100  # steps
SMOOTHING = 0.03
LEVELS = {HEARD: (0.3, 0.4, 0.5, 0.6), JUDGED: (0.05, 0.06, 0.08, 0.1, 0.15)}  # of a share, at which it is measured
SEED = 20
MOST_TOKENS = 96
ORDINARY = 12_000  # turns of ordinary talk, or replies in it, in an epoch
DATA = Path(str(resources.files("attune.respond.guard"))) / "data"
_PERHAPS = re.compile(  # ordinary talk in which these words stand may be no such talk: it is left out
    r"suicid|kill|murder|overdos|self.?harm|\b(cut|cutting|hurt|hurting) (myself|me|her|him)|abus|\brap(e|ed|ist)\b|molest|assault|"
    r"\b(beat|beats|beaten|hit|hits|hitting|choke[sd]?|slap(s|ped)?|punche[sd]|threaten\w*|stalk\w*) (me|her|him|us|my)\b|stab|"
    r"\b(gun|knife|weapon)\b|\bshot\b|unconscious|passed out|breathe|stroke|heart attack|seizure|bleed|ambulance|poison|"
    r"want(ed)? to die|better off|end it all|no reason to live|can.?t go on",
    re.IGNORECASE,
)

_BEFORE = ("hi", "hello", "honestly", "so", "i don't know how to say this but", "please help,", "sorry,", "listen,", "ok so",
           "um", "well,", "today", "I need to tell someone:", "i feel awful.", "long story short,")  # fmt: skip
_AFTER = ("lol", "please help", "i don't know what to do", "what should i do?", "thanks for listening", "that's all",
          "sorry", "you know", "right now", "honestly", "and yeah", "do you understand?", "I'm serious")  # fmt: skip

Text = str | tuple[str, str]


class Sample(NamedTuple):
    """What the encoder reads, and the number of its label."""

    text: Text
    label: int


class Tuning:
    """The tuning data, and its variations: no epoch reads a line the same way. `talk` are pairs of what people said and heard."""

    def __init__(self, talk: Sequence[tuple[str, str]] = (), seed: int = SEED) -> None:
        self._draw, self._talk = np.random.default_rng(seed), list(talk)
        self.messages = [row for row in read_lines("messages.jsonl") if not held_out(row)]
        self.replies = [row for row in read_lines("replies.jsonl") if not held_out(row)]
        self._said: dict[str, list[str]] = {"any": [], "none": [], "calm": []}
        for row in self.messages:
            for name in ("any", row["risk"]) if row["risk"] else ("none",):
                self._said.setdefault(name, []).append(row["text"])
            if not row["risk"] and row["kind"] in ("everyday", "sadness", "positive", "fear", "grief"):
                self._said["calm"].append(row["text"])
        self._kind_words = [row["reply"] for row in self.replies if row["kind"] == "ok" and row.get("to") == "calm"]

    def samples(self, name: str) -> list[Sample]:
        """An epoch of a classifier."""
        return self.heard() if FITTED[name] == HEARD else self.judged()

    def heard(self) -> list[Sample]:
        """Every message once: as it is, with a slip, between other words, or beside a harmless message; and ordinary talk."""
        samples = [Sample(self._varied(row["text"]), label_of(row)) for row in self.messages]
        return samples + [Sample(self._pick(pair), 0) for pair in self._some_talk()]

    def judged(self) -> list[Sample]:
        """Every reply once, a harmless one twice, after a message of its own or of its kind."""
        rows = self.replies + [row for row in self.replies if row["kind"] == "ok"]
        samples = [Sample(self._pair(row), JUDGED.index(row["kind"])) for row in rows]
        return samples + [Sample(pair, 0) for pair in self._some_talk()]

    def _some_talk(self) -> list[tuple[str, str]]:
        chosen = self._draw.permutation(len(self._talk))[:ORDINARY]
        return [self._talk[i] for i in chosen]

    def _varied(self, text: str) -> str:
        dice = self._draw.random()
        if dice < 0.15:
            return self._slip(text)
        if dice < 0.3:
            return f"{self._pick(_BEFORE)} {text} {self._pick(_AFTER)}"
        if dice < 0.45:
            calm = [self._pick(self._said["calm"]) for _ in range(2)]
            return " ".join([*calm[: dice >= 0.35], text, *calm[1 : 1 + (dice < 0.4)]])
        return text

    def _pair(self, row: dict[str, Any]) -> tuple[str, str]:
        said = row["context"][-1] if "context" in row else self._pick(self._said[row["to"]])
        if self._draw.random() < 0.1:
            said = f"{self._pick(self._said['calm'])} {said}"
        reply, dice = row["reply"], self._draw.random()
        if dice < 0.15:
            reply = f"{reply} {self._pick(self._kind_words)}"
        elif dice < 0.35:
            reply = f"{self._pick(self._kind_words)} {reply}"
        elif dice < 0.42:
            reply = self._slip(reply)
        elif dice < 0.55 and row["kind"] == "ok":  # a reply that streams is judged before its end
            words = reply.split()
            reply = " ".join(words[: int(self._draw.integers(1, len(words) + 1))])
        return said, reply

    def _slip(self, text: str) -> str:
        """A letter dropped, doubled or swapped in one longer word."""
        words = text.split()
        long = [i for i, word in enumerate(words) if len(word) > 3]
        if long:
            i = self._pick(long)
            word, at = words[i], int(self._draw.integers(1, len(words[i]) - 1))
            swapped = word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]
            words[i] = self._pick((word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:], swapped))
        return " ".join(words)

    def _pick(self, options: Sequence[Any]) -> Any:
        return options[int(self._draw.integers(len(options)))]


def read_lines(name: str) -> list[dict[str, Any]]:
    """The rows of a file of tuning data."""
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def ordinary(corpus: str | Path, split: str) -> list[tuple[str, str]]:
    """What speakers said and listeners answered, where nothing in it looks like a risk."""
    found = []
    for dialogue in read(corpus, split=split):
        for one, other in pairwise(dialogue.turns):
            if (one.role, other.role) == ("speaker", "listener") and not _PERHAPS.search(f"{one.text} {other.text}"):
                found.append((one.text, other.text))
    return found


def held_out(row: dict[str, Any]) -> bool:
    """Whether a row is kept for measuring. Rows made from one pattern (a `group`) stay together."""
    return crc32(str(row.get("group", row.get("text", row.get("reply")))).encode()) % 10 == 0


def label_of(message: dict[str, Any]) -> int:
    """The number of a message's label."""
    return HEARD.index(f"{message['risk'] or 'none'}{OF_ANOTHER if message.get('other') else ''}")


def write_known() -> None:
    """The words of the messages that are words of the encoder's vocabulary too, most frequent first."""
    real = real_words()
    texts = (row["text"] for row in read_lines("messages.jsonl") if row["kind"] not in ("typo", "slang"))
    counts = Counter(word for text in texts for word in re.findall("[a-z]+", text.lower()))
    known = [word for word, count in counts.most_common() if count > 1 and len(word) > 2 and word in real]
    with atomic_write(DATA / KNOWN) as file:
        file.write("\n".join(known) + "\n")


class Model:
    """The encoder in torch: its own weights stay as they are; what is added to them, and the head, are fitted."""

    def __init__(self, name: str, seed: int = SEED) -> None:
        import torch
        from tokenizers import Tokenizer
        from transformers import AutoModel

        from attune.models.pretrained.lora import add_lora

        torch.manual_seed(seed)
        folder = locate("minilm")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MOST_TOKENS)
        self.encoder = AutoModel.from_pretrained(folder, attn_implementation="eager")
        add_lora(self.encoder, FITTINGS[name].rank, 0)
        self.name, self.head = name, torch.nn.Linear(384, len(FITTED[name]))

    def parameters(self) -> list[torch.nn.Parameter]:
        return [value for value in (*self.encoder.parameters(), *self.head.parameters()) if value.requires_grad]

    def scores(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        import torch

        longest = max(map(len, tokens))
        ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in tokens])
        mask = torch.tensor([[1.0] * len(row) + [0.0] * (longest - len(row)) for row in tokens])
        states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        vectors = torch.nn.functional.normalize((states * mask[..., None]).sum(dim=1), dim=-1)
        scores: torch.Tensor = self.head(SCALE * vectors)
        return scores

    def _pairs(self) -> Iterator[tuple[str, torch.Tensor, torch.Tensor, float]]:
        """Of each adapted layer: its name, the thin matrices [rank, in] and [out, rank], and what their product counts."""
        for name, module in self.encoder.named_modules():
            if hasattr(module, "lora_A"):
                yield name, module.lora_A["default"].weight, module.lora_B["default"].weight, module.scaling["default"]

    def load(self, weights: dict[str, NDArray[np.float16]]) -> None:
        """Go on from what :meth:`weights` gave. It may be of a lower rank: the rest begins as nothing."""
        import torch

        def full(name: str) -> torch.Tensor:
            return torch.from_numpy(weights[name].astype(np.float32))

        for name, down, up, counts in self._pairs():
            rank = len(weights[f"{name}.down"])
            down.data[:rank], up.data[:, :rank] = full(f"{name}.down"), full(f"{name}.up") / counts
        self.head.weight.data, self.head.bias.data = full("head.weight"), full("head.bias")

    def weights(self) -> dict[str, NDArray[np.float16]]:
        """What :class:`Classifier` needs."""
        found = {"head.weight": self.head.weight, "head.bias": self.head.bias}
        for name, down, up, counts in self._pairs():
            found |= {f"{name}.down": down, f"{name}.up": up * counts}
        return {name: value.detach().numpy().astype(np.float16) for name, value in found.items()}


def fit(model: Model, tuning: Tuning, reader: Reader, epochs: int, rate: float, seed: int = SEED) -> None:
    """Fit the model to its samples, in batches of texts of like length."""
    import torch

    draw = np.random.default_rng(seed)
    count = len(tuning.samples(model.name)) // BATCH + 1
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    falling = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / WARM_UP, max(0.02, 1 - step / (epochs * count)))
    )
    for epoch in range(epochs):
        model.encoder.train()
        batches = _batches(_encoded(model, reader, tuning.samples(model.name)), draw)
        losses = []
        for i in draw.permutation(len(batches)):
            labels = torch.tensor([label for _, label in batches[i]])
            with torch.autocast("cpu", torch.bfloat16):
                scores = model.scores([tokens for tokens, _ in batches[i]])
            loss = torch.nn.functional.cross_entropy(scores.float(), labels, label_smoothing=SMOOTHING)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            falling.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1} of {epochs}: loss {np.mean(losses):.3f}", flush=True)
    model.encoder.eval()


def _encoded(model: Model, reader: Reader, samples: Sequence[Sample]) -> list[tuple[list[int], int]]:
    rows = [tuple(map(reader.read, text)) if isinstance(text, tuple) else reader.read(text) for text, _ in samples]
    encoded = model.tokenizer.encode_batch(rows)
    return [(code.ids, sample.label) for code, sample in zip(encoded, samples, strict=True)]


def _batches(rows: list[tuple[list[int], int]], draw: np.random.Generator) -> list[list[tuple[list[int], int]]]:
    order = np.argsort([len(tokens) + 4 * draw.random() for tokens, _ in rows])
    return [[rows[i] for i in order[start : start + BATCH]] for start in range(0, len(order), BATCH)]


def measure(
    name: str, classifier: Classifier | Classifiers, reader: Reader, talk: Sequence[tuple[str, str]] = ()
) -> str:
    """What a classifier makes of the rows that were held out, and of ordinary talk, by the share that is not harmless."""
    labels = FITTED[name]

    def shares(pairs: Sequence[tuple[str, str]]) -> Array:
        texts: list[Text] = [
            reader.read(said) if labels == HEARD else (reader.read(said), reader.read(reply)) for said, reply in pairs
        ]
        return np.asarray(1 - classifier(texts)[:, 0])

    if labels == HEARD:
        rows = [(row["text"], "", bool(row["risk"])) for row in read_lines("messages.jsonl") if held_out(row)]
    else:
        kept = [row for row in read_lines("replies.jsonl") if held_out(row) and "context" in row]
        rows = [(row["context"][-1], row["reply"], row["kind"] != "ok") for row in kept]
    found, bad = shares([(said, reply) for said, reply, _ in rows]), np.array([wrong for *_, wrong in rows])
    each = (
        f"from {x}: {(found[bad] >= x).mean():.1%} found, {(found[~bad] >= x).mean():.1%} false" for x in LEVELS[labels]
    )
    lines = [f"held out ({bad.sum()}, and {(~bad).sum()} harmless): {'; '.join(each)}"]
    if talk:
        calm = shares(talk)
        each = (f"from {x}: {(calm >= x).mean():.1%}" for x in LEVELS[labels])
        lines.append(f"ordinary talk ({len(talk)}), not let pass: {'; '.join(each)}")
    return "\n".join(lines)


def main(name: str, first: int = 0) -> None:
    """Fit, write and measure; from the round `first` on, if those before it are done."""
    import torch

    from attune.train.data import corpus as corpus_folder

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))  # with 1, the same sums on every machine
    corpus = corpus_folder(None, "empathetic_dialogues")
    write_known()
    reader, model, fitting = load_reader(), Model(name), FITTINGS[name]
    talk, file_name = ordinary(corpus, "train"), weights_of(name)
    for number in fitting.rounds:
        if number < first:
            continue
        if before := name if number > fitting.rounds[0] else fitting.start:
            model.load(load_file(DATA / weights_of(before)))
            torch.manual_seed(SEED + number)
        epochs, rate = ROUNDS[number]
        fit(model, Tuning(talk, SEED + number), reader, epochs, rate, SEED + number)
        with atomic_write(DATA / file_name, "wb") as file:
            file.write(save(model.weights()))
    print(measure(name, open_classifier(name), reader, ordinary(corpus, "valid")[:2000]))


if __name__ == "__main__":
    if not set(sys.argv[1:2]) & set(FITTINGS):
        sys.exit(f"say what to fit: {' or '.join(FITTINGS)}")
    main(sys.argv[1], *map(int, sys.argv[2:3]))
