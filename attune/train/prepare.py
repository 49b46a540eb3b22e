"""From a recipe and a corpus to an untrained model with its codec.

How, depends on the model's family: a word-level one gets a vocabulary, word vectors and perhaps a label classifier; one on
pretrained parts gets their weights and tokenizers.
"""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from attune.dialogue.text import normalise
from attune.dialogue.types import Dialogue
from attune.dialogue.vocabulary import build_tokenizer, oov_rate, read_vectors, singletons
from attune.emotion.taxonomy import EMOTIONS
from attune.errors import DataError, MissingError
from attune.generate.neural import word_codec
from attune.models import SYSTEMS
from attune.models.codec import UNK, Codec, WordCodec
from attune.models.layers.bag import BagClassifier
from attune.registry import Registry
from attune.train.data import count_words, load_split
from attune.train.recipes import Recipe

Prepared = tuple[Any, Codec, dict[str, Any]]  # a fresh model, its codec, and what is to be known of its vocabulary
FAMILIES: Registry[Callable[[Recipe, str | Path, Sequence[Dialogue], Path | None], Prepared]] = Registry(
    "family",
    {
        "word": "attune.train.prepare:prepare_words",
        "pretrained": "attune.train.pretrained:prepare_pretrained",
        "classifier": "attune.train.pretrained:prepare_pretrained",
        "perceiver": "attune.train.pretrained:prepare_pretrained",
        "attune": "attune.train.attune:prepare_attune",
    },
)


def prepare(recipe: Recipe, data: str | Path, train: Sequence[Dialogue], run: Path | None = None) -> Prepared:
    """A fresh model and codec for a recipe, and the facts about its vocabulary that belong into signatures.

    `run` is where it will be trained: what has to be trained first is put beside it.
    """
    torch.manual_seed(recipe.training.seed)
    return FAMILIES[SYSTEMS[recipe.system].family](recipe, data, train, run)


def prepare_words(
    recipe: Recipe, data: str | Path, train: Sequence[Dialogue], run: Path | None = None
) -> tuple[Any, WordCodec, dict[str, Any]]:
    """A word-level model over the words of the training turns."""
    counts = count_words(train)
    if recipe.text.vocabulary == "all-splits":
        for split in ("valid", "test"):
            counts.update(count_words(load_split(data, split)))
    model_class = SYSTEMS[recipe.system]
    config = model_class.config_class(**recipe.model)
    labelled: list[tuple[str, str]] = []
    if config.bag:
        labelled = situations(train) if config.bag == "emotion" else newsgroups(data)
        config.bag_labels = sorted({label for _, label in labelled})
        if config.prepend != "none":  # a prepended label is a word of the vocabulary
            counts.update(dict.fromkeys(config.bag_labels, 2))  # twice: not a singleton, so never hidden
    tokenizer = build_tokenizer(counts)
    config.vocab_size = tokenizer.get_vocab_size()
    vectors = None
    if recipe.text.vectors:
        index, vectors = read_vectors(find_vectors(recipe.text.vectors), tokenizer.get_vocab())
        config.vector_size = 0 if vectors.shape[1] == config.d_model else int(vectors.shape[1])
    model = model_class(config)
    if vectors is not None:
        rows = torch.tensor([tokenizer.token_to_id(word) for word in index])
        model.set_vectors(rows, torch.from_numpy(vectors[list(index.values())]))
    if config.bag:
        fit_bag(model.bag, tokenizer, labelled, config.bag_labels or [], recipe.training.seed)
    codec = word_codec(model, tokenizer, singletons(counts, tokenizer))
    codec.hide, codec.drop = recipe.text.unk_singletons, recipe.text.word_dropout
    valid = (normalise(turn.text) for dialogue in load_split(data, "valid") for turn in dialogue.turns)
    facts = {
        "vocabulary": recipe.text.vocabulary,
        "size": config.vocab_size,
        "oov_valid": round(oov_rate(tokenizer, valid), 5),
        "vectors": vectors is not None,
    }
    return model, codec, facts


def find_vectors(name: str) -> Path:
    """A vectors file as given, or below ATTUNE_DATA."""
    places = [Path(name), Path(os.environ.get("ATTUNE_DATA", "."), name)]
    for place in places:
        if place.is_file():
            return place
    raise MissingError(
        f"no word vectors at {' or '.join(map(str, places))}; give --set text.vectors=FILE (GloVe text format), "
        "or --set text.vectors=null to start from random ones"
    )


def situations(train: Sequence[Dialogue]) -> list[tuple[str, str]]:
    """(situation, emotion) of the training dialogues: what seed 003's emotion classifier learns from."""
    found = [(d.situation, d.emotion) for d in train if d.situation and d.emotion in EMOTIONS]
    if not found:
        raise DataError(
            "prepend: emotion needs training dialogues with a situation and an emotion; this corpus has none"
        )
    return [(text, str(label)) for text, label in found]


def newsgroups(data: str | Path) -> list[tuple[str, str]]:
    """(post, group) of 20 Newsgroups, looked for beside the corpus and below ATTUNE_DATA."""
    places = [Path(root, "20newsgroups") for root in (Path(data).parent, os.environ.get("ATTUNE_DATA", "."))]
    files = next((found for place in places if (found := sorted(place.glob("*train*.jsonl*")))), None)
    if not files:
        raise MissingError(f"no 20 Newsgroups at {' or '.join(map(str, places))} (files *train*.jsonl[.gz])")
    posts = []
    for file in files:
        opener = gzip.open if file.suffix == ".gz" else open
        with opener(file, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    row = json.loads(line)
                    posts.append((_body(row["text"]), str(row.get("label_text") or row.get("label"))))
                except (ValueError, KeyError) as error:
                    raise DataError(f"{file}:{number}: not a post with 'text' and 'label': {error}") from None
    return posts


def _body(post: str) -> str:
    """A post without its header lines, cut to the length of a long dialogue."""
    head, gap, body = post.partition("\n\n")
    return " ".join((body if gap else head).split()[:150])


def fit_bag(
    bag: BagClassifier,
    tokenizer: Tokenizer,
    labelled: list[tuple[str, str]],
    labels: list[str],
    seed: int,
    updates: int = 600,
) -> None:
    """Train the label classifier in place; it is frozen again afterwards."""
    index = {label: i for i, label in enumerate(labels)}
    rows = [
        (
            np.array([i if (i := tokenizer.token_to_id(w)) is not None else UNK for w in normalise(text)] or [UNK]),
            index[label],
        )
        for text, label in labelled
    ]
    bag.requires_grad_(True)
    optimizer = torch.optim.Adam(bag.parameters(), lr=5e-3)
    rng = np.random.default_rng(seed)
    for _ in range(math.ceil(updates / math.ceil(len(rows) / 256))):
        order = rng.permutation(len(rows))
        for start in range(0, len(order), 256):
            part = [rows[i] for i in order[start : start + 256]]
            ids = torch.zeros(len(part), max(2, *(len(words) for words, _ in part)), dtype=torch.long)
            for row, (words, _) in enumerate(part):
                ids[row, : len(words)] = torch.from_numpy(words)
            loss = torch.nn.functional.cross_entropy(bag(ids, ids != 0), torch.tensor([label for _, label in part]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    bag.requires_grad_(False)
