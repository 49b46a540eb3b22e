from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.respond.guard.rules import Rules, load_rules
from attune.respond.guard.words import load_reader

PLAIN = [
    ("I want to kill myself.", "self-harm"),
    ("i just want to die", "self-harm"),
    ("I am suicidal.", "self-harm"),
    ("I cut myself again", "self-harm"),
    ("I have taken all my pills", "self-harm"),
    ("My brother says he wants to kill himself", "self-harm"),
    ("I'm thinking about killing my husband", "harm-to-others"),
    ("I want to stab him", "harm-to-others"),
    ("My boyfriend strangled me", "abuse"),
    ("I was raped last night", "abuse"),
    ("My dad beats me with a belt", "abuse"),
    ("I think my wife is having a stroke", "emergency"),
    ("He has stopped breathing!", "emergency"),
    ("Our house is on fire", "emergency"),
]


@pytest.fixture(scope="module")
def rules() -> Rules:
    return load_rules()


def read(text: str) -> str:
    return load_reader().read(text)


@pytest.mark.parametrize(("text", "risk"), PLAIN)
def test_a_plain_statement_decides_alone(rules: Rules, text: str, risk: str) -> None:
    found = rules.risk(read(text))
    assert found is not None
    assert found.kind == risk
    assert found.words in read(text)


@pytest.mark.parametrize(
    "text",
    [
        "I don't want to kill myself.",
        "This exam is killing me, I want to die",
        "I just want to die of embarrassment",
        "She says I want to die in the last scene of the film",
        "I was suicidal years ago and I am fine now",
        "I want to kill him in the next level, stupid boss fight",
        "My brother is suicidal in that novel",
        "I want to die lol",
        'He sang "I want to die" all night',
        "I'd rather die than eat that",
        "I am writing my thesis about how people commit suicide",
    ],
)
def test_where_it_may_mean_something_else_the_rules_are_silent(rules: Rules, text: str) -> None:
    assert rules.risk(read(text)) is None


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Are you a robot?", "machine"),
        ("are u a bot", "machine"),
        ("Is this a chatbot?", "machine"),
        ("Am I talking to a computer?", "machine"),
        ("You're a bot, right?", "machine"),
        ("Tell me honestly, are you an AI?", "machine"),
        ("Are you a real person?", "human"),
        ("are you human", "human"),
        ("Am I speaking with a real human being?", "human"),
        ("Is anybody really there?", "human"),
        ("Are you a therapist?", "human"),
        ("Who am I talking to?", "human"),
        ("Can I speak to a human please?", "human"),
    ],
)
def test_a_sincere_question_about_the_speaker_is_heard(rules: Rules, text: str, asked: str) -> None:
    assert rules.asks(read(text)) == asked


@pytest.mark.parametrize(
    "text",
    [
        "Are you a morning person?",
        "Are you kidding me?",
        "Are you real sure?",
        "My boss is a robot.",
        "Are you a person who likes dogs?",
        "I bought a robot for the garden.",
        "My doctor said I am fine.",
        "I saw a film about a machine that feels.",
        "I am only human",
    ],
)
def test_other_questions_are_not(rules: Rules, text: str) -> None:
    assert rules.asks(read(text)) is None


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("You're such an idiot.", "insult"),
        ("Shut up.", "insult"),
        ("Go back to where you came from.", "hateful"),
        ("I will hurt you.", "threat"),
        ("Just kill yourself.", "encourages-harm"),
        ("Then hit him.", "encourages-harm"),
        ("You should take 50 mg of it.", "medical"),
        ("You clearly have ADHD.", "medical"),
        ("Stop taking your pills.", "medical"),
        ("You look sexy.", "sexual"),
        ("I'm a real person.", "claims-human"),
        ("As a doctor I can tell you.", "claims-human"),
        ("I'm not a robot.", "claims-human"),
    ],
)
def test_what_no_reply_may_say(rules: Rules, reply: str, kind: str) -> None:
    found = rules.refused(read(reply), in_danger=False, asked=None)
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize(
    "reply",
    [
        "You're not an idiot.",
        "Nobody thinks that you are stupid.",
        "Please don't hurt yourself.",
        "Don't stop taking your pills before you ask your doctor.",
        "I'm not a doctor.",
        "I'm a program, not a person.",
        "I'm so sorry he hit you.",
        "Did he hit her?",
        "That must be so hard.",
        "She graduated summa cum laude!",
        "I'd love to hear about it.",
        "I will beat you at chess one day!",
    ],
)
def test_what_only_looks_like_it(rules: Rules, reply: str) -> None:
    assert rules.refused(read(reply), in_danger=False, asked=None) is None


def test_yes_and_no_are_claims_only_to_the_right_question(rules: Rules) -> None:
    for reply, asked, refused in [
        ("Yes.", "human", True),
        ("Yes, I am.", "human", True),
        ("No.", "machine", True),
        ("Yes.", "machine", False),
        ("No.", "human", False),
        ("No, I'm a program.", "machine", False),
        ("Yes.", None, False),
    ]:
        assert bool(rules.refused(read(reply), in_danger=False, asked=asked)) is refused, (reply, asked)


def test_go_for_it_is_harmless_unless_somebody_is_in_danger(rules: Rules) -> None:
    assert rules.refused(read("Do it!"), in_danger=False, asked=None) is None
    assert rules.refused(read("Do it!"), in_danger=True, asked=None) is not None


def test_yes_to_a_question_about_suicide_is_a_risk(rules: Rules) -> None:
    assert rules.confirmed(read("Yes."), read("Are you thinking of killing yourself?")) == "self-harm"
    assert rules.confirmed(read("yeah, sometimes"), read("Do you think about suicide?")) == "self-harm"
    assert rules.confirmed(read("Yes."), read("Did you have a nice day?")) is None
    assert rules.confirmed(read("No!"), read("Are you thinking of killing yourself?")) is None


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
def test_rules_never_fail(text: str) -> None:
    plain = read(text)
    load_rules().risk(plain)
    load_rules().asks(plain)
    load_rules().refused(plain, in_danger=True, asked="human")
