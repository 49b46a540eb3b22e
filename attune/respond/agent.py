"""The agent: a system that is spoken with. It perceives, recalls, decides, says and guards (DESIGN 1).

agent = attune.load()
agent.reply(["I finally got the job!"]).text
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast, overload

from attune.dialogue.types import Turn
from attune.emotion.taxonomy import LABELS
from attune.errors import AttuneError, DataError, SettingsError, did_you_mean
from attune.generate.reranking import CommonPhrases, Labelling, Ranked, Reranker, Weights
from attune.generate.saying import EVEN, Speaker, Tone, long_enough, shortened
from attune.generate.systems import System
from attune.respond.exchange import Exchange
from attune.respond.guard import load_guard
from attune.respond.guarding import Chosen, Guarding, Guards, report
from attune.respond.opening import licence_of, open_named
from attune.respond.replies import Analysis, Clock, Reply
from attune.respond.spelling import spelled
from attune.respond.stages import (
    Decide,
    DecidesByRule,
    Decision,
    Perceive,
    Recall,
    RecallsConcepts,
    SystemDecides,
    SystemPerceives,
    concept_values,
    tilted,
    top,
)
from attune.respond.streaming import ReplyStream, clauses
from attune.respond.turns import WINDOW, as_context, readable, windowed

Turns = str | Turn | Sequence[str | Turn]
Auto = Literal["auto"]
RECALLING = 8  # threads that recall while others perceive, at most
BEGUN = 3  # times that a stream begins, at most, before anything of it may go out
COUNT = 4  # candidates, for a system that does not say how many it wants
COMMON = "common.json"  # in a run folder: the phrases that many replies share
_SEEDS = 2**31


def load(
    system: str | Path = "default",
    *,
    tone: Tone | None = None,
    guard: Guards | bool = True,
    country: str | None = None,
    perceive: Perceive | Auto | None = "auto",
    recall: Recall | Auto | None = "auto",
    decide: Decide | Auto | None = "auto",
    count: int | None = None,
    weights: Weights | None = None,
    labeller: Labelling | Auto | None = "auto",
    window: int | None = None,
) -> Agent:
    """The default system, the one in a run folder, or a registered one that was trained here, ready to talk.

    "remote" is the default system with the voice of the server at `ATTUNE_ENGINE_URL`; if that is set, so is "default".
    The `labeller` is the system if it labels, else the one that comes with Attune, opened when it is first needed; None: off.

    A stage is "auto" (what the system offers), an object of the shape in :mod:`attune.respond.stages`, or None: off.
    `guard` may be False, or one of your own; `country` is where help is to be found ("DE"). `count` candidates are
    ranked by `weights`, with a `labeller` also by the label they reach; by default several, fewer for each of many who ask
    at once. `window`: bytes of a conversation that are read; what is older than that, but for its opening, is left out.
    """
    (tone or EVEN).checked()
    opened = open_named(system)
    if isinstance(guard, bool):
        watching: Guards | None = load_guard(country, (tone or EVEN).name) if guard else None
    else:
        watching = guard
    return Agent(
        opened,
        tone=tone,
        guard=watching,
        perceive=perceive,
        recall=recall,
        decide=decide,
        count=count,
        weights=weights,
        labeller=labeller,
        window=window,
    )


class Agent:
    """A system with the stages around it. `turns` are texts that alternate, the person's last, or :class:`Turn` objects.

    Several threads may use one agent. A system is called by one of them at a time, unless it has `concurrent = True`; a
    stream of a :class:`Speaker` is never waited for.
    """

    def __init__(
        self,
        system: System,
        *,
        tone: Tone | None = None,
        guard: Guards | None = None,
        perceive: Perceive | Auto | None = "auto",
        recall: Recall | Auto | None = "auto",
        decide: Decide | Auto | None = "auto",
        count: int | None = None,
        weights: Weights | None = None,
        labeller: Labelling | Auto | None = "auto",
        window: int | None = None,
    ) -> None:
        self.system = cast("Any", system)  # what it offers is asked for, not known by its type
        self.name, self.licence = system.name, licence_of(system)
        offers = system.capabilities
        if not offers & {"reply", "say"}:
            raise SettingsError(f"'{system.name}' does not reply; it offers {', '.join(sorted(offers))}")
        self.speaker: Speaker | None = self.system if "say" in offers else None
        self.tone = (tone or EVEN).checked()
        self.window = window or int(getattr(system, "window", WINDOW))
        self.typed = bool(getattr(system, "typed", False))  # it spells as people do who type in haste
        self.count = count or int(getattr(system, "count", COUNT))
        # replies that it decodes at once, to be shared by those who ask together; None: each has its whole count
        self.rows: int | None = None if count else getattr(system, "rows", None)
        if perceive == "auto":
            perceive = SystemPerceives(system) if "perceive" in offers else None
        if recall == "auto":
            recall = RecallsConcepts()
        if decide == "auto":
            by_rule = DecidesByRule() if self.speaker else None
            decide = SystemDecides(system) if "decide" in offers else by_rule
        if labeller == "auto" and "label" in offers:
            labeller = self.system
        self.perceive, self.recall, self.decide, self.guarding = (
            perceive,
            recall,
            decide,
            Guarding(guard, self.tone.name),
        )
        self.reranker = Reranker(weights or Weights(), labeller=labeller, common=_common_phrases(system))
        alone: AbstractContextManager[Any] = threading.RLock()
        self._alone = nullcontext() if getattr(system, "concurrent", False) else alone
        self._beside = ThreadPoolExecutor(RECALLING, "recall")
        self._closed = False

    @overload
    def reply(
        self, turns: Turns, *, intent: str | None = None, seed: int | None = None, stream: Literal[False] = False
    ) -> Reply: ...

    @overload
    def reply(
        self, turns: Turns, *, intent: str | None = None, seed: int | None = None, stream: Literal[True]
    ) -> ReplyStream: ...

    @overload
    def reply(
        self, turns: Turns, *, intent: str | None = None, seed: int | None = None, stream: bool
    ) -> Reply | ReplyStream: ...

    def reply(
        self, turns: Turns, *, intent: str | None = None, seed: int | None = None, stream: bool = False
    ) -> Reply | ReplyStream:
        """Answer the last turn of a conversation.

        `intent` is the label that the reply is to have; by default the agent decides. A seed gives the same reply again;
        without one each is fresh. A stream says one candidate as it comes; otherwise the best of several is said.
        """
        exchange = self._exchange(turns, intent, secrets.randbelow(_SEEDS), seed)
        if stream:
            return ReplyStream(lambda closed: self._stream(exchange, closed))
        return self._replies([exchange])[0]

    def reply_many(
        self,
        conversations: Sequence[Turns],
        *,
        intents: Sequence[str | None] | None = None,
        seeds: Sequence[int | None] | None = None,
    ) -> list[Reply]:
        """Answer several conversations in one batch, in their order.

        A system that decodes so many replies at once considers fewer candidates for each of many, unless it has a seed or
        the agent was given a `count`.
        """
        count, fresh = len(conversations), secrets.randbelow(_SEEDS)
        for given, what in ((intents, "intents"), (seeds, "seeds")):
            if given is not None and len(given) != count:
                raise DataError(f"{count} conversations, but {len(given)} {what}; give one for each, or none")
        exchanges = []
        for number, (turns, intent, seed) in enumerate(
            zip(conversations, intents or [None] * count, seeds or [None] * count, strict=True), 1
        ):
            try:
                exchanges.append(self._exchange(turns, intent, fresh, seed))
            except DataError as error:
                raise DataError(f"conversation {number}: {error}") from None
        return self._replies(exchanges)

    def analyze(self, turns: Turns) -> Analysis:
        """What is felt, what reply is called for, and what is commonly known; nothing is said."""
        exchange = self._exchange(turns, None, 0, None)
        self._understand([exchange], Clock(), saying=False)
        graph = self.recall.graph(exchange.context) if isinstance(self.recall, RecallsConcepts) else {}
        return Analysis(
            emotion=top(exchange.felt),
            emotions=exchange.felt,
            intent=exchange.decision.label,
            intents=exchange.decision.shares,
            concepts=concept_values(exchange.concepts),
            graph=graph,
        )

    def check_intent(self, intent: str | None) -> str | None:
        """The same, or an error: an unknown one with the nearest, or one that this system cannot be asked for."""
        if intent is not None and intent not in LABELS:
            raise SettingsError(did_you_mean(intent, LABELS, "intent"))
        if intent is not None and self.speaker is None:
            raise SettingsError(f"'{self.name}' cannot be asked for an intent; leave it out, or choose another system")
        return intent

    @property
    def notes(self) -> list[str]:
        """What does not work here, and how to mend it."""
        trouble: str = getattr(self.recall, "trouble", "")
        return [trouble] if trouble else []

    def warm_up(self) -> None:
        """Open what the first reply would open."""
        if isinstance(self.recall, RecallsConcepts):
            self.recall.open()

    def close(self) -> None:
        """Free what the system holds. The agent answers no more."""
        self._closed = True
        self._beside.shutdown()
        if hasattr(self.system, "close"):
            self.system.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, turns: Turns, intent: str | None, fresh: int, seed: int | None) -> Exchange:
        self._check_open()
        whole = as_context(turns)
        read, drawn = windowed(whole, self.window), (fresh if seed is None else seed) % _SEEDS
        return Exchange(whole, read, drawn, self.check_intent(intent), seed is not None)

    def _check_open(self) -> None:
        if self._closed:
            raise AttuneError(f"the agent of '{self.name}' is closed; load it again")

    def _understand(self, exchanges: Sequence[Exchange], clock: Clock, *, saying: bool = True) -> None:
        """Listen, perceive, recall, decide. What the guard answers itself is perceived and no more.

        Nothing is decided before a reply of a system that could not follow.
        """
        self._check_open()
        decide = self.decide if self.speaker is not None or not saying else None
        if saying:
            with clock("guard"):
                for exchange in exchanges:
                    exchange.heard = self.guarding.listen(exchange.turns)
                    exchange.answer = self.guarding.answer(exchange.heard)
        to_say = [exchange for exchange in exchanges if exchange.answer is None]
        contexts = [exchange.context for exchange in to_say]
        recalling = self._beside.submit(self._recall, to_say, clock)  # neither needs what the other finds
        try:
            if self.perceive is not None:
                with clock("perceive"), self._alone:
                    everyone = self.perceive([one.context for one in exchanges])
                for exchange, felt in zip(exchanges, everyone, strict=True):
                    exchange.felt = felt
        finally:
            recalling.result()
        if decide is not None and to_say:
            with clock("decide"), self._alone:
                decisions = decide(contexts, [exchange.felt for exchange in to_say])
            for exchange, decision in zip(to_say, decisions, strict=True):
                exchange.decision = tilted(decision, self.tone.warmth)
        for exchange in exchanges:
            if exchange.answer is not None:
                exchange.decision = Decision(why="the guard answered, so no intent was chosen")
            elif exchange.asked is not None:
                exchange.decision = Decision(
                    exchange.asked, exchange.decision.shares, f"{exchange.asked} was asked for", asked=True
                )
            elif decide is None:
                exchange.decision = Decision(why=f"'{self.name}' answers without choosing an intent first")

    def _recall(self, exchanges: Sequence[Exchange], clock: Clock) -> None:
        if self.recall is not None and exchanges:
            with clock("recall"):
                found = self.recall([exchange.context for exchange in exchanges])
            for exchange, concepts in zip(exchanges, found, strict=True):
                exchange.concepts = concepts

    def _replies(self, exchanges: Sequence[Exchange]) -> list[Reply]:
        clock = Clock()
        self._understand(exchanges, clock)
        to_say = [exchange for exchange in exchanges if exchange.answer is None]
        with clock("say"):
            said = iter(self._candidates(to_say) if to_say else [])
        with clock("guard"):
            chosen = [
                self.guarding.choose(one.turns, one.heard, next(said), one.seed)
                if one.answer is None
                else Chosen(one.answer, [], report(one.heard, "answered"))
                for one in exchanges
            ]
        timings = clock.timings()
        return [self._reply(exchange, one, dict(timings)) for exchange, one in zip(exchanges, chosen, strict=True)]

    def _count(self, exchange: Exchange, together: int) -> int:
        """Candidates for one of several that are answered together: what a system decodes at once is shared among them."""
        if exchange.seeded or self.rows is None:
            return self.count
        return max(1, min(self.count, self.rows // together))

    def _candidates(self, exchanges: Sequence[Exchange]) -> list[list[Ranked]]:
        """What could be said, best first."""
        if self.speaker is not None:
            asks = [exchange.ask(self._count(exchange, len(exchanges)), self.tone) for exchange in exchanges]
            with self._alone:
                found = self.speaker.candidates(asks)
            short = [[one._replace(text=self._written(one.text)) for one in some] for some in found]
            return self.reranker.rank(list(zip(asks, short, strict=True)))
        said: dict[int, str] = {}
        for seed in {exchange.seed for exchange in exchanges}:  # such a system takes one seed for a batch
            places = [i for i, exchange in enumerate(exchanges) if exchange.seed == seed]
            with self._alone:
                replies = self.system.reply([exchanges[i].context for i in places], seed=seed)
            said |= {i: self._written(reply.text.strip()) for i, reply in zip(places, replies, strict=True)}
        return [[Ranked(said[i], None, {})] if said[i] else [] for i in range(len(exchanges))]

    def _written(self, text: str) -> str:
        return shortened(self._spelled(text), self.tone.sentences)

    def _spelled(self, text: str, before: str = "") -> str:
        return spelled(text, before) if self.typed else text

    def _stream(self, exchange: Exchange, closed: Callable[[], bool]) -> Generator[str, None, Reply]:
        clock = Clock()
        chosen = Chosen("", [], report(None))
        if not closed():
            self._understand([exchange], clock)
            if exchange.answer is None and self.speaker is not None:
                chosen = yield from self._speak(self.speaker, exchange, clock, closed)
            else:
                chosen = yield from self._say_whole(exchange, clock, closed)
        return self._reply(exchange, chosen, clock.timings())

    def _say_whole(self, exchange: Exchange, clock: Clock, closed: Callable[[], bool]) -> Generator[str, None, Chosen]:
        """What is known whole before its first clause: the guard's answer, or the reply of a system that does not stream."""
        if exchange.answer is not None:
            clock.first()
            yield exchange.answer
            return Chosen(exchange.answer, [], report(exchange.heard, "answered"))
        with clock("say"):
            ranked = self._candidates([exchange])[0]
        with clock("guard"):
            chosen = self.guarding.choose(exchange.turns, exchange.heard, ranked, exchange.seed)
        said = ""
        for clause in clauses([chosen.text]):
            if closed():
                break
            said += clause
            clock.first()
            yield clause
        return chosen._replace(text=said)

    def _speak(
        self, speaker: Speaker, exchange: Exchange, clock: Clock, closed: Callable[[], bool]
    ) -> Generator[str, None, Chosen]:
        """One candidate, each clause as soon as it is whole and the guard has let it through.

        One whose first clause is refused is dropped before anybody saw it, and another begun.
        """
        ask, said, guarded, refused = exchange.ask(1, self.tone), "", report(exchange.heard), ""
        candidates: list[dict[str, Any]] = []
        for number in range(BEGUN):
            stream, last = speaker.stream(replace(ask, seed=ask.seed + number)), number == BEGUN - 1
            said, guarded, tried = yield from self._utter(stream, exchange, clock, closed, last)
            if tried:
                candidates.append(Ranked(tried, None, {})._asdict())
            if guarded["action"] != "none":
                candidates[-1]["refused"] = guarded["why"]
            if said or guarded["action"] == "none":
                break
            refused = refused or guarded["why"]
        if said and refused and guarded["action"] == "none":
            guarded = report(exchange.heard, "replaced", refused)
        if not said and not closed():
            said, guarded = self.guarding.instead(
                exchange.turns, exchange.heard, exchange.seed, "the system said nothing"
            )
            if said:
                clock.first()
                yield said
        return Chosen(said, candidates, guarded)

    def _utter(
        self, stream: Iterator[str], exchange: Exchange, clock: Clock, closed: Callable[[], bool], last: bool
    ) -> Generator[str, None, tuple[str, dict[str, Any], str]]:
        """The clauses of a stream until one is refused: then how it ends safely; if it is the first, only if it is the `last` try.

        Returned are what was said, what the guard did, and what the stream itself had come to.
        """
        said, guarded, tried = "", report(exchange.heard), ""
        pieces = _pieces(stream, clock, closed)
        try:
            for clause in clauses(pieces):
                if closed():
                    break
                with clock("guard"):
                    clause = self._spelled(re.sub(" {2,}", " ", clause), said)
                    tried = said + clause
                    clause, guarded = self.guarding.clause(exchange.turns, exchange.heard, said, clause, exchange.seed)
                refused = guarded["action"] != "none"
                if refused and not said and not last:
                    break
                said += clause
                clock.first()
                yield clause
                if refused or long_enough(said, self.tone.sentences):
                    break
        finally:
            pieces.close()
        return said, guarded, tried

    def _reply(self, exchange: Exchange, chosen: Chosen, timings: dict[str, float]) -> Reply:
        return Reply(
            text=chosen.text,
            system=self.name,
            licence=self.licence,
            emotion=top(exchange.felt),
            emotions=exchange.felt,
            intent=exchange.decision.label,
            intent_why=exchange.decision.why,
            concepts=concept_values(exchange.concepts),
            candidates=chosen.candidates,
            guard=chosen.guard,
            timings=timings,
            seed=exchange.seed,
        )


def _pieces(stream: Iterator[str], clock: Clock, closed: Callable[[], bool]) -> Generator[str, None, None]:
    """A speaker's pieces until it has finished or nobody listens any more; it is closed either way."""
    try:
        while not closed():
            with clock("say"):
                piece = next(stream, None)
            if piece is None:
                return
            yield readable(piece)
    finally:
        if hasattr(stream, "close"):
            stream.close()


def _common_phrases(system: System) -> CommonPhrases | None:
    """What was learnt about generic replies, if the system's folder has it."""
    file = system.path / COMMON if system.path is not None else None
    return CommonPhrases.load(file) if file is not None and file.is_file() else None
