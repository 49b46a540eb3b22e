from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attune.dialogue.types import Dialogue, Example, Turn
from attune.dialogue.vocabulary import SPECIALS
from attune.errors import MissingError, SettingsError
from attune.generate.systems import open_system
from attune.models import SYSTEMS
from attune.models.codec import EOS, PAD, UNK
from attune.models.trunk import TrunkConfig
from tests.systems import EVERY, VARIANTS, small_system, test_examples, variant_id

ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1}


@pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)
def test_the_probability_of_the_next_word_sums_to_one_and_its_log_is_the_nll(
    variant: tuple[str, dict[str, Any]], dialogues: list[Dialogue]
) -> None:
    name, settings = variant
    system = small_system(name, dialogues, **settings)
    items = system.codec.encode(test_examples(dialogues))
    batch = system.codec.collate(items)
    with torch.inference_mode():
        read = system.model.encode(batch)
        cache = system.model.start(read)
        hidden = system.model.decode(batch["response"], cache)
        columns = [system.model.scores(hidden[:, i], cache).log_softmax(-1) for i in range(hidden.shape[1])]
        log_probs = torch.stack(columns, 1)
        if settings.get("copy"):  # scores are already log-probabilities
            raw = system.model.scores(hidden[:, 0], cache)
            torch.testing.assert_close(raw.exp().sum(-1), torch.ones(len(raw)))
        _, nll = system.model.token_nll(batch, read, 0.0)
    wanted = batch["target"] != system.codec.pad
    expected = -log_probs.gather(2, batch["target"].clamp_min(0)[:, :, None]).squeeze(2)[wanted]
    torch.testing.assert_close(nll, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("variant", EVERY, ids=variant_id)
def test_a_saved_system_opens_again_and_says_the_same(
    variant: tuple[str, dict[str, Any]], dialogues: list[Dialogue], tmp_path: Path
) -> None:
    name, settings = variant
    system = small_system(name, dialogues, **settings)
    system.model.save_pretrained(tmp_path)
    system.codec.save(tmp_path)
    again = open_system(tmp_path)
    examples = test_examples(dialogues)
    contexts = [example.context for example in examples]
    assert again.capabilities == system.capabilities
    if "reply" in system.capabilities:
        decoding = system.decoding
        assert again.reply(contexts, decoding=decoding) == system.reply(contexts, decoding=decoding)
    if "nll" in system.capabilities:
        np.testing.assert_allclose(
            [one.nll for one in again.nll(examples)], [one.nll for one in system.nll(examples)], rtol=1e-5
        )
    if "perceive" in system.capabilities:
        np.testing.assert_allclose(again.perceive(contexts), system.perceive(contexts), rtol=1e-4, atol=1e-6)
        assert np.allclose(again.perceive(contexts).sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)
def test_every_variant_learns_a_handful_of_replies_by_heart(
    variant: tuple[str, dict[str, Any]], dialogues: list[Dialogue]
) -> None:
    name, settings = variant
    plain = {"dropout": 0.0} | (ONE_LAYER if SYSTEMS[name].family == "word" else {})
    system = small_system(name, dialogues, **{**settings, **plain})
    items = system.codec.encode(test_examples(dialogues))
    batch = system.codec.collate(items)
    tokens = int((batch["target"] != system.codec.pad).sum())
    optimizer = torch.optim.Adam([p for p in system.model.parameters() if p.requires_grad], lr=0.02)
    first = None
    for _ in range(60):
        terms = system.model.losses(batch, tokens, len(items))
        first = first or float(terms["nll"])
        optimizer.zero_grad()
        sum(term for term in terms.values() if term.requires_grad).backward()
        optimizer.step()
    last = float(system.model.losses(batch, tokens, len(items))["nll"])
    assert last < 0.4 * first, f"{first} → {last}"


def test_only_the_last_turns_and_tokens_of_a_long_context_are_read(dialogues: list[Dialogue]) -> None:
    system = small_system("ed-generative", dialogues, context_turns=2, context_tokens=3)
    long = dialogues[3].turns
    ids = system.codec.encode_contexts([long, long[-2:]])
    assert ids[0].context.tolist() == ids[1].context.tolist()
    assert len(ids[0].context) == 1 + 3  # CLS


def test_unknown_words_are_counted_in_bytes_and_rare_ones_are_hidden_half_of_the_time(
    dialogues: list[Dialogue],
) -> None:
    system = small_system("transformer", dialogues)
    example = Example("x:2", dialogues[0].turns[:1], Turn("listener", "Ünheard congratulations"))
    (item,) = system.codec.encode([example])
    assert item.response.tolist()[0] == UNK
    assert item.response.tolist()[-1] == EOS
    assert item.hidden == len("ünheard".encode())
    items = system.codec.encode(test_examples(dialogues)) * 40
    system.codec.hide = 0.5
    batch = system.codec.collate(items, np.random.default_rng(0))
    plain = system.codec.collate(items)
    rare = torch.from_numpy(system.codec.rare)[plain["target"]]
    assert 0.4 < (batch["target"][rare] == UNK).float().mean() < 0.6
    assert (batch["target"][~rare] == plain["target"][~rare]).all()
    shifted = batch["response"][:, 1:]
    assert (shifted == batch["target"][:, :-1])[shifted != PAD].all(), "the decoder reads what it was asked to say"


def test_prepended_labels_stand_right_after_cls(dialogues: list[Dialogue]) -> None:
    plain = small_system("emoprepend", dialogues)
    system = small_system("emoprepend", dialogues, prepend="emotion", prepend_k=2)
    context = dialogues[1].turns[:1]
    (without,), (with_labels,) = plain.codec.encode_contexts([context]), system.codec.encode_contexts([context])
    words = [system.codec.tokenizer.id_to_token(i) for i in with_labels.context]
    assert set(words[1:3]) < {"afraid", "grateful", "proud", "sad"}
    assert len(with_labels.context) == len(without.context) + 2


def test_contradicting_settings_are_refused_when_the_configuration_is_made() -> None:
    for settings, word in [
        ({"d_model": 10, "heads": 3}, "divisible"),
        ({"dropout": 1.5}, "dropout"),
        ({"prepend": "emotion", "ensemble": "topic"}, "one classifier"),
    ]:
        with pytest.raises(SettingsError, match=word):
            TrunkConfig(**settings)


def test_a_toy_system_is_one_class_and_one_registration(
    dialogues: list[Dialogue], monkeypatch: pytest.MonkeyPatch
) -> None:
    from attune.models.trunk import Trunk

    monkeypatch.setitem(SYSTEMS._entries, "toy", "placeholder")  # taken away again after the test

    class ToyConfig(TrunkConfig):
        model_type = "attune-toy"

    @SYSTEMS.register("toy")
    class Toy(Trunk):
        config_class = ToyConfig

    assert SYSTEMS["toy"] is Toy
    system = small_system("toy", dialogues)
    assert len(system.reply([dialogues[0].turns[:1]])) == 1


def test_a_folder_that_is_no_run_says_what_is_missing(tmp_path: Path, dialogues: list[Dialogue]) -> None:
    with pytest.raises(MissingError, match=r"no run at .*config\.json"):
        open_system(tmp_path)
    with pytest.raises(MissingError, match="attune train transformer"):
        open_system("transformer")
    small_system("transformer", dialogues).model.save_pretrained(tmp_path)
    with pytest.raises(MissingError, match=r"lacks tokenizer\.json"):
        open_system(tmp_path)


def test_dropped_words_become_unknown_wherever_they_are_read_and_only_in_training(dialogues: list[Dialogue]) -> None:
    for name, read in (("emoprepend", "context"), ("empdg", "emotional"), ("kemp", "concepts")):
        codec = small_system(name, dialogues).codec
        items = codec.encode(test_examples(dialogues)) * 40
        codec.drop = 0.3
        plain, batch = codec.collate(items), codec.training_batch(items, np.random.default_rng(0))
        words = plain[read] >= len(SPECIALS)
        if words.any():
            assert 0.2 < (batch[read][words] == UNK).float().mean() < 0.4, name
        assert torch.equal(batch[read][~words], plain[read][~words]), "what stands for no word is never dropped"
        assert torch.equal(batch["target"], plain["target"])


@pytest.mark.parametrize("name", ["emoprepend", "moel", "mime", "empdg", "kemp"])
def test_the_emotion_head_is_held_back_in_training_alone(name: str, dialogues: list[Dialogue]) -> None:
    system = small_system(name, dialogues, emotion_dropout=0.9, emotion_smoothing=0.2)
    batch = system.codec.collate(system.codec.encode(test_examples(dialogues)))
    model = system.model
    torch.testing.assert_close(model.perceive(batch), model.perceive(batch))
    wrong = torch.nn.functional.cross_entropy(model.perceive(batch), batch["emotion"], reduction="sum")
    torch.testing.assert_close(model.losses(batch, 1, 1)["emotion"], wrong * model.config.emotion_weight)
    model.train()
    assert not torch.equal(model.perceive(batch), model.perceive(batch))


@pytest.mark.parametrize("variant", EVERY, ids=variant_id)
def test_every_system_can_learn_in_bf16(variant: tuple[str, dict[str, Any]], dialogues: list[Dialogue]) -> None:
    name, settings = variant
    system = small_system(name, dialogues, **settings)
    labelled = [replace(e, response=replace(e.response, label="consoling")) for e in test_examples(dialogues)]
    model, items = system.model.train(), system.codec.encode(labelled)
    batch = system.codec.training_batch(items, np.random.default_rng(0))
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found, losses = [], []
    for rounded in (False, True):
        if rounded and hasattr(model, "learn_in"):
            model.learn_in("bf16")  # nothing is to be seen then that is hidden in full precision
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=rounded):
            terms = model(batch, sum(len(item.response) for item in items), len(items))
        loss = sum(term for term in terms.values() if term.requires_grad)
        losses.append(float(loss.detach()))
        found.append(torch.autograd.grad(loss, learning, allow_unused=True))
    assert losses[1] == pytest.approx(losses[0], rel=0.01)
    exact, rounded_ones = (torch.cat([g.flatten() for g in grads if g is not None]) for grads in found)
    assert torch.nn.functional.cosine_similarity(exact, rounded_ones, 0) > 0.9


@pytest.mark.parametrize("name", ["transformer", "kemp", "empdg", "mime", "moel"])
def test_vectors_that_also_score_words_get_the_gradients_of_both_uses(name: str, dialogues: list[Dialogue]) -> None:
    """The rows that were read are added to a gradient of all words, which has the sum that autograd makes of dense ones."""
    system = small_system(name, dialogues, tie_embeddings=True)
    batch = system.codec.collate(system.codec.encode(test_examples(dialogues)))

    def gradient() -> torch.Tensor:
        torch.manual_seed(0)
        terms = system.model.train().losses(batch, 10, 3)
        loss = sum(term for term in terms.values() if term.requires_grad)
        return torch.autograd.grad(loss, system.model.vectors.weight)[0]

    found = gradient()
    assert not found.is_sparse
    system.model.config.tie_embeddings = False  # what is read is then a gradient of all words of its own
    of_words = system.model.vectors.weight, system.model.output_bias
    width = system.model.config.d_model
    system.model.output_layer = lambda hidden: (hidden[..., :width], *of_words)
    torch.testing.assert_close(found, gradient())
    assert not found[PAD].equal(torch.zeros_like(found[PAD])), "padding is scored like every word"
