"""Keywords, emotional concepts and context graphs of a whole corpus, worked out once and kept.

The folder holds one SQLite file with a compressed record per example. A record carries a key, the hash of its context and of
the settings, so that a rerun skips what is done, and a reader notices when a context has changed since.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from attune.dialogue.protocols import PROTOCOLS, examples
from attune.dialogue.readers import read
from attune.dialogue.readers import splits as corpus_splits
from attune.dialogue.types import Context, Example
from attune.emotion.lexicons import load_vad
from attune.errors import AttuneError, DataError, MissingError, SettingsError
from attune.files import sha256
from attune.knowledge.build import open_index
from attune.knowledge.ckece import Ckece, CkeceSettings, EmotionalConcept
from attune.knowledge.graph import ContextGraph, GraphBuilder, GraphConcept, GraphSettings
from attune.knowledge.keywords import Keyword
from attune.knowledge.vectors import load_vectors

FORMAT = 1
FILE = "annotations.sqlite"
SHARD = 128  # examples worked on, and committed, together
_TABLES = (
    "CREATE TABLE IF NOT EXISTS about (settings TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS annotations (id TEXT PRIMARY KEY, key BLOB NOT NULL, record BLOB NOT NULL) WITHOUT ROWID",
)
Row = tuple[str, bytes, bytes]  # id, key, record


class Annotation(NamedTuple):
    """What is known about one context."""

    keywords: list[Keyword]
    concepts: list[EmotionalConcept]
    graph: ContextGraph


@dataclass(frozen=True)
class AnnotateSettings:
    """What the annotations depend on; None is the default that Attune brings."""

    index: str | None = None  # folder of a concept index
    lexicon: str | None = None  # name or file of a VAD lexicon
    vectors: str | None = None  # file of word vectors
    protocol: str = "listener-turns"
    ckece: CkeceSettings = field(default_factory=CkeceSettings)
    graph: GraphSettings = field(default_factory=GraphSettings)


class Progress(NamedTuple):
    """How far an annotation is."""

    done: int  # of this run
    total: int  # of this run
    skipped: int  # done by an earlier run


def context_text(context: Context) -> str:
    """A context as the one text that keywords are taken from."""
    return " ".join(turn.text for turn in context)


class Annotator:
    """Annotates contexts with one set of settings."""

    def __init__(self, settings: AnnotateSettings = AnnotateSettings()) -> None:
        index, lexicon = open_index(settings.index), load_vad(settings.lexicon)
        self._ckece = Ckece(index, lexicon, load_vectors(settings.vectors), settings=settings.ckece)
        self._graphs = GraphBuilder(index, lexicon, settings=settings.graph)

    def __call__(self, contexts: Sequence[Context]) -> list[Annotation]:
        """The annotations of some contexts, in their order."""
        found = self._ckece.extract([context_text(context) for context in contexts])
        return [Annotation(*extraction, self._graphs(context)) for extraction, context in zip(found, contexts)]


def annotate(
    data: str | Path,
    out: str | Path,
    settings: AnnotateSettings = AnnotateSettings(),
    *,
    splits: Sequence[str] | None = None,
    workers: int = 1,
    report: Callable[[Progress], None] | None = None,
) -> Progress:
    """Annotate the examples of a corpus (a folder, or one file) into the folder `out`; what is done already is kept.

    `splits` are those of a corpus folder, all by default. With several workers, each is a process with one core.
    """
    stamp = _stamp(settings)
    chosen = [None] if Path(data).is_file() else list(splits or corpus_splits(data))
    with _Store(Path(out)) as store:
        store.claim(stamp)

        def pending() -> Iterator[tuple[Example, bytes]]:
            for split in chosen:
                for example in examples(read(data, split=split), settings.protocol):
                    key = _key(stamp, example.context)
                    if store.key(example.id) != key:
                        yield example, key

        total = sum(1 for _ in pending())
        state = Progress(0, total, len(store))
        for rows in _annotated(pending(), settings, workers):
            store.write(rows)
            state = state._replace(done=state.done + len(rows))
            if report:
                report(state)
    return state


class Annotations:
    """The annotations in a folder, read one at a time; `of` also checks that they fit the context.

    It may be handed to other processes, such as data loaders: each opens the file for itself.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / FILE).is_file():
            raise MissingError(
                f"no annotations in {self.folder.absolute()}: looked for {FILE}; make them with: "
                f"attune knowledge annotate --data CORPUS --out {self.folder}"
            )
        self._connection: tuple[int, sqlite3.Connection] | None = None
        self.settings: dict[str, Any] = json.loads(self._ask("SELECT settings FROM about")[0])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    def _ask(self, query: str, *values: object) -> tuple[Any, ...]:
        process = os.getpid()  # a connection must not be used by a forked child
        if self._connection is None or self._connection[0] != process:
            uri = f"{(self.folder / FILE).absolute().as_uri()}?mode=ro"
            self._connection = process, sqlite3.connect(uri, uri=True, check_same_thread=False)
        try:
            return self._connection[1].execute(query, values).fetchone() or ()
        except sqlite3.DatabaseError as error:
            raise DataError(f"{self.folder / FILE}: damaged ({error}); delete it and annotate again") from None

    def __len__(self) -> int:
        return int(self._ask("SELECT count(*) FROM annotations")[0])

    def __contains__(self, example: object) -> bool:
        return bool(self._ask("SELECT 1 FROM annotations WHERE id = ?", example))

    def __getitem__(self, example: str) -> Annotation:
        """The annotation of an example, by its id."""
        return self._read(example)[1]

    def of(self, example: Example) -> Annotation:
        """The annotation of an example; a DataError if its context is not the one that was annotated."""
        key, annotation = self._read(example.id)
        if key != _key(self.settings, example.context):
            raise DataError(f"the annotation of {example.id} in {self.folder} is of another context; annotate again")
        return annotation

    def _read(self, example: str) -> tuple[bytes, Annotation]:
        found = self._ask("SELECT key, record FROM annotations WHERE id = ?", example)
        if not found:
            raise MissingError(
                f"no annotation of example '{example}' in {self.folder}; annotate its corpus and split first"
            )
        try:
            return found[0], _unpacked(found[1])
        except (zlib.error, ValueError, TypeError, KeyError):
            raise DataError(f"{self.folder / FILE}: the record of '{example}' is damaged; annotate again") from None


# ---------------------------------------------------------------------------------------------- keys and records


def _stamp(settings: AnnotateSettings) -> dict[str, Any]:
    """The settings as they are kept: files by what they hold rather than by where they are."""
    return {
        **asdict(settings),
        "format": FORMAT,
        "index": open_index(settings.index).checksum,
        "lexicon": _content(settings.lexicon),
        "vectors": _content(settings.vectors),
        "protocol": str(PROTOCOLS[settings.protocol]),
    }


def _content(source: str | None) -> str | None:
    return sha256(Path(source)) if source is not None and Path(source).is_file() else source


def _key(stamp: dict[str, Any], context: Context) -> bytes:
    said = [[turn.role, turn.text] for turn in context]
    return hashlib.sha256(json.dumps([stamp, said], sort_keys=True).encode()).digest()[:16]


def _packed(annotation: Annotation) -> bytes:
    graph = annotation.graph
    record = {
        "keywords": annotation.keywords,
        "concepts": annotation.concepts,
        "words": graph.words,
        "turns": graph.turns,
        "eta": graph.word_intensities,
        "graph": graph.concepts,
    }
    return zlib.compress(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode())


def _unpacked(record: bytes) -> Annotation:
    found = json.loads(zlib.decompress(record))
    concepts = tuple(GraphConcept._make([*concept[:4], tuple(concept[4])]) for concept in found["graph"])
    graph = ContextGraph(tuple(found["words"]), tuple(found["turns"]), tuple(found["eta"]), concepts)
    return Annotation(
        [Keyword(*keyword) for keyword in found["keywords"]],
        [EmotionalConcept(*concept) for concept in found["concepts"]],
        graph,
    )


class _Store:
    """The file being written; every `write` is one transaction."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = folder / FILE
            self._connection = sqlite3.connect(self._file)
            with self._connection:
                for table in _TABLES:
                    self._connection.execute(table)
        except (OSError, sqlite3.Error) as error:
            raise AttuneError(f"cannot write annotations into {folder}: {error}") from None

    def __enter__(self) -> _Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def __len__(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM annotations").fetchone()[0])

    def claim(self, stamp: dict[str, Any]) -> None:
        """Write down the settings, or make sure that they are the ones written down."""
        found = self._connection.execute("SELECT settings FROM about").fetchone()
        if found is None:
            with self._connection:
                self._connection.execute("INSERT INTO about VALUES (?)", (json.dumps(stamp),))
        elif (old := json.loads(found[0])) != json.loads(json.dumps(stamp)):
            other = ", ".join(sorted(name for name in stamp if old.get(name) != json.loads(json.dumps(stamp[name]))))
            raise SettingsError(
                f"{self._file} was made with other settings ({other}); give another --out, or delete it first"
            )

    def key(self, example: str) -> bytes | None:
        found = self._connection.execute("SELECT key FROM annotations WHERE id = ?", (example,)).fetchone()
        return found[0] if found else None

    def write(self, rows: Iterable[Row]) -> None:
        try:
            with self._connection:
                self._connection.executemany("INSERT OR REPLACE INTO annotations VALUES (?, ?, ?)", rows)
        except sqlite3.Error as error:
            raise AttuneError(f"cannot write {self._file}: {error}; what was written before is kept") from None


# ---------------------------------------------------------------------------------------------------- workers


@lru_cache(maxsize=1)
def _annotator(settings: AnnotateSettings) -> Annotator:
    return Annotator(settings)


def _work(shard: list[tuple[Example, bytes]], settings: AnnotateSettings) -> list[Row]:
    annotations = _annotator(settings)([example.context for example, _ in shard])
    return [(example.id, key, _packed(annotation)) for (example, key), annotation in zip(shard, annotations)]


def _annotated(
    pending: Iterator[tuple[Example, bytes]], settings: AnnotateSettings, workers: int
) -> Iterator[list[Row]]:
    """Rows shard by shard, in whatever order the workers finish."""
    if workers <= 1:
        while shard := list(islice(pending, SHARD)):
            yield _work(shard, settings)
        return
    for name, value in (("OMP_NUM_THREADS", "1"), ("TOKENIZERS_PARALLELISM", "false")):
        os.environ.setdefault(name, value)  # one core each; the workers inherit it
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running: set[Future[list[Row]]] = set()
        try:
            while (shard := list(islice(pending, SHARD))) or running:
                if shard:
                    running.add(pool.submit(_work, shard, settings))
                if len(running) > workers or not shard:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)
