"""From a system and a corpus to a results folder: `config.yaml`, `scores.json`, `outputs.jsonl.gz`.

Outputs are collected in chunks and kept in a file beside the results, so an evaluation that was stopped goes on where it was.
Scores are computed from the outputs as they are kept: scoring the kept file again gives the same numbers.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from attune.dialogue.protocols import PROTOCOLS
from attune.dialogue.protocols import examples as make_examples
from attune.dialogue.readers import read
from attune.dialogue.text import normalise
from attune.dialogue.types import Example
from attune.dialogue.vocabulary import oov_rate
from attune.emotion.taxonomy import EMOTIONS
from attune.errors import AttuneError, DataError, SettingsError
from attune.evaluate.outputs import Item, join, line, read_outputs, training_responses, write_outputs
from attune.evaluate.scores import BASE_VARIANTS, CONFIG, OUTPUTS, Scores, score_items
from attune.evaluate.signature import Signature
from attune.evaluate.trainings import BEFORE
from attune.files import atomic_dir
from attune.parts import locate

if TYPE_CHECKING:
    from attune.generate.systems import Answer, System

CHUNK = 512
_ABLE = ("perceive", "nll", "reply")
_LABELLED = "labelled-turns"  # the protocol in which the turn itself is what is asked about
Progress = Callable[[int, int], None]  # done, total


def evaluate(
    system: System,
    corpus: str | Path,
    *,
    split: str = "test",
    protocol: str | None = None,
    results: str | Path = "results",
    variant: str | None = None,
    seed: int = 0,
    chunk: int = CHUNK,
    workers: int = 1,
    progress: Progress | None = None,
) -> Scores:
    """Score a system on a split and leave a results folder (and `scores.json` in its run folder).

    Several `workers` are processes that share the cores; each opens the run for itself and takes the next chunk.

    The variant is the one that the run's configuration names, unless another is given, and the protocol is the system's own
    (listener-turns for most). The folder is `system[-variant]`, followed by the protocol and split where they are other ones
    than its own and test.
    """
    own = getattr(system, "protocol", "listener-turns")
    protocol = protocol or own
    config = _config(system)
    variant = variant or (yaml.safe_load(config) or {}).get("variant")
    if variant is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", variant):
        raise SettingsError(f"a variant is lower-case letters, digits, '.' and '-', not '{variant}'")
    asked = list(make_examples(read(corpus, split=split), protocol))
    if not asked:
        raise DataError(f"{corpus}: its split '{split}' has no example by the protocol '{protocol}'")
    signature = _signature(system, config, asked, protocol, split, seed)
    usual = {*BASE_VARIANTS, own, "test"}
    name = "-".join([system.name, *(part for part in (variant, protocol, split) if part and part not in usual)])
    partial = Path(results) / f".{name}.partial.jsonl"
    stamp = _stamp(system, signature)
    collect(
        system,
        asked,
        partial,
        stamp=stamp,
        protocol=protocol,
        seed=seed,
        chunk=chunk,
        workers=workers,
        progress=progress,
    )
    for part in ("minilm", "gpt2-bpe"):
        with contextlib.suppress(AttuneError):  # the metric that lacks it says so in the notes
            locate(part)
    with atomic_dir(Path(results) / name) as folder:
        write_outputs(folder / OUTPUTS, _collected(partial)[1])
        items = join(read_outputs(folder / OUTPUTS), corpus).items
        scores = score_items(
            items,
            signature,
            system=system.name,
            variant=variant,
            protocol=protocol,
            oracle=bool(getattr(system, "oracle", False)),
            training=training_responses(corpus),
        )
        scores.write(folder)
        (folder / CONFIG).write_text(config, encoding="utf-8")
        if system.path is not None and (system.path / "summary.json").is_file():
            shutil.copy(system.path / "summary.json", folder)  # what the training took, and how validation went
            if (system.path / BEFORE).is_dir():
                shutil.copytree(system.path / BEFORE, folder / BEFORE)
    partial.unlink()
    if system.path is not None and system.path.is_dir():
        with contextlib.suppress(AttuneError):  # a read-only run can be evaluated all the same
            scores.write(system.path)
    return scores


def collect(
    system: System,
    examples: Sequence[Example],
    path: Path,
    *,
    stamp: str,
    protocol: str = "listener-turns",
    seed: int = 0,
    chunk: int = CHUNK,
    workers: int = 1,
    progress: Progress | None = None,
) -> None:
    """Write what the system makes of each example to `path`, going on from what stands there under the same stamp."""
    able = {"label"} if protocol == _LABELLED else set(_ABLE)
    if not system.capabilities & able:
        raise SettingsError(
            f"'{system.name}' offers none of {', '.join(sorted(able))}: nothing can be scored by the protocol '{protocol}'"
        )
    found, done = _collected(path)
    if found != stamp or [item.id for item in done] != [example.id for example in examples[: len(done)]]:
        done = []
    if workers > 1 and system.path is None:
        raise SettingsError(f"several workers need a run folder to open; '{system.name}' has none")
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [examples[start : start + chunk] for start in range(len(done), len(examples), chunk)]
    with (
        path.open("w", encoding="utf-8") as file,
        contextlib.closing(_answers(system, parts, seed, protocol, workers)) as answers,
    ):
        file.write("".join(f"{text}\n" for text in [json.dumps(stamp), *map(line, done)]))
        file.flush()
        count = len(done)
        for items in answers:
            file.write("".join(f"{line(item)}\n" for item in items))
            file.flush()
            count += len(items)
            if progress:
                progress(count, len(examples))


def _answers(
    system: System, parts: Sequence[Sequence[Example]], seed: int, protocol: str, workers: int
) -> Generator[list[Item], None, None]:
    """What the system makes of each part, in their order."""
    if workers == 1:
        yield from (answer(system, part, seed, protocol) for part in parts)
        return
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    pool = ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_open, initargs=(str(system.path), threads)
    )
    try:
        yield from pool.map(_answer, parts, repeat(seed), repeat(protocol))
    finally:
        pool.shutdown(cancel_futures=True)


_opened: list[System] = []  # in a worker: its own


def _open(path: str, threads: int) -> None:
    os.environ["OMP_NUM_THREADS"] = str(threads)  # before anything that computes is imported
    from attune.generate.systems import open_system

    _opened.append(open_system(path))


def _answer(part: Sequence[Example], seed: int, protocol: str) -> list[Item]:
    return answer(_opened[0], part, seed, protocol)


def answer(system: System, examples: Sequence[Example], seed: int = 0, protocol: str = "listener-turns") -> list[Item]:
    """What a system makes of examples: the emotion it perceives, its NLL of the reference, its reply.

    For perceiving and replying it is given the contexts alone. By the protocol labelled-turns it labels the turn, no more.
    """
    if protocol == _LABELLED:
        found = system.label([example.response.text for example in examples])  # type: ignore[attr-defined]
        return [Item(id=example.id, predicted_label=one.label) for example, one in zip(examples, found, strict=True)]
    items = []
    for example, (felt, nll, said) in zip(examples, _three(system, examples, seed), strict=True):
        column: dict[str, Any] = {"id": example.id}
        if felt is not None:
            column["predicted_emotion"] = EMOTIONS[felt.argmax()]
        if nll is not None:
            column |= {"nll": round(nll.nll, 5), "tokens": nll.tokens, "unk_bytes": nll.unk_bytes}
        if said is not None:
            column |= {"prediction": said.prediction, "text": said.text}
        items.append(Item(**column))
    return items


def at_once(system: System, examples: Sequence[Example], seed: int = 0) -> list[Answer] | None:
    """The answers of a system that speaks and can give them all at once; None of others."""
    if not system.capabilities >= {"nll", "reply"} or not hasattr(system, "answers"):
        return None
    found: list[Answer] = system.answers(examples, seed=seed)
    return found


def _three(system: System, examples: Sequence[Example], seed: int) -> Iterable[Answer]:
    """What a system perceives, its likelihood of the reference and its reply; all at once if it can."""
    if (found := at_once(system, examples, seed)) is not None:
        return found
    contexts, able = [example.context for example in examples], system.capabilities
    nothing = [None] * len(examples)
    felt = system.perceive(contexts) if "perceive" in able else nothing
    nll = system.nll(examples) if "nll" in able else nothing
    said = system.reply(contexts, seed=seed) if "reply" in able else nothing
    return zip(felt, nll, said, strict=True)  # type: ignore[return-value]


def _collected(path: Path) -> tuple[str | None, list[Item]]:
    """The stamp and the items of a file that `collect` writes; a last line cut short by a crash is left out."""
    try:
        whole = path.read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        return None, []
    if not whole:
        return None, []
    return json.loads(whole[0]), [Item(**json.loads(text)) for text in whole[1:]]


def _signature(
    system: System, config: str, examples: Sequence[Example], protocol: str, split: str, seed: int
) -> Signature:
    text, vocabulary, tokenizer = _vocabulary(system, config)
    oov = None
    if tokenizer is not None:
        oov = round(100 * oov_rate(tokenizer, (normalise(example.response.text) for example in examples)), 3)
    return Signature(
        protocol=str(PROTOCOLS[protocol]),
        split=split,
        n=len(examples),
        text=text,
        vocabulary=vocabulary,
        oov=oov,
        decoding=str(system.decoding) if "reply" in system.capabilities else "none",
        seed=seed,
    )


def _vocabulary(system: System, config: str) -> tuple[str, str, Tokenizer | None]:
    """What a system's likelihood is of, over which vocabulary, and the tokenizer if it is one of normal-form words.

    A system may say so itself (`text_form`, `vocabulary`); otherwise the word-level tokenizer of its run does.
    """
    if hasattr(system, "text_form"):
        return system.text_form, getattr(system, "vocabulary", "?"), None
    file = system.path / "tokenizer.json" if system.path is not None else None
    if "nll" in system.capabilities and file is not None and file.is_file():
        tokenizer = Tokenizer.from_file(str(file))
        if isinstance(tokenizer.model, WordLevel):
            name = ((yaml.safe_load(config) or {}).get("text") or {}).get("vocabulary", "train")
            return "normal-form", f"{name}-{tokenizer.get_vocab_size()}", tokenizer
    return "as-given", "?", None


def _stamp(system: System, signature: Signature) -> str:
    """Tells one evaluation from another: the signature, and the files of the run as they are now."""
    files = sorted(system.path.iterdir()) if system.path is not None and system.path.is_dir() else []
    stats = [f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files if file.suffix != ".json"]
    return "; ".join([str(signature), *stats])


def _config(system: System) -> str:
    """The run's own configuration, or the system's name where there is no run."""
    if system.path is not None and (system.path / CONFIG).is_file():
        return (system.path / CONFIG).read_text(encoding="utf-8")
    return str(yaml.safe_dump({"system": system.name}))
