from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attune.dialogue.text import normalise
from attune.dialogue.types import Dialogue, Turn
from attune.emotion.words import emotion_words
from attune.errors import SettingsError
from attune.generate.neural import WordSystem
from attune.models.codec import EOS, LAB, PAD, UNK, Batch, pad
from attune.models.empdg import EmpdgConfig, View, drawn
from attune.models.layers.critic import Critic
from tests.systems import small_system, test_examples


@pytest.fixture
def system(dialogues: list[Dialogue]) -> WordSystem:
    return small_system("empdg", dialogues)


@pytest.fixture
def batch(system: WordSystem, dialogues: list[Dialogue]) -> Batch:
    """Only examples with feedback."""
    found = [example for example in test_examples(dialogues) if example.feedback]
    assert len(found) >= 3
    return system.codec.collate(system.codec.encode(found))


def said_of(batch: Batch) -> torch.Tensor:
    """Made-up replies of other words and lengths than the real ones."""
    return pad([[8 + i, 9, 10, EOS][i % 2 :] for i in range(len(batch["target"]))])  # type: ignore[misc]


def test_the_emotional_context_is_lab_and_the_emotion_words(dialogues: list[Dialogue]) -> None:
    told = (Turn("speaker", "I am so lonely in this new town."), Turn("listener", "That is sad."))
    system = small_system("empdg", [*dialogues, Dialogue("d", told)])
    (item,) = system.codec.encode_contexts([told])
    words = [system.codec.tokenizer.id_to_token(i) for i in item.features["emotional"]]
    expected = [found.word for turn in told for found in emotion_words(normalise(turn.text))]
    assert words == ["[LAB]", *expected]
    assert {"lonely", "sad"} < set(expected)
    (plain,) = system.codec.encode_contexts([(Turn("speaker", "It is."),)])
    assert plain.features["emotional"].tolist() == [LAB]


def test_the_generator_attends_to_both_encodings_and_starts_from_the_emotion(system: WordSystem, batch: Batch) -> None:
    model = system.model
    read = model.encode(batch)
    size = batch["context"].shape[1]
    assert read["memory"].shape[1] == size + batch["emotional"].shape[1]
    torch.testing.assert_close(read["summary"], torch.cat([read["memory"][:, size], read["memory"][:, 0]], -1))
    torch.testing.assert_close(model.first_input(read), model.signal_input(model.emotion(read["summary"])))
    other = {**batch, "emotional": batch["emotional"].where(batch["emotional"] == LAB, UNK)}
    assert not torch.allclose(model.encode(other)["emotion"], read["emotion"])


def test_the_ablations_leave_out_what_they_name(dialogues: list[Dialogue], batch: Batch) -> None:
    assert small_system("empdg", dialogues).model.stages() == ["maximum-likelihood", "critics", "adversarial"]
    assert small_system("empdg", dialogues, adversarial=False).model.stages() == ["maximum-likelihood"]
    coarse = small_system("empdg", dialogues, emotion_words=False)
    assert coarse.codec.features is None
    assert coarse.model.critics(coarse.codec).emotional is None
    assert not hasattr(coarse.model, "emotion_encoder")
    signal = coarse.model.critic_signal(coarse.model.critics(coarse.codec), batch, said_of(batch))
    assert signal.requires_grad
    with pytest.raises(SettingsError, match="copy"):
        EmpdgConfig(copy=True)
    with pytest.raises(SettingsError, match="at least 1"):
        EmpdgConfig(critic_steps=0)


def test_a_critic_learns_to_tell_real_from_generated() -> None:
    torch.manual_seed(0)
    critic = Critic(size=6, d_model=10)
    assert sum(layer.out_channels for layer in critic.filters) == 10
    optimizer = torch.optim.Adam(critic.parameters(), lr=0.01, betas=(0.5, 0.9))
    words = torch.randn(12, 6)
    mask = torch.ones(16, 5, dtype=torch.bool)

    def draw() -> tuple[torch.Tensor, ...]:
        real = torch.randint(0, 6, (16, 5))  # real replies end with word 11, generated ones with word 10
        generated = torch.randint(0, 6, (16, 5))
        real[:, -1], generated[:, -1] = 11, 10
        feedback = words[torch.randint(0, 6, (16, 5))]
        return critic.read(words[generated], mask), critic.read(words[real], mask), critic.last(feedback, mask)

    context = torch.randn(16, 10)
    for _ in range(80):
        generated, real, feedback = draw()
        loss = critic.loss(generated, real, feedback, context, penalty=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    generated, real, feedback = draw()
    right = critic(real, feedback, context) > critic(generated, feedback, context)
    assert right.float().mean() > 0.9


def test_a_score_does_not_depend_on_padding() -> None:
    critic = Critic(size=4, d_model=7)
    x, context = torch.randn(2, 5, 4), torch.randn(2, 7)
    real = torch.arange(5)[None] < torch.tensor([[5], [2]])
    together = critic(critic.read(x, real), critic.last(x, real), context)
    short = x[1:, :2]
    alone = critic(critic.read(short, real[1:, :2]), critic.last(short, real[1:, :2]), context[1:])
    torch.testing.assert_close(alone, together[1:])


def test_the_penalty_is_the_slope_between_and_has_a_gradient_of_its_own() -> None:
    torch.manual_seed(0)
    critic = Critic(size=4, d_model=6)
    generated, real = torch.randn(3, 4, 6), torch.randn(3, 7, 6)
    feedback, context = torch.randn(3, 6), torch.randn(3, 6)
    penalty = critic.steepness(generated, real, feedback, context)
    assert penalty.shape == (3,)
    grads = torch.autograd.grad(penalty.sum(), [critic.out.weight, critic.filters[0].weight], create_graph=True)
    assert all(bool(grad.any()) for grad in grads), "the penalty trains the critic"
    (second,) = torch.autograd.grad(grads[0].sum(), critic.filters[0].weight)
    assert second.any()
    with torch.no_grad():  # with one and the same end, the point between is known
        critic.out.weight.zero_()
    torch.testing.assert_close(critic.steepness(real, real, feedback, context), torch.ones(3))


def test_the_loss_is_the_distance_and_the_penalty() -> None:
    critic = Critic(size=4, d_model=6)
    generated, real = torch.randn(3, 4, 6), torch.randn(3, 4, 6)
    feedback, context = torch.randn(3, 6), torch.randn(3, 6)
    torch.manual_seed(3)
    slopes = critic.steepness(generated, real, feedback, context)
    torch.manual_seed(3)
    loss = critic.loss(generated, real, feedback, context, penalty=0.1)
    apart = critic(generated, feedback, context) - critic(real, feedback, context)
    torch.testing.assert_close(loss, (apart + 0.1 * slopes).mean())


def test_the_generator_gets_gradient_from_the_critics_and_they_none(system: WordSystem, batch: Batch) -> None:
    model = system.model
    critics = model.critics(system.codec)
    model.critic_signal(critics, batch, said_of(batch)).backward()
    for name in ("output.weight", "decoder.layers.0.ffn.2.weight", "encoder.layers.0.ffn.2.weight"):
        assert model.get_parameter(name).grad.any(), name
    assert model.emotion_encoder.layers[0].ffn[2].weight.grad.any()
    assert all(parameter.grad is None and parameter.requires_grad for parameter in critics.parameters())

    model.zero_grad(set_to_none=True)
    model.critic_loss(critics, batch, said_of(batch)).backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.grad is not None for parameter in critics.parameters())


@pytest.mark.parametrize("left_out", ["semantic", "emotional"])
def test_each_critic_alone_reaches_the_generator(left_out: str, system: WordSystem, batch: Batch) -> None:
    critics = system.model.critics(system.codec)
    with torch.no_grad():
        getattr(critics, left_out).out.weight.zero_()
    with torch.no_grad():
        critics.emotional_words.fill_(True)  # so that words of the small vocabulary are emotional
    system.model.critic_signal(critics, batch, said_of(batch)).backward()
    assert system.model.output.weight.grad.any()


def test_critics_see_words_as_they_are_said_and_emotion_by_its_probability(system: WordSystem, batch: Batch) -> None:
    model = system.model
    critics = model.critics(system.codec)
    said = said_of(batch)
    semantic, emotional = model._views(critics, batch, said)
    vectors = model.vectors.weight * model.vectors.embedding_dim**0.5
    torch.testing.assert_close(semantic.generated[0][said != PAD], vectors[said[said != PAD]])
    real = batch["target"]
    torch.testing.assert_close(semantic.real[0][real != UNK], vectors[real[real != UNK]])
    felt = critics.emotional_words
    assert not emotional.real[0][~felt[real]].any()
    torch.testing.assert_close(emotional.real[0][felt[real]], vectors[real[felt[real]]])
    read = model.encode(batch)
    begun = torch.cat([torch.full_like(said[:, :1], 2), said[:, :-1]], 1)
    probs = torch.nn.functional.linear(*model.output_layer(model.decode(begun, model.start(read)))).softmax(-1)
    expected = (probs * felt) @ vectors
    torch.testing.assert_close(emotional.generated[0][said != PAD], expected[said != PAD])
    assert not emotional.generated[0][said == PAD].any()


def test_feedback_reaches_the_critics_and_nothing_else(
    system: WordSystem, batch: Batch, dialogues: list[Dialogue]
) -> None:
    critics = system.model.critics(system.codec)
    torch.manual_seed(0)
    first = system.model.critic_signal(critics, batch, said_of(batch))
    other = system.model.critic_signal(critics, {**batch, "feedback": batch["feedback"].flip(0)}, said_of(batch))
    assert not torch.allclose(first, other)
    examples = test_examples(dialogues)
    changed = [replace(example, feedback=Turn("speaker", "Something else.")) for example in examples]
    assert system.nll(changed) == system.nll(examples)


def test_the_signal_pulls_at_the_words_with_its_weight_however_steep_the_critics_are(
    system: WordSystem, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = system.model
    critics = model.critics(system.codec)
    critics.emotional_words.fill_(True)  # so that words of the small vocabulary are emotional
    seen: list[View] = []
    views = model._views
    monkeypatch.setattr(model, "_views", lambda *given: (seen.clear(), seen.extend(views(*given)), seen)[2])
    for of_score, of_words in ((1, 1), (50, 1), (1, 20)):
        with torch.no_grad():
            for critic in (critics.semantic, critics.emotional):
                critic.out.weight *= of_score
                critic.reader.weight_ih_l0 *= of_words
        signal = model.critic_signal(critics, batch, said_of(batch))
        for view in seen:
            (pull,) = torch.autograd.grad(signal, view.generated[0], retain_graph=True)
            assert float(pull.flatten(1).norm(dim=1).mean()) == pytest.approx(model.config.adversarial_weight, rel=1e-3)


def test_reply_feedback_and_context_weigh_about_alike_in_fresh_critics() -> None:
    torch.manual_seed(0)
    critic = Critic(size=100, d_model=300)
    words, real = torch.randn(8, 12, 100), torch.ones(8, 12, dtype=torch.bool)
    found: list[torch.Tensor] = []
    critic.out.register_forward_pre_hook(lambda _, given: found.append(given[0]))
    nothing = torch.zeros(8, 300)
    critic(critic.read(words, real), nothing, nothing)
    for heard in (found[0], critic.last(words, real)):  # f of [16], and d^F; the states of the context are about 0.7
        assert 0.1 < float(heard.detach().abs().mean()) < 2


def test_drawn_logits_have_gumbel_noise_and_the_word_that_was_said_is_the_best() -> None:
    torch.manual_seed(0)
    logits = torch.tensor([2.0, 0.5, -1.0, -3.0]).expand(20_000, -1).clone().requires_grad_()
    words = torch.multinomial(logits.detach().softmax(-1), 1).squeeze(1)
    noisy = drawn(logits, words)
    assert torch.equal(noisy.argmax(-1), words)
    noise = noisy - logits.log_softmax(-1)
    assert noise.mean(0).tolist() == pytest.approx([0.5772] * 4, abs=0.05)
    assert noise.var(0).tolist() == pytest.approx([torch.pi**2 / 6] * 4, abs=0.1)
    (gradient,) = torch.autograd.grad(noisy.sum(), logits)
    torch.testing.assert_close(gradient, torch.ones_like(gradient))
