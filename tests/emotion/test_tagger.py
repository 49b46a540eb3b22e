from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.emotion.tagger import Tagger
from attune.errors import DataError, MissingError


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return Tagger.load()


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("the old dog died on monday .", "DT JJ NN VBD IN NNP ."),
        ("i want to run .", "PRP VBP TO VB ."),
        ("she has a new job", "PRP VBZ DT JJ NN"),
        ("i am so proud of my son !", "PRP VBP RB JJ IN PRP$ NN !"),
        ("i was really scared and so terrified", "PRP VBD RB JJ CC RB JJ"),
        ("it was stolen by a thief", "PRP VBD VBN IN DT NN"),
        ("Paris is lovely in 1999", "NNP VBZ JJ IN CD"),
    ],
)
def test_sentences_get_their_penn_tags(tagger: Tagger, text: str, tags: str) -> None:
    assert tagger.tag(text.split()) == tags.replace("!", ".").split()


@pytest.mark.parametrize(
    ("word", "tag"),
    [("blorfless", "JJ"), ("blorfly", "RB"), ("blorfing", "VBG"), ("blorfs", "NNS"), ("blorf", "NN"), ("3.50", "CD")],
)
def test_an_unknown_word_is_judged_by_its_form(tagger: Tagger, word: str, tag: str) -> None:
    assert tagger.tag([".", word])[1] == tag


@given(st.lists(st.text(min_size=1, max_size=12), max_size=12))
def test_every_token_gets_one_tag(tokens: list[str]) -> None:
    tags = Tagger.load().tag(tokens)
    assert len(tags) == len(tokens)
    assert all(tag and tag != "STAART" for tag in tags)


def rules(
    folder: Path, lexicon: str = "dog NN\n", form: str = "ly hassuf 2 RB x\n", around: str = "NN VB PREVTAG TO\n"
) -> Path:
    (folder / "en-lexicon.txt").write_text(";;; a notice\n\n" + lexicon)
    (folder / "en-morphology.txt").write_text(form)
    (folder / "en-context.txt").write_text(around)
    return folder


def test_rules_apply_in_the_order_of_the_file_over_the_whole_sentence(tmp_path: Path) -> None:
    tagger = Tagger(rules(tmp_path, "to TO\nwalk NN\n", around="NN VB PREVTAG TO\nVB NN NEXTTAG VB\n"))
    assert tagger.tag(["to", "walk"]) == ["TO", "VB"]
    assert tagger.tag(["to", "walk", "to", "walk"]) == ["TO", "VB", "TO", "VB"]


def test_a_known_word_takes_only_tags_that_its_form_may_have(tmp_path: Path) -> None:
    tagger = Tagger(rules(tmp_path, "proud JJ\n", around="JJ NN NEXTWD of\n"))
    assert tagger.tag(["proud", "of"])[0] == "JJ"


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"lexicon": "dog NN VB\n"}, r"en-lexicon.txt:3: expected a word and its tag, not 'dog NN VB'"),
        ({"form": "ly hassuf 2 RB x\nly endswith 2 RB x\n"}, r"en-morphology.txt:2: unknown rule"),
        ({"around": "NN VB BEFORETAG TO\n"}, r"en-context.txt:1: unknown rule"),
        ({"around": "NN VB\n"}, r"en-context.txt:1: expected a rule on surroundings"),
    ],
)
def test_a_broken_rule_file_is_named_with_its_line(tmp_path: Path, broken: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Tagger(rules(tmp_path, **broken))


def test_a_missing_rule_file_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"en-lexicon.txt.*attune setup"):
        Tagger(tmp_path)
