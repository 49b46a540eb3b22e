from __future__ import annotations

import pytest

from attune.dialogue.types import Turn
from attune.errors import MissingError
from attune.knowledge import recall as recalling
from attune.knowledge import unfit
from attune.respond import stages
from attune.respond.stages import RecallsConcepts
from tests.respond.fakes import FakeSystem, fake_agent

SAD = (Turn("speaker", "I fear it must be cancer."), Turn("listener", "Oh no."), Turn("speaker", "I am scared."))


def test_concepts_and_the_graph_of_a_context_are_recalled() -> None:
    recall = RecallsConcepts()
    (concepts,) = recall([SAD])
    assert "cancer" in {concept.keyword for concept in concepts}
    graph = fake_agent(FakeSystem("reply"), recall=recall).analyze(SAD).graph
    kinds = {node["kind"] for node in graph["nodes"]}
    assert kinds == {"cls", "word", "concept"}
    assert [node["id"] for node in graph["nodes"]] == list(range(len(graph["nodes"])))
    fear = next(node for node in graph["nodes"] if node["text"] == "fear")
    assert (fear["turn"], fear["role"]) == (0, "speaker")
    assert fear["valence"] < 0.5
    relations = {edge["relation"] for edge in graph["edges"] if graph["nodes"][edge["to"]]["kind"] == "concept"}
    assert relations > {"cls"}


def test_what_a_listener_does_not_bring_up_is_left_out_of_the_concepts_and_the_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recall = RecallsConcepts()
    said = (Turn("speaker", "I could not sleep. My body and my bed are a mess after the fight."),)
    shown = texts(recall, said)
    monkeypatch.setattr(recalling, "fit", lambda concept: True)
    monkeypatch.setattr(stages, "fit", lambda concept: True)
    assert any(not unfit.fit(text) for text in texts(recall, said) - shown), "the words were to call up something unfit"
    assert shown
    assert all(unfit.fit(text) for text in shown)


def texts(recall: RecallsConcepts, context: tuple[Turn, ...]) -> set[str]:
    """All concepts that are recalled, in the list or in the graph."""
    graph = recall.graph(context)
    listed = {concept.concept for concept in recall([context])[0]}
    return listed | {node["text"] for node in graph["nodes"] if node["kind"] == "concept"}


def test_a_part_that_cannot_be_had_switches_recall_off_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingError("part 'minilm' is missing; run: attune setup minilm")

    monkeypatch.setattr(recalling, "Ckece", missing)
    agent = fake_agent(recall=RecallsConcepts())
    assert agent.notes == []
    assert agent.reply(["I am sad."]).concepts == []
    assert agent.analyze(["I am sad."]).graph == {"nodes": [], "edges": []}
    assert agent.notes == ["nothing is recalled: part 'minilm' is missing; run: attune setup minilm"]
