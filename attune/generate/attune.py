"""The system `attune` on any engine: torch, the reference (`pretrained.py`), or llama.cpp (`light.py`). No torch here."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attune.dialogue.text import normal_form
from attune.dialogue.types import Context, Example
from attune.generate.controls import ContextControls
from attune.generate.engines.base import Engine
from attune.generate.saying import Ask, Candidate, finished, whole
from attune.generate.settings import Decoding
from attune.generate.systems import Progress, Said, TokenNll, told
from attune.models.prompt import Control, Prompts

GRACE = 20  # tokens that a stream may say beyond its longest, to come to the end of a sentence
BYTES = 4  # of English text that a token stands for
PART = 256  # contexts that an engine is given together
PERCEIVER = "perceiver"  # the folder of a run, and of an export, that holds the perceiver's


class AttuneSystem:
    """An engine that says replies, the controls that stand before them, and the prompts that hold both."""

    capabilities = frozenset({"perceive", "decide", "reply", "nll", "say"})
    corpus, protocol, text_form = "empathetic_dialogues", "listener-turns", "raw"
    typed = True  # the corpus's replies were typed in haste: an agent mends their apostrophes and capitals

    def __init__(
        self,
        config: Mapping[str, Any],
        engine: Engine,
        prompts: Prompts,
        controls: ContextControls,
        decoding: Decoding,
        name: str = "attune",
        path: Path | None = None,
        *,
        concurrent: bool = False,
    ) -> None:
        """`concurrent`: threads may share it, and what they ask for is decoded together."""
        self.config, self.engine, self.prompts, self.controls = config, engine, prompts, controls
        self.decoding, self.name, self.path, self.concurrent = decoding, name, path, concurrent
        self.window, self.rows = BYTES * prompts.longest, getattr(engine, "slots", None)
        self.vocabulary = f"{Path(config['decoder']).name}-{prompts.tokenizer.get_vocab_size()}"

    def close(self) -> None:
        self.engine.close()

    def perceive(self, contexts: Sequence[Context], *, progress: Progress | None = None) -> np.ndarray:
        """[n, 32] probabilities in the order of EMOTIONS."""
        return told(self.controls.perceive(contexts), progress)

    def decide(self, contexts: Sequence[Context], *, progress: Progress | None = None) -> np.ndarray:
        """[n, 41] probabilities of the label of the reply to give, in the order of LABELS."""
        return told(self.controls.perceiver.decide(contexts), progress)

    # — saying —

    def candidates(self, asks: Sequence[Ask]) -> list[list[Candidate]]:
        """The candidates of each ask; all asks are decoded together."""
        prompts = [self._asked(ask) for ask in asks]
        rows = [(place, ask.seed + i) for place, ask in enumerate(asks) for i in range(ask.count)]
        said = self.engine.generate(
            [prompts[place] for place, _ in rows],
            [asks[place].decoding or self.decoding for place, _ in rows],
            [seed for _, seed in rows],
        )
        found: list[list[Candidate]] = [[] for _ in asks]
        for (place, _), one in zip(rows, said, strict=True):
            text = finished(self.prompts.text(one.ids), ended=len(one.logprobs) > len(one.ids))
            found[place].append(Candidate(text, sum(one.logprobs), len(one.logprobs)))
        return found

    def stream(self, ask: Ask) -> Iterator[str]:
        """Pieces of one reply as they are said. Closing the iterator stops the decoding.

        Who has said as much as the decoding allows may finish the sentence.
        """
        decoding, said = ask.decoding or self.decoding, ""
        longer = replace(decoding, max_steps=decoding.max_steps + GRACE)
        with closing(self.engine.stream(self._asked(ask), longer, ask.seed)) as pieces:
            for count, piece in enumerate(pieces, 1):
                yield piece
                said += piece
                if count >= decoding.max_steps and whole(said):
                    return

    def reply(
        self,
        contexts: Sequence[Context],
        *,
        decoding: Decoding | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> list[Said]:
        """Replies in the order of `contexts`, each sampled by a seed of its own."""
        found: list[Said] = []
        for start in range(0, len(contexts), PART):
            part = contexts[start : start + PART]
            known = self.controls.of(part)
            prompts = [self._prompt(context, control) for context, control in zip(part, known, strict=True)]
            seeds = [zlib.crc32(np.array(prompt, np.int32).tobytes(), seed) & 0x7FFFFFFF for prompt in prompts]
            said = self.engine.generate(prompts, [decoding or self.decoding] * len(prompts), seeds, scored=False)
            texts = [self.prompts.text(one.ids) for one in said]
            found += [Said(normal_form(text), text) for text in texts]
            if progress:
                progress(len(part))
        return found

    def nll(self, examples: Sequence[Example], *, progress: Progress | None = None) -> list[TokenNll]:
        contexts = [example.context for example in examples]
        prompts = [self._prompt(c, control) for c, control in zip(contexts, self.controls.of(contexts), strict=True)]
        found = self.engine.nll(prompts, [(*self.prompts.ids(e.response.text), self.prompts.eos) for e in examples])
        if progress:
            progress(len(examples))
        return found

    def _asked(self, ask: Ask) -> list[int]:
        """The prompt of an ask. Its control is remembered: when the conversation goes on, the same is read again.

        Not so one with a label that was asked for: others may begin with the same words, and did not ask for it.
        """
        if not ask.control.asked:
            self.controls.learn({ask.context: ask.control})
        return self._prompt(ask.context, ask.control)

    def _prompt(self, context: Context, control: Control) -> list[int]:
        earlier = self.controls.of([context[:i] for i, turn in enumerate(context) if turn.role == "listener"])
        let_through = shown(self.config)
        return self.prompts.prompt(context, [let_through(one) for one in (*earlier, control.checked())])


def shown(config: Mapping[str, Any]) -> Callable[[Control], Control]:
    """What a configuration lets through of a control."""
    return lambda control: control.shown(config["emotion"], config["label"], config["concepts"])
