from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attune.cli.main import run
from attune.dialogue.types import Dialogue, Turn
from attune.errors import DataError, SettingsError
from attune.generate.explain import ReplyExplanation, explain_reply
from attune.generate.explain_page import reply_page
from attune.models import SYSTEMS
from attune.models.codec import Place
from tests.knowledge.test_page import Outline
from tests.systems import VARIANTS, small_system, variant_id

WORDS = [variant for variant in VARIANTS if SYSTEMS[variant[0]].family == "word"]
HEARD = Dialogue("d5", (Turn("speaker", "happy fun pain , love christmas"),) * 2)  # concepts of the other dialogues


@pytest.fixture
def heard(dialogues: list[Dialogue]) -> list[Dialogue]:
    return [*dialogues, HEARD]


@pytest.mark.parametrize("variant", WORDS, ids=variant_id)
def test_every_word_system_tells_where_each_word_of_its_own_reply_looked(
    variant: tuple[str, dict[str, Any]], heard: list[Dialogue]
) -> None:
    name, settings = variant
    system = small_system(name, heard, **settings)
    turns = heard[3].turns[:3]
    said = explain_reply(system, turns, seed=3)
    assert said.text == system.reply([turns], seed=3)[0].text
    assert said.attention.shape == (len(said.words), len(said.places))
    np.testing.assert_allclose(said.attention.sum(1), 1, atol=1e-5)
    context = [place for place in said.places if place.turn is not None]
    assert " ".join(place.text for place in context) == " ".join(" ".join(w) for w in system.codec.turn_words(turns))
    assert [place.turn for place in context] == sorted(place.turn for place in context if place.turn is not None)
    assert said.places[0].text == "CLS"
    assert sum(said.groups.values()) == pytest.approx(1, abs=1e-5)
    assert bool(said.emotions) == ("perceive" in system.capabilities)
    json.dumps(said.as_json())
    assert "".join(Outline(reply_page(said)).texts).count(said.text) >= 2


def test_the_attention_is_the_one_that_the_words_were_said_with(heard: list[Dialogue]) -> None:
    """KEMP's decoder leaves its attention behind its states: the same numbers by another way."""
    system = small_system("kemp", heard, decoder_layers=2)
    turns = heard[2].turns[:3]
    said = explain_reply(system, turns)
    batch = system.codec.collate(system.codec.encode_contexts([turns]))
    ids = [system.codec.tokenizer.token_to_id(word) for word in said.words]
    with torch.inference_mode():
        model = system.model
        hidden = model.decode(torch.tensor([[system.codec.bos, *ids[:-1]]]), model.start(model.encode(batch)))
    np.testing.assert_allclose(said.attention, hidden[0, :, model.config.d_model :].numpy(), rtol=1e-5, atol=1e-6)


def test_what_a_system_reads_beside_the_words_is_a_group_of_its_own(heard: list[Dialogue]) -> None:
    for name, group in (("kemp", "concepts"), ("empdg", "emotion words")):
        system = small_system(name, heard)
        said = explain_reply(system, (Turn("speaker", "My old dog died, alone, at a party on christmas."),))
        others = [place.text for place in said.places if place.group == group]
        assert len(others) >= 2
        assert set(said.groups) == {"context", group}
        assert f"to {group}" in reply_page(said)


def test_words_that_a_system_does_not_know_are_told(heard: list[Dialogue]) -> None:
    said = explain_reply(small_system("transformer", heard), (Turn("speaker", "My zwobodnik died."),))
    assert [place.text for place in said.places if not place.known] == ["zwobodnik"]
    assert 'class="tok unknown-word"' in reply_page(said)


def test_only_what_is_read_of_a_long_context_can_be_looked_at(heard: list[Dialogue]) -> None:
    system = small_system("ed-generative", heard, context_turns=2, context_tokens=3)
    said = explain_reply(system, heard[3].turns[:5])
    assert [(place.text, place.turn) for place in said.places] == [("CLS", None), ("?", 3), ("no", 4), (".", 4)]


def test_moel_tells_the_weights_of_its_listeners(heard: list[Dialogue]) -> None:
    system = small_system("moel", heard, top_k=3)
    said = explain_reply(system, heard[0].turns[:1])
    (listeners,) = said.mixtures
    felt = system.perceive([heard[0].turns[:1]])[0]
    best = np.sort(felt)[::-1][:3]
    assert list(listeners.weights) == list(said.emotions)[:3]
    np.testing.assert_allclose(list(listeners.weights.values()), best / best.sum(), rtol=1e-4)
    assert listeners.title in reply_page(said)


def test_mime_tells_two_mixtures_the_one_of_the_heard_polarity_first(heard: list[Dialogue]) -> None:
    from attune.emotion.taxonomy import polarity

    said = explain_reply(small_system("mime", heard), heard[0].turns[:1])
    same, other = said.mixtures
    heard_polarity = polarity(next(iter(said.emotions)))
    assert {polarity(emotion) for emotion in same.weights} == {heard_polarity}
    assert {polarity(emotion) for emotion in other.weights} == {"positive", "negative"} - {heard_polarity}
    for mixture in said.mixtures:
        assert sum(mixture.weights.values()) == pytest.approx(1, abs=1e-5)


def test_a_system_that_cannot_be_looked_into_says_what_it_offers(dialogues: list[Dialogue]) -> None:
    system = small_system("roberta-gpt2", dialogues)
    with pytest.raises(SettingsError, match="'roberta-gpt2' does not show what it looks at; it offers nll, perceive"):
        explain_reply(system, dialogues[0].turns[:1])
    with pytest.raises(DataError, match="no text to reply to"):
        explain_reply(small_system("transformer", dialogues), (Turn("speaker", " "),))


def test_the_page_is_safe_whatever_was_said_and_asks_nothing_of_another_computer(heard: list[Dialogue]) -> None:
    attack = '</style><script>alert(1)</script> "><img src=x onerror=alert(1)> ${body}'
    said = explain_reply(small_system("moel", heard), (Turn("speaker", attack),))
    seen = Outline(reply_page(said))
    assert not {"script", "link", "img", "iframe", "object", "a"} & set(seen.tags)
    assert not {"src", "href", "onerror"} & {name for name, _ in seen.attributes}
    assert seen.tags.count("input") == seen.tags.count("label") == len(said.words) + 1
    assert attack in "".join(seen.texts)


@pytest.mark.slow
def test_in_a_browser_choosing_a_word_tints_what_it_looked_at(chromium: Any, tmp_path: Path) -> None:
    words, places = ("oh", "no"), tuple(Place(word, "context", 0) for word in ("my", "dog", "died"))
    attention = np.array([[0.8, 0.1, 0.1], [0.1, 0.0, 0.9]])
    said = ReplyExplanation(
        "toy", "greedy", 0, (Turn("speaker", "my dog died"),), "Oh no", words, {}, places, attention
    )
    (tmp_path / "page.html").write_text(reply_page(said))
    page = chromium.new_page(viewport={"width": 380, "height": 800})
    problems: list[Any] = []
    page.on("console", lambda message: problems.append(message.text))
    page.goto((tmp_path / "page.html").as_uri())

    def strongest() -> str:
        script = "tokens => tokens.map(t => [t.textContent, getComputedStyle(t).getPropertyValue('--t')])"
        return max(page.eval_on_selector_all(".tok", script), key=lambda found: float(found[1]))[0]

    def painted(word: str) -> str:
        return page.eval_on_selector(f".tok >> text={word}", "t => getComputedStyle(t).backgroundColor")

    plain = painted("dog")
    page.click("label[for=w1]")
    assert strongest() == "my"
    page.keyboard.press("ArrowRight")
    assert page.is_checked("#w2")
    assert strongest() == "died"
    page.wait_for_timeout(400)  # the tint changes softly
    assert painted("died") != painted("dog") != plain
    assert page.evaluate("document.documentElement.scrollWidth") <= 380, "nothing sticks out on a telephone"
    assert not problems
    page.close()


def test_a_map_of_a_long_context_shows_the_places_that_were_looked_at_most() -> None:
    words = tuple(f"word{i}" for i in range(60))
    attention = np.zeros((2, 60))
    attention[:, :30] = 1 / 60
    attention[0, 50], attention[1, 10] = 0.5, 1 / 60 + 0.5
    places = tuple(Place(word, "context", 0) for word in words)
    said = ReplyExplanation("toy", "greedy", 0, (Turn("speaker", "…"),), "a b", ("a", "b"), {}, places, attention)
    page = reply_page(said)
    assert "Of 60 places the 22" in page
    assert said.most(0, 1) == [(places[50], 0.5)]


def attune(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        run(["explain", *arguments])
    captured = capsys.readouterr()
    return int(done.value.code or 0), captured.out, captured.err


def test_the_command_prints_writes_a_page_and_prints_json(
    heard: list[Dialogue], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system = small_system("mime", heard)
    folder, page, chat = tmp_path / "run", tmp_path / "page.html", tmp_path / "chat.json"
    system.model.save_pretrained(folder)
    system.codec.save(folder)
    code, out, _ = attune(capsys, "--run", str(folder), "My old dog died.")
    assert code == 0
    assert "Where it looked" in out
    assert "Mimicking emotions" in out
    chat.write_text('[{"role": "user", "content": "I lost my dog."}, {"role": "assistant", "content": "Oh no."}]')
    code, out, _ = attune(capsys, "--run", str(folder), "--dialogue", str(chat), "--json", "--out", str(page))
    assert code == 0
    told = json.loads(out)
    assert [turn["text"] for turn in told["turns"]] == ["I lost my dog."], "what the listener said is asked for"
    assert told["version"] == 1
    assert [gate["title"] for gate in told["gates"]] == ["Mimicking emotions", "Other emotions"]
    assert told["reply"] in page.read_text()
    for arguments, reason in (
        (["a", "b"], "give an odd number of turns, not 2"),
        (["a", "--vad", "warriner"], "--index and --vad are not for --run"),
        ([" "], "no text to reply to"),
    ):
        code, out, err = attune(capsys, "--run", str(folder), *arguments)
        assert (code, out) == (2, "")
        assert reason in err
        assert err.count("\n") == 1
