from __future__ import annotations

import pytest

from attune.emotion.lexicons import EmotionLexicon, VadLexicon
from attune.emotion.words import EmotionWord, emotion_words

LEXICON = EmotionLexicon({"job": ["trust"], "lonely": ["sadness"], "very": ["joy"]}, name="some", licence="")
VAD = VadLexicon({"job": (0.6, 0.2, 0.5), "lonely": (0.1, 0.6, 0.2), "new": (0.7, 0.4, 0.5)}, name="some", licence="")


def test_lexicon_words_and_adjectives_are_taken_and_stop_words_never() -> None:
    found = emotion_words(["i", "am", "very", "lonely", "in", "my", "new", "job"], lexicon=LEXICON, vad=VAD)
    assert [(word.index, word.word, word.why) for word in found] == [
        (3, "lonely", "lexicon"),
        (6, "new", "adjective"),
        (7, "job", "lexicon"),
    ]


def test_each_word_has_its_intensity_and_0_if_the_lexicon_lacks_it() -> None:
    found = emotion_words(["a", "lonely", "purple", "new", "job"], lexicon=LEXICON, vad=VAD)
    by_word = {word.word: word.intensity for word in found}
    assert by_word["lonely"] == 1.0
    assert 0 < by_word["new"] < 1
    assert by_word["job"] == 0.0
    assert by_word["purple"] == 0.0


def test_the_papers_words_of_seed_004_are_found() -> None:
    found = [word.word for word in emotion_words(["i", "finally", "got", "promoted", "at", "my", "new", "job", "!"])]
    assert {"new", "job"} <= set(found)


@pytest.mark.parametrize("word", ["scared", "terrified", "devastated", "embarrassed", "annoyed", "thrilled"])
def test_feelings_said_with_a_participle_are_found_although_the_lexicon_lacks_them(word: str) -> None:
    found = emotion_words(["i", "was", "so", word, "."])
    assert [(w.word, w.why) for w in found] == [(word, "adjective")]


def test_words_of_spacys_stop_list_that_carry_emotion_stay() -> None:
    assert [word.word for word in emotion_words(["the", "empty", "house"])] == ["empty"]


def test_punctuation_and_nothing_give_nothing() -> None:
    assert emotion_words([]) == []
    assert emotion_words(["!", "...", "``"]) == []


def test_an_emotion_word_can_not_be_changed() -> None:
    with pytest.raises(AttributeError):
        EmotionWord(0, "sad", 0.5, "lexicon").word = "glad"  # type: ignore[misc]
