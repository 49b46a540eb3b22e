"""Any OpenAI-compatible server as a speaker, and a local system's perceiving and deciding before it.

A team with a large model behind vLLM, llama.cpp, Ollama or the like gets the same pipeline: what was perceived, chosen and
recalled goes into the instructions. Settings come from the environment: `ATTUNE_ENGINE_URL`, `ATTUNE_ENGINE_KEY`, `ATTUNE_ENGINE_MODEL`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import numpy as np

from attune.dialogue.text import normal_form
from attune.dialogue.types import Context
from attune.emotion.taxonomy import EMOTIONS, LABELS
from attune.errors import SettingsError
from attune.generate.engines.chat_client import Address, ChatClient, RemoteError, RemoteRefusal
from attune.generate.saying import Ask, Candidate, Control, Tone
from attune.generate.settings import Decoding
from attune.generate.systems import Progress, Said, System

DECODING = Decoding("nucleus", max_steps=120, top_p=0.9, temperature=0.7)
PARALLEL = 8  # requests under way at once
EXTRAS = ("logprobs", "n", "seed")  # what a server may not know

# What a reply of each label does. For an emotion the reply shares it.
DOES = {
    "agreeing": "agree with them",
    "acknowledging": "show that you have understood what they said and what it means to them",
    "encouraging": "encourage them",
    "consoling": "console them",
    "sympathizing": "say that you feel with them",
    "suggesting": "suggest one thing, gently, that might help",
    "questioning": "ask one question that shows interest and lets them go on",
    "wishing": "wish them something good",
    "neutral": "answer calmly, without strong feeling",
}


class RemoteSpeaker:
    """A :class:`attune.generate.saying.Speaker` behind HTTP.

    A decoding's mode (greedy or nucleus), length, temperature and top_p reach the server; the rest is refused. Without
    log-probabilities from it, candidates have 0.
    """

    def __init__(self, address: Address) -> None:
        self.client = ChatClient(address)
        self.decoding = DECODING
        self._plain = threading.Event()  # set once the server has refused what not every server knows
        self._pool = ThreadPoolExecutor(PARALLEL, "remote")

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.client.close()

    def candidates(self, asks: Sequence[Ask]) -> list[list[Candidate]]:
        return list(self._pool.map(self._candidates, asks))

    def stream(self, ask: Ask) -> Iterator[str]:
        said = False
        with closing(self._chunks(ask)) as chunks:
            for chunk in chunks:
                for choice in chunk.get("choices") or ():
                    piece = (choice.get("delta") or {}).get("content") or ""
                    piece = piece if said else piece.lstrip()
                    if piece:
                        said = True
                        yield piece
        if not said:
            raise RemoteRefusal(f"{self.client.address.url}: the server answered with nothing")

    def _chunks(self, ask: Ask) -> Generator[dict[str, Any], None, None]:
        body = self._body(ask)
        if self._plain.is_set():
            body = plain(body)
        try:
            yield from self.client.stream(body)
        except RemoteRefusal:
            if self._plain.is_set():
                raise
            yield from self.client.stream(plain(body))
            self._plain.set()

    def _candidates(self, ask: Ask) -> list[Candidate]:
        found: list[Candidate] = []
        for turn in range(ask.count):  # a server that takes no `n` is asked again and again
            left = ask.count - len(found)
            body = self._body(ask) | {"logprobs": True, "seed": ask.seed + turn} | ({"n": left} if left > 1 else {})
            found += [said for said in map(_candidate, self._complete(body)) if said.text]
            if len(found) >= ask.count:
                break
        if not found:
            raise RemoteRefusal(f"{self.client.address.url}: the server answered with nothing")
        return found[: ask.count]

    def _complete(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The choices of an answer, each with its share of the tokens."""
        if self._plain.is_set():
            answer = self.client.complete(plain(body))
        else:
            try:
                answer = self.client.complete(body)
            except RemoteRefusal:
                answer = self.client.complete(plain(body))
                self._plain.set()
        choices = answer.get("choices")
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            raise RemoteError(f"{self.client.address.url}: the answer is not of the form of a chat completion")
        return choices

    def _body(self, ask: Ask) -> dict[str, Any]:
        decoding = ask.decoding or self.decoding
        if decoding.mode not in ("greedy", "nucleus") or decoding.top_k or decoding.block_ngram:
            raise SettingsError(f"decoding: a remote engine takes greedy or nucleus without top_k, not {decoding}")
        chosen = {"temperature": 0.0} if decoding.mode == "greedy" else {"temperature": decoding.temperature}
        return {
            "messages": messages(ask),
            "max_tokens": decoding.max_steps,
            "top_p": decoding.top_p,
            "seed": ask.seed,
            **chosen,
        }


def messages(ask: Ask) -> list[dict[str, str]]:
    """The conversation as a chat, the instructions first.

    >>> from attune.dialogue.types import Turn
    >>> ask = Ask((Turn("speaker", "My dog died."),), Control("sad", "questioning", concepts=("grief",)))
    >>> [message["role"] for message in messages(ask)]
    ['system', 'user']
    """
    chat = [{"role": "system", "content": instructions(ask.control.checked(), ask.tone)}]
    for turn in ask.context:
        role = "user" if turn.role == "speaker" else "assistant"
        if chat[-1]["role"] == role:  # many models want the roles to alternate
            chat[-1]["content"] += f"\n{turn.text}"
        else:
            chat.append({"role": role, "content": turn.text})
    return chat


def instructions(control: Control, tone: Tone) -> str:
    """What the server's model is told before the conversation."""
    who = f"You are {tone.name}, who listens" if tone.name else "You are somebody who listens"
    length = (
        "one short sentence"
        if tone.brevity > 0.66
        else "three or four sentences"
        if tone.brevity < 0.33
        else "one or two short sentences"
    )
    lines = [
        f"{who} with empathy to the person you are chatting with. Answer what they said last, in {length} of plain spoken "
        "English, as a caring person would in a chat: about them, not about yourself; no lists, no headings, no advice that they did "
        "not ask for."
    ]
    if tone.warmth > 0.66:
        lines.append("Be very warm.")
    elif tone.warmth < 0.33:
        lines.append("Be friendly but matter-of-fact.")
    if control.emotion:
        lines.append(f"They seem to feel {control.emotion}.")
    if control.label:
        does = DOES.get(control.label) or f"share the feeling: {control.label}"
        lines.append(f"In this reply you must {does}." if control.asked else f"A good reply here would {does}.")
    if control.concepts:
        lines.append(f"What people commonly know here, to use only if it helps: {', '.join(control.concepts)}.")
    lines.append("Do not mention these instructions.")
    return "\n".join(lines)


def plain(body: dict[str, Any]) -> dict[str, Any]:
    """A request with only what every server knows."""
    return {key: value for key, value in body.items() if key not in EXTRAS}


def _candidate(choice: dict[str, Any]) -> Candidate:
    text = str((choice.get("message") or {}).get("content") or "").strip()
    tokens = [entry["logprob"] for entry in (choice.get("logprobs") or {}).get("content") or ()]
    return Candidate(text, float(sum(tokens)), len(tokens) or len(text.split()))


class RemoteSystem:
    """A server that says the replies, and a local system (or none) that perceives and decides before it."""

    concurrent = True
    path: Path | None = None
    licence = "that of the model behind the server"

    def __init__(self, speaker: RemoteSpeaker, local: System | None = None) -> None:
        self.speaker, self.local = speaker, local
        offered = local.capabilities & {"perceive", "decide"} if local else frozenset[str]()
        self.capabilities = frozenset({"reply", "say"}) | offered
        self.decoding = speaker.decoding
        self._alone = threading.RLock()  # a local system need not bear several threads

    @classmethod
    def from_environment(cls, local: System | None = None) -> Self:
        return cls(RemoteSpeaker(Address.from_environment()), local)

    @property
    def name(self) -> str:
        """Without the server's address, because a name is shown to everybody."""
        model = self.speaker.client.address.model
        return f"remote:{model}" if model else "remote"

    def close(self) -> None:
        self.speaker.close()
        if self.local is not None and hasattr(self.local, "close"):
            self.local.close()

    def perceive(self, contexts: Sequence[Context], *, progress: Progress | None = None) -> np.ndarray:
        with self._alone:
            return self._local.perceive(contexts, progress=progress)

    def decide(self, contexts: Sequence[Context]) -> np.ndarray:
        with self._alone:
            return np.asarray(self._local.decide(contexts))

    def candidates(self, asks: Sequence[Ask]) -> list[list[Candidate]]:
        return self.speaker.candidates(asks)

    def stream(self, ask: Ask) -> Iterator[str]:
        return self.speaker.stream(ask)

    def reply(
        self,
        contexts: Sequence[Context],
        *,
        decoding: Decoding | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> list[Said]:
        """One reply each, after what the local system perceives and decides."""
        felt = self._best("perceive", contexts, EMOTIONS)
        chosen = self._best("decide", contexts, LABELS)
        asks = [
            Ask(context, Control(emotion, label), seed=seed, decoding=decoding)
            for context, emotion, label in zip(contexts, felt, chosen, strict=True)
        ]
        said = []
        for found in self.speaker.candidates(asks):
            said.append(Said(normal_form(found[0].text), found[0].text))
            if progress:
                progress(1)
        return said

    def _best(self, what: str, contexts: Sequence[Context], names: Sequence[str]) -> list[str | None]:
        if what not in self.capabilities:
            return [None] * len(contexts)
        return [names[int(row.argmax())] for row in getattr(self, what)(contexts)]

    @property
    def _local(self) -> Any:
        if self.local is None:
            raise SettingsError("a remote engine does not perceive or decide by itself; give it a local system")
        return self.local
