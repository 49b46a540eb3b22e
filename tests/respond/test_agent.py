"""The agent, with a fake system around which every stage can be seen, and with real ones."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import attune
from attune.dialogue.types import Context, Dialogue, Turn
from attune.emotion.taxonomy import EMOTIONS, LABELS
from attune.errors import AttuneError, DataError, SettingsError
from attune.generate import labeller
from attune.generate.labeller import Label
from attune.generate.reranking import CommonPhrases
from attune.generate.saying import Tone
from attune.knowledge.ckece import EmotionalConcept
from attune.models import SYSTEMS
from attune.respond.agent import COMMON, Agent
from attune.respond.replies import STAGES
from attune.respond.stages import Decision, Shares, SystemPerceives
from attune.respond.streaming import ReplyStream
from tests.respond.fakes import FakeGuard, FakeSystem, decide_nothing, fake_agent, recall
from tests.systems import SILENT, small_system

SAD = ["I am sad about my dog."]


def test_a_reply_says_what_is_behind_it() -> None:
    reply = fake_agent().reply(SAD, seed=0)
    assert reply.text in [candidate["text"] for candidate in reply.candidates]
    assert (reply.emotion, next(iter(reply.emotions)), set(reply.emotions)) == ("sad", "sad", set(EMOTIONS))
    assert reply.intent == "questioning"
    assert "60%" in reply.intent_why
    assert reply.concepts[0] | {"head": "dog", "relation": "IsA", "tail": "pet"} == reply.concepts[0]
    assert reply.guard == {"risk": None, "why": "", "action": "none"}
    assert set(reply.timings) == {*STAGES, "total"}
    assert (reply.system, reply.seed) == ("fake", 0)
    assert json.loads(json.dumps(reply.to_dict()))["text"] == reply.text


def test_the_system_is_asked_with_what_was_found() -> None:
    system = FakeSystem()
    fake_agent(system, tone=Tone("Robin", 0.9, 0.8), count=3).reply(SAD, seed=5)
    (ask,) = system.asks
    assert ask.control == ("sad", "questioning", False, ("pet",))
    assert (ask.count, ask.seed, ask.tone) == (3, 5, Tone("Robin", 0.9, 0.8))


def test_the_tone_holds_over_a_conversation() -> None:
    system = FakeSystem()
    agent = fake_agent(system, tone=Tone("Robin"))
    turns = list(SAD)
    for _ in range(3):
        turns += [agent.reply(turns).text, "Yes."]
    assert {ask.tone.name for ask in system.asks} == {"Robin"}
    with pytest.raises(SettingsError, match="warmth"):
        fake_agent(tone=Tone(warmth=3))


def test_a_brief_tone_ends_after_a_sentence_or_two_streamed_or_not() -> None:
    said = "Oh no! I am so sorry. How is she now? I hope she is well."
    for brevity, heard in ((0.5, said), (0.6, "Oh no! I am so sorry. How is she now?"), (1.0, "Oh no! I am so sorry.")):
        for capabilities in (("say",), ("reply",)):
            agent = fake_agent(FakeSystem(*capabilities, replies=[said]), tone=Tone(brevity=brevity))
            assert agent.reply(SAD).text == heard
            assert "".join(agent.reply(SAD, stream=True)) == heard
    system = FakeSystem(replies=[said])
    list(fake_agent(system, tone=Tone(brevity=1.0)).reply(SAD, stream=True))
    assert (system.stopped, system.ended) == (1, 0), "what nobody is to hear is not decoded"


def test_a_warm_tone_asks_for_warm_replies_and_a_cool_one_for_others() -> None:
    def asked(warmth: float, **shares: float) -> tuple[str | None, bool, str]:
        def decide(contexts: Sequence[Context], felt: Sequence[Shares]) -> list[Decision]:
            return [Decision(max(shares, key=lambda name: shares[name]), shares, "it fits best") for _ in contexts]

        system = FakeSystem()
        reply = fake_agent(system, decide=decide, tone=Tone(warmth=warmth)).reply(SAD)
        control = system.asks[0].control
        assert control.label == reply.intent
        return control.label, control.asked, reply.intent_why

    assert asked(0.5, questioning=0.5, consoling=0.4) == ("questioning", False, "it fits best")
    assert asked(1.0, questioning=0.5, consoling=0.4)[:2] == ("consoling", True)
    assert "the tone is warm" in asked(1.0, questioning=0.5, consoling=0.4)[2]
    assert asked(0.0, questioning=0.4, consoling=0.5)[:2] == ("questioning", True)
    assert asked(1.0, questioning=0.98, consoling=0.02)[:2] == ("questioning", False), "not whatever it costs"


@pytest.mark.parametrize("stream", [False, True])
def test_an_asked_intent_counts_more_than_the_tone(stream: bool) -> None:
    system = FakeSystem()
    reply = fake_agent(system, tone=Tone(warmth=1.0)).reply(SAD, intent="suggesting", stream=stream)
    "".join(reply if isinstance(reply, ReplyStream) else [])
    assert system.asks[0].control[1:3] == ("suggesting", True)


def test_every_score_of_every_candidate_is_kept_best_first() -> None:
    candidates = fake_agent().reply(SAD, seed=0).candidates
    assert len(candidates) == 4
    scores = [candidate["score"] for candidate in candidates]
    assert scores == sorted(scores, reverse=True)
    assert all({"likelihood", "overlap", "repeats"} <= set(candidate["scores"]) for candidate in candidates)


class Questions:
    """Takes every text with a question mark for a question."""

    def label(self, texts: Sequence[str]) -> list[Label]:
        return [Label("", 0.0, {"questioning": 0.9 if "?" in text else 0.1}) for text in texts]


def test_candidates_are_ranked_by_the_label_they_reach_and_no_labeller_is_opened_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[Questions] = []
    monkeypatch.setattr(labeller, "load_labeller", lambda: opened.append(Questions()) or opened[-1])
    agent = fake_agent(labeller="auto")
    agent.warm_up()
    "".join(agent.reply(SAD, seed=0, stream=True))
    fake_agent(labeller="auto", count=1).reply(SAD)
    assert not opened, "what is not compared needs no label"
    for _ in range(2):
        ranked = agent.reply(SAD, seed=0).candidates
    assert [one["scores"]["label"] for one in ranked] == [0.9 if "?" in one["text"] else 0.1 for one in ranked]
    assert len(opened) == 1
    off = fake_agent(labeller=None).reply(SAD, seed=0).candidates
    assert not any("label" in one["scores"] for one in off)
    own = fake_agent(labeller=Questions()).reply(SAD, seed=0).candidates
    assert (own, len(opened)) == (ranked, 1)


def test_without_the_encoders_part_no_label_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path))
    ranked = fake_agent(labeller="auto").reply(SAD, seed=0).candidates
    assert len(ranked) == 4
    assert not any("label" in one["scores"] for one in ranked)


def test_the_number_of_candidates_is_the_systems_own_unless_told() -> None:
    system = FakeSystem()
    system.count = 2  # type: ignore[attr-defined]
    fake_agent(system).reply(SAD)
    fake_agent(system, count=5).reply(SAD)
    assert [ask.count for ask in system.asks] == [2, 5]


def test_what_was_learnt_about_generic_replies_is_taken_from_the_folder(tmp_path: Path) -> None:
    system = FakeSystem()
    CommonPhrases.learn(["I am so sorry to hear that."] * 5).save(tmp_path / COMMON)
    system.path = tmp_path
    scores = {one["text"]: one["scores"]["generic"] for one in fake_agent(system).reply(SAD).candidates}
    assert scores["I am so sorry to hear that."] > scores["I see."]


# ------------------------------------------------------------------------------------------------ intents and seeds


def test_an_intent_that_is_asked_for_is_passed_on_as_asked() -> None:
    system = FakeSystem()
    reply = fake_agent(system).reply(SAD, intent="consoling")
    assert (system.asks[0].control.label, system.asks[0].control.asked) == ("consoling", True)
    assert (reply.intent, reply.intent_why) == ("consoling", "consoling was asked for")


def test_a_wrong_intent_gets_the_nearest_one() -> None:
    with pytest.raises(SettingsError, match="did you mean 'questioning'"):
        fake_agent().reply(SAD, intent="questionning")
    with pytest.raises(SettingsError, match="did you mean 'questioning'"):
        fake_agent().reply_many([SAD], intents=["questionning"])


def test_a_system_that_takes_no_intent_says_so_instead_of_ignoring_it() -> None:
    with pytest.raises(SettingsError, match="'fake' cannot be asked for an intent"):
        fake_agent(FakeSystem("reply")).reply(SAD, intent="questioning")


@pytest.mark.parametrize(
    ("turns", "label"),
    [
        (["I am sad."], "sympathizing"),
        (["I won!"], "acknowledging"),
        (["Hi", "What happened?", "I am sad."], "consoling"),
        (["Hi", "What happened?", "I won!"], "encouraging"),
        (["Hi", "Hello.", "I am sad."], "questioning"),
    ],
)
def test_without_a_prediction_a_rule_decides(turns: list[str], label: str) -> None:
    reply = fake_agent(FakeSystem("say", "perceive")).reply(turns)
    assert (reply.intent, "by rule" in reply.intent_why) == (label, True)


def test_a_number_gives_the_same_reply_and_none_a_fresh_one() -> None:
    agent = fake_agent(count=1)
    assert {agent.reply(SAD, seed=7).text for _ in range(5)} == {agent.reply(SAD, seed=7).text}
    assert len({agent.reply(SAD).text for _ in range(40)}) > 1
    assert agent.reply(SAD, seed=-(2**63)).text


# ---------------------------------------------------------------------------------------------------------- stages


def test_each_stage_can_be_switched_off() -> None:
    system = FakeSystem()
    reply = fake_agent(system, perceive=None, recall=None, decide=None, guard=None).reply(SAD)
    assert (reply.emotion, reply.emotions, reply.intent, reply.concepts) == (None, {}, None, [])
    assert system.asks[0].control == (None, None, False, ())
    assert "without choosing an intent" in reply.intent_why


def test_each_stage_can_be_swapped() -> None:
    other = FakeSystem("perceive")
    reply = fake_agent(FakeSystem("reply"), perceive=SystemPerceives(other)).reply(SAD)
    assert reply.emotion == "sad"


def test_what_is_known_is_recalled_while_what_is_felt_is_perceived() -> None:
    both = threading.Barrier(2, timeout=10)

    def perceive(contexts: Sequence[Context]) -> list[dict[str, float]]:
        both.wait()
        return [{"sad": 1.0} for _ in contexts]

    def recalled(contexts: Sequence[Context]) -> list[list[EmotionalConcept]]:
        both.wait()
        return recall(contexts)

    assert fake_agent(perceive=perceive, recall=recalled).reply(SAD).concepts

    def nothing(contexts: Sequence[Context]) -> list[list[EmotionalConcept]]:
        raise DataError("the dictionary is torn")

    with pytest.raises(DataError, match="torn"):
        fake_agent(recall=nothing).reply(SAD)


def test_a_stream_of_a_closed_agent_says_that_it_is_closed() -> None:
    agent = fake_agent()
    stream = agent.reply(SAD, stream=True)
    agent.close()
    with pytest.raises(AttuneError, match="is closed"):
        list(stream)


def test_a_system_offers_what_it_can(dialogues: list[Dialogue]) -> None:
    only_reply = fake_agent(FakeSystem("reply")).reply(SAD, seed=0)
    assert (only_reply.emotion, only_reply.intent) == (None, None)
    assert only_reply.candidates == [{"text": only_reply.text, "score": None, "scores": {}}]
    with pytest.raises(SettingsError, match="does not reply"):
        Agent(FakeSystem("perceive"))
    real = Agent(small_system("emoprepend", dialogues), recall=None).reply(["My old dog died on Monday."])
    assert set(real.emotions) == set(EMOTIONS)
    assert sum(real.emotions.values()) == pytest.approx(1, abs=1e-4)
    blind = Agent(small_system("transformer", dialogues), recall=None).reply(["My old dog died on Monday."])
    assert (blind.emotion, blind.emotions) == (None, {})


@pytest.mark.parametrize("name", [name for name in SYSTEMS if SYSTEMS[name].family not in SILENT])
def test_every_registered_system_that_replies_can_be_talked_with(name: str, dialogues: list[Dialogue]) -> None:
    system = small_system(name, dialogues)
    agent = fake_agent(system, count=2)
    turns = ["My old dog died on Monday."]
    for _ in range(2):
        reply = agent.reply(turns, seed=3)
        assert reply.text
        assert bool(reply.emotions) == ("perceive" in system.capabilities)
        assert (reply.intent in LABELS) == ("say" in system.capabilities)
        stream = agent.reply(turns, seed=3, stream=True)
        assert "".join(stream) == stream.reply.text != ""
        turns += [reply.text, "Yes, it was so."]


# ----------------------------------------------------------------------------------------------------------- guard


def test_what_the_guard_answers_is_not_generated() -> None:
    system = FakeSystem()
    reply = fake_agent(system, decide=decide_nothing).reply(["I want to kill myself."])
    assert reply.text == "I am glad you told me. Please call for help."
    assert reply.guard == {"risk": "self-harm", "why": "they say that they want to die", "action": "answered"}
    assert (system.asks, reply.candidates, reply.intent) == ([], [], None)
    assert reply.emotion is not None
    assert "".join(fake_agent(system).reply(["I want to kill myself."], stream=True)) == reply.text


def test_it_says_that_it_is_a_machine_when_it_is_asked() -> None:
    system = FakeSystem()
    reply = fake_agent(system, tone=Tone("Robin")).reply(["Are you a machine?"])
    assert reply.text.startswith("I am Robin, a program and not a person.")
    assert reply.guard == {"risk": None, "why": "they ask whether this is a machine", "action": "answered"}
    assert system.asks == []


def test_a_refused_candidate_gives_way_to_the_next_and_says_why() -> None:
    system = FakeSystem(replies=["Your stupid dog!", "I see."])
    reply = fake_agent(system, count=2).reply(SAD, seed=0)
    assert reply.text == "I see."
    assert reply.guard == {"risk": None, "why": "it insults", "action": "replaced"}
    assert [candidate.get("refused") for candidate in reply.candidates] == ["it insults", None]


def test_a_stream_tells_what_was_begun_and_refused_and_not_the_guards_words_as_the_systems() -> None:
    agent = fake_agent(FakeSystem(replies=["You are stupid.", "I see, that is sad."]))
    stream = agent.reply(SAD, seed=0, stream=True)
    assert "".join(stream) == "I see, that is sad."
    assert [(one["text"], one.get("refused")) for one in stream.reply.candidates] == [
        ("You are stupid.", "it insults"),
        ("I see, that is sad.", None),
    ]
    stream = fake_agent(FakeSystem(replies=["I see. You are stupid."])).reply(SAD, stream=True)
    assert "".join(stream) == "I see. I am here and I am listening."
    assert [(one["text"], one.get("refused")) for one in stream.reply.candidates] == [
        ("I see. You are stupid.", "it insults")
    ]


def test_if_all_are_refused_or_nothing_is_said_the_guard_speaks() -> None:
    for replies, why in ((["You are stupid."], "it insults"), ([""], "the system said nothing")):
        for capabilities in (("say",), ("reply",)):
            agent = fake_agent(FakeSystem(*capabilities, replies=replies))
            reply = agent.reply(SAD)
            assert (reply.text, reply.guard["action"], reply.guard["why"]) == (
                "I am here and I am listening.",
                "replaced",
                why,
            )
            stream = agent.reply(SAD, stream=True)
            assert "".join(stream) == reply.text == stream.reply.text
            assert stream.reply.guard["action"] == "replaced"


def test_the_guard_hears_all_turns_though_the_system_reads_a_window() -> None:
    guard, system = FakeGuard(), FakeSystem()
    turns = [Turn(("speaker", "listener")[i % 2], f"turn {i} " + "word " * 20) for i in range(501)]
    assert fake_agent(system, guard=guard).reply(turns).text
    assert len(guard.heard[0]) == 501
    read = system.asks[0].context
    assert read[0].text.startswith("turn 0 ")
    assert read[-1].text.startswith("turn 500 ")
    assert len(read) < 40


# ------------------------------------------------------------------------------------------------ batches, threads


def test_many_are_answered_in_one_batch_each_as_it_would_be_alone() -> None:
    system = FakeSystem()
    agent = fake_agent(system, count=1)
    talks = [["I am sad."], ["I won!"], ["I want to kill myself."], ["Hi", "Hello", "My cat is here."]]
    together = agent.reply_many(talks, seeds=[1, 2, 3, 1], intents=[None, "wishing", None, None])
    assert system.batches == [3]
    for talk, seed, reply in zip(talks, [1, 2, 3, 1], together):
        alone = agent.reply(talk, seed=seed)
        assert (reply.text, reply.emotions, reply.guard) == (alone.text, alone.emotions, alone.guard)
    assert [reply.intent for reply in together] == ["questioning", "wishing", None, "questioning"]
    assert agent.reply_many([]) == []


def test_those_who_ask_together_share_what_is_decoded_at_once() -> None:
    system = FakeSystem()
    system.rows = 8  # type: ignore[attr-defined]
    agent = fake_agent(system)

    def counts(together: int, seeds: list[int | None] | None = None) -> list[int]:
        system.asks.clear()
        agent.reply_many([SAD] * together, seeds=seeds)
        return [ask.count for ask in system.asks]

    assert [counts(together) for together in (1, 2, 3)] == [[4], [4, 4], [2, 2, 2]]
    assert counts(20) == [1] * 20
    assert counts(4, [None, 7, None, None]) == [2, 4, 2, 2], "a seed gives the same reply again"
    agent = fake_agent(system, count=3)
    assert counts(20) == [3] * 20, "as many as were asked for"


def test_a_batch_for_a_system_that_only_replies_is_split_by_seed() -> None:
    system = FakeSystem("reply")
    agent = fake_agent(system)
    agent.reply_many([SAD] * 4, seeds=[1, 1, 2, 1])
    assert sorted(system.batches) == [1, 3]
    agent.reply_many([SAD] * 4)
    assert system.batches[-1] == 4


def test_a_bad_conversation_of_a_batch_is_named() -> None:
    with pytest.raises(DataError, match="conversation 2: turn 1 is empty"):
        fake_agent().reply_many([SAD, [" "]])
    with pytest.raises(DataError, match="2 conversations, but 1 seeds"):
        fake_agent().reply_many([SAD, SAD], seeds=[1])


def test_many_threads_get_the_replies_they_asked_for() -> None:
    agent = fake_agent()
    expected = {seed: agent.reply([f"I am sad {seed}."], seed=seed).text for seed in range(8)}

    def talk(seed: int) -> bool:
        streamed = "".join(agent.reply([f"I am sad {seed}."], seed=seed, stream=True))
        return agent.reply([f"I am sad {seed}."], seed=seed).text == expected[seed] and bool(streamed)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(talk, list(range(8)) * 6))


def test_a_system_made_for_threads_is_called_by_all_at_once() -> None:
    both_inside = threading.Barrier(2, timeout=10)

    class Concurrent(FakeSystem):
        concurrent = True

        def candidates(self, asks):  # type: ignore[no-untyped-def]
            both_inside.wait()
            return [[] for _ in asks]

    agent = fake_agent(Concurrent("say"))
    with ThreadPoolExecutor(2) as pool:
        assert len(list(pool.map(agent.reply, [SAD, SAD]))) == 2


# -------------------------------------------------------------------------------------------- analysis and loading


def test_an_analysis_has_everything_and_says_nothing() -> None:
    system = FakeSystem()
    found = fake_agent(system).analyze(SAD)
    assert (found.emotion, found.intent, set(found.intents)) == ("sad", "questioning", set(LABELS))
    assert found.concepts[0]["tail"] == "pet"
    assert system.asks == []
    assert set(found.to_dict()) == {"emotion", "emotions", "intent", "intents", "concepts", "graph"}


def test_a_closed_agent_has_freed_its_system_and_says_so() -> None:
    system = FakeSystem()
    with fake_agent(system) as agent:
        agent.reply(SAD)
    assert system.closed
    with pytest.raises(AttuneError, match="closed"):
        agent.reply(SAD)


def test_the_package_opens_agents_itself_and_nothing_more() -> None:
    assert attune.load.__module__ == "attune.respond.agent"
    assert attune.Tone is Tone
    with pytest.raises(AttributeError, match="laod"):
        attune.laod  # noqa: B018


def test_a_run_folder_is_opened_by_its_path_and_by_the_systems_name(
    dialogues: list[Dialogue], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = small_system("emoprepend", dialogues)
    for folder in ("elsewhere", "runs/emoprepend-tuned"):
        system.model.save_pretrained(tmp_path / folder)
        system.codec.save(tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    by_path = attune.load(tmp_path / "elsewhere", guard=False, recall=None)
    by_name = attune.load("emoprepend", guard=False, recall=None)
    assert by_path.reply(SAD, seed=0).text == by_name.reply(SAD, seed=0).text
    assert by_name.licence == "CC BY-NC 4.0"
    with pytest.raises(AttuneError, match="did you mean 'emoprepend'"):
        attune.load("emoprepned")
    with pytest.raises(AttuneError, match="attune train kemp"):
        attune.load("kemp")


def test_a_server_speaks_for_the_default_system_when_its_address_is_set(
    dialogues: list[Dialogue], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = small_system("emoprepend", dialogues)
    system.model.save_pretrained(tmp_path)
    system.codec.save(tmp_path)
    monkeypatch.setenv("ATTUNE_SYSTEM", str(tmp_path))
    monkeypatch.delenv("ATTUNE_ENGINE_URL", raising=False)
    assert attune.load(recall=None).name == "emoprepend"
    with pytest.raises(AttuneError, match="ATTUNE_ENGINE_URL"):
        attune.load("remote", recall=None)
    monkeypatch.setenv("ATTUNE_ENGINE_URL", "http://127.0.0.1:9/v1")
    for name in ("default", "remote"):
        with attune.load(name, recall=None) as agent:
            assert agent.name == "remote"
            assert agent.analyze(SAD).emotion in EMOTIONS
            assert agent.speaker is not None
    assert attune.load(tmp_path, recall=None).name == "emoprepend"


def test_a_system_that_could_not_follow_is_not_said_to_have_an_intent() -> None:
    agent = fake_agent(FakeSystem("reply", "perceive", "decide"))
    assert agent.reply(SAD).intent is None
    assert agent.analyze(SAD).intent == "questioning"
