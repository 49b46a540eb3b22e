from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.dialogue.formats.plain import to_json
from attune.dialogue.types import Dialogue, Turn
from attune.emotion.stopwords import NLTK_STOP_WORDS
from attune.emotion.taxonomy import EMOTIONS, LABEL_ID, LABELS
from attune.errors import DataError, SettingsError
from attune.knowledge.statistics import (
    EmotionStatistics,
    Transitions,
    content_words,
    emotion_statistics,
    printed_figure,
)


def corpus(folder: Path, dialogues: list[Dialogue], split: str = "train") -> Path:
    (folder / f"{split}.jsonl").write_text("\n".join(map(to_json, dialogues)) + "\n")
    return folder


def dialogue(emotion: str | None, *turns: tuple[str, str | None]) -> Dialogue:
    said = (Turn(("speaker", "listener")[i % 2], text, label) for i, (text, label) in enumerate(turns))  # type: ignore[arg-type]
    return Dialogue(f"{emotion}{turns}", tuple(said), emotion)


@pytest.fixture
def small(tmp_path: Path) -> EmotionStatistics:
    said = [
        dialogue("sad", ("My dog, my dog is gone!", "sad"), ("I'm sorry.", "sympathizing"), ("Thanks", None)),
        dialogue("sad", ("The dog ran off", "sad"), ("That's sad. Sorry", "sad")),
        dialogue("proud", ("I won", "proud"), ("Great", "impressed"), ("Yes!", "joyful"), ("Wow", "impressed")),
        dialogue(None, ("Hm", None), ("What?", "questioning")),
    ]
    return emotion_statistics(corpus(tmp_path, said))


def test_emotions_are_counted_as_shares_of_the_dialogues_that_have_one(small: EmotionStatistics) -> None:
    assert small.dialogues == 4
    assert [(row.emotion, row.dialogues) for row in small.emotions] == [("sad", 2), ("proud", 1)]
    assert sum(row.share for row in small.emotions) == pytest.approx(1)


def test_the_words_used_most_are_counted_for_each_side(small: EmotionStatistics) -> None:
    sad = small.emotions[0]
    assert sad.speaker_words == (("dog", 3), ("gone", 1), ("ran", 1))
    assert sad.listener_words == (("sorry", 2), ("i'm", 1), ("sad", 1))


def test_only_labels_of_a_listener_turn_after_a_speaker_turn_are_pairs(small: EmotionStatistics) -> None:
    flow = small.transitions
    assert flow is not None
    found = {(LABELS[i], LABELS[j]): int(flow.counts[i, j]) for i, j in zip(*np.nonzero(flow.counts))}
    assert found == {
        ("sad", "sympathizing"): 1,
        ("sad", "sad"): 1,
        ("proud", "impressed"): 1,
        ("joyful", "impressed"): 1,
    }
    assert flow.mirrored == pytest.approx(1 / 3)


def test_a_corpus_with_other_emotions_is_not_compared_with_seed_003(small: EmotionStatistics) -> None:
    assert small.agreement is None
    assert small.as_json()["seed_003"] is None


def test_the_json_can_be_read_back_and_has_its_documented_shape(small: EmotionStatistics) -> None:
    found = json.loads(json.dumps(small.as_json()))
    assert list(found) == ["data", "split", "dialogues", "emotions", "seed_003", "transitions"]
    assert found["split"] == "train"
    assert found["emotions"][1]["listener_words"][0] == {"word": "great", "count": 1}
    assert list(found["transitions"]) == ["labels", "counts", "pairs", "emotion_pairs", "mirrored", "expected"]
    assert found["transitions"]["labels"] == list(LABELS)
    assert np.shape(found["transitions"]["counts"]) == (41, 41)


def test_a_corpus_without_labels_has_no_transitions(tmp_path: Path) -> None:
    found = emotion_statistics(corpus(tmp_path, [dialogue("sad", ("Oh", None), ("No", None))]))
    assert (found.transitions, found.as_json()["transitions"]) == (None, None)


def test_a_file_is_read_whole_and_another_split_on_demand(tmp_path: Path) -> None:
    folder = corpus(corpus(tmp_path, [dialogue("sad", ("a", None))]), [dialogue("proud", ("b", None))], "test")
    assert emotion_statistics(folder / "test.jsonl").split is None
    assert [row.emotion for row in emotion_statistics(folder, split="test").emotions] == ["proud"]
    assert [row.emotion for row in emotion_statistics(folder).emotions] == ["sad"]
    with pytest.raises(SettingsError, match="unknown split 'valid'"):
        emotion_statistics(folder, split="valid")


def test_a_corpus_that_says_nothing_about_feeling_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no dialogue has an emotion and no turn has one of the 41 labels"):
        emotion_statistics(corpus(tmp_path, [dialogue(None, ("a", "happy"), ("b", None))]))


def test_progress_is_told_dialogue_by_dialogue(tmp_path: Path) -> None:
    told: list[int] = []
    emotion_statistics(corpus(tmp_path, [dialogue("sad", ("a", None))] * 3), report=told.append)
    assert told == [1, 2, 3]


@given(st.text())
def test_content_words_are_lower_case_words_without_stop_words(text: str) -> None:
    found = content_words(text)
    assert not set(found) & NLTK_STOP_WORDS
    assert all(word == word.lower() and not word.startswith("'") and not word.endswith("'") for word in found)


def test_curly_apostrophes_are_apostrophes() -> None:
    assert content_words("I’m glad") == content_words("I'm glad") == ["i'm", "glad"]


LABEL = st.sampled_from(LABELS)


@given(st.lists(st.tuples(LABEL, LABEL), max_size=60))
def test_transitions_add_up(pairs: list[tuple[str, str]]) -> None:
    flow = Transitions.of(pairs)
    assert flow.pairs == len(pairs)
    assert set(np.round(flow.shares.sum(axis=1), 9)) <= {0.0, 1.0}
    both = [(one, other) for one, other in pairs if one in EMOTIONS and other in EMOTIONS]
    assert int(flow.emotions.sum()) == len(both)
    assert flow.mirrored == pytest.approx(sum(one == other for one, other in both) / max(len(both), 1))
    assert 0 <= flow.expected <= 1
    assert all(one != other and share > 0 for one, other, share in flow.strongest(least=1))


def test_changes_from_a_rare_emotion_are_left_out() -> None:
    flow = Transitions.of([("sad", "joyful")] * 5 + [("proud", "joyful")] * 30 + [("proud", "proud")] * 30)
    assert flow.strongest(least=30) == [("proud", "joyful", 0.5)]
    assert flow.strongest(1, least=1) == [("sad", "joyful", 1.0)]


def test_the_figure_of_seed_003_is_whole() -> None:
    printed = printed_figure()
    assert set(printed) == set(EMOTIONS)
    assert printed["surprised"] == {
        "share": 5.1,
        "speaker": ["got", "shocked", "really"],
        "listener": ["that's", "good", "nice"],
    }
    assert sum(row["share"] for row in printed.values()) == pytest.approx(100, abs=1)
    assert all(len(row[side]) == 3 for row in printed.values() for side in ("speaker", "listener"))


def test_listeners_of_empathetic_dialogues_mirror_emotions(ed_dir: Path) -> None:
    flow = emotion_statistics(ed_dir, split="test").transitions
    assert flow is not None
    assert flow.pairs == 5_257
    assert flow.mirrored > 4 * flow.expected


@pytest.mark.slow
def test_seed_003s_figure_3_is_found_again(ed_dir: Path) -> None:
    found = emotion_statistics(ed_dir)
    assert found.dialogues == 19_533
    assert found.agreement is not None
    assert (found.agreement.shares, found.agreement.shares_printed) == (32, 32)
    assert (found.agreement.words, found.agreement.words_printed) == (179, 192)


@pytest.mark.slow
def test_seed_001s_figure_3_is_found_again(ed_dir: Path) -> None:
    """The diagonal is dark, and there are patterns beside it."""
    flow = emotion_statistics(ed_dir).transitions
    assert flow is not None
    assert (flow.pairs, int(flow.emotions.sum())) == (40_252, 5_438)
    assert flow.mirrored == pytest.approx(0.236, abs=0.001)
    assert flow.expected == pytest.approx(0.034, abs=0.001)
    assert [change[:2] for change in flow.strongest(2)] == [("anxious", "confident"), ("furious", "angry")]
    assert sum(row.argmax() == LABEL_ID[EMOTIONS[i]] for i, row in enumerate(flow.emotions)) >= 24
