"""`empdg`: the multi-resolution adversarial system of seed 004. Numbers in brackets are the paper's equations.

The generator reads the context and, with an encoder of its own, the emotion words in it; both tell the emotion, and the emotion signal is the
decoder's first input. Two critics — of what is said, and of the emotion in it — see the reply with the user's feedback.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from attune.dialogue.vocabulary import SPECIALS
from attune.emotion.taxonomy import EMOTIONS
from attune.emotion.words import emotion_words
from attune.errors import SettingsError
from attune.models import register_system
from attune.models.codec import BOS, LAB, PAD, UNK, Batch, WordCodec, pad
from attune.models.layers.blocks import Encoder
from attune.models.layers.critic import Critic
from attune.models.trunk import Trunk, TrunkConfig


class EmpdgConfig(TrunkConfig):
    """Settings of `empdg`."""

    model_type = "attune-empdg"

    emotion_head: bool = True
    emotion_words: bool = True
    """false is the paper's w/o G: no emotion words, and no critic of them."""
    adversarial: bool = True
    """false is the paper's w/o D: maximum likelihood alone."""
    adversarial_weight: float = 0.005
    """Weight of the critics' signal beside the generator's other losses: the gradient by a reply's words has this norm, mean per example."""
    penalty: float = 0.1
    """Weight of the gradient penalty in the critics' loss (β)."""
    generator_steps: int = 5
    """Updates of the generator for each update of the critics."""
    critic_steps: int = 1000
    """Updates of the critics before the alternation."""
    adversarial_steps: int = 1500
    """At most this many updates of the generator against the critics."""
    critic_lr: float = 1e-4
    adversarial_lr: float = 1e-4
    """Peak learning rate of the generator against the critics."""

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if self.copy:
            raise SettingsError("empdg has no copy head: leave copy out")
        if min(self.generator_steps, self.critic_steps, self.adversarial_steps) < 1:
            raise SettingsError("generator_steps, critic_steps and adversarial_steps must be at least 1")


@lru_cache(maxsize=200_000)
def _felt(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(found.word for found in emotion_words(words))


class EmotionWordFeatures:
    """The emotional context: LAB and the emotion words of the context, in their order."""

    read: tuple[str, ...] = ("emotional",)

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.vocabulary = tokenizer.get_vocab()

    def compute(self, turns: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        words = [word for turn in turns for word in _felt(tuple(turn)) if word in self.vocabulary]
        return {"emotional": np.array([LAB, *(self.vocabulary[word] for word in words)], dtype=np.int32)}

    def collate(self, rows: Sequence[dict[str, np.ndarray]], batch: Batch) -> Batch:
        return {"emotional": pad([row["emotional"] for row in rows])}


class Critics(nn.Module):
    """The semantic critic, and the emotional one with the vocabulary's emotion words. They are trained beside the model."""

    emotional_words: Tensor

    def __init__(self, size: int, d_model: int, emotional_words: Tensor | None) -> None:
        super().__init__()
        self.semantic = Critic(size, d_model)
        self.emotional = Critic(size, d_model) if emotional_words is not None else None
        self.register_buffer("emotional_words", emotional_words)


class View(NamedTuple):
    """What one critic sees of a batch: vectors of words [B, T, size] with their masks, and the context's state [B, d]."""

    critic: Critic
    generated: tuple[Tensor, Tensor]
    real: tuple[Tensor, Tensor]
    feedback: tuple[Tensor, Tensor]
    context: Tensor


def drawn(logits: Tensor, words: Tensor) -> Tensor:
    """Logits [n, V] with Gumbel noise as it may have been when `words` [n] were drawn: each is the best of its row.

    >>> drawn(torch.zeros(3, 5), torch.tensor([4, 0, 2])).argmax(-1).tolist()
    [4, 0, 2]
    """
    known = logits.detach()
    waits = (
        torch.empty_like(known).exponential_().clamp_min(1e-30).log()
    )  # of the words; the one that was said came first
    first = waits.gather(1, words[:, None])
    noisy = -torch.logaddexp(waits - known.log_softmax(-1), first).scatter(1, words[:, None], first)
    return logits + (noisy - known)


@register_system("empdg")
class Empdg(Trunk):
    config_class = EmpdgConfig
    config: EmpdgConfig

    def __init__(self, config: EmpdgConfig) -> None:
        super().__init__(config)
        d = config.d_model
        if config.emotion_words:
            self.emotion_encoder = Encoder(config.encoder_layers, config.shape)
            self.emotion_state = nn.Embedding(1, d)
        self.emotion = nn.Linear(2 * d if config.emotion_words else d, len(EMOTIONS), bias=False)  # W_e [7]
        self.signal_input = nn.Linear(len(EMOTIONS), d)
        self.post_init()

    def features(self, tokenizer: Tokenizer) -> EmotionWordFeatures | None:
        return EmotionWordFeatures(tokenizer) if self.config.emotion_words else None

    def encode(self, batch: Batch) -> dict[str, Tensor]:
        memory, real = self.read_words(batch), batch["real"]  # C_u [1]–[3]
        summary = memory[:, 0]
        if self.config.emotion_words:
            seen = batch["emotional"] != PAD
            felt = self.dropout(self.embed(batch["emotional"]) + self.emotion_state.weight)  # [4]
            felt = self.emotion_encoder(felt, seen)  # C_e [5], [6]
            memory, real = torch.cat([memory, felt], 1), torch.cat([real, seen], 1)
            summary = torch.cat([felt[:, 0], summary], -1)  # [w̃0; x̃0]
        return {
            "memory": memory,
            "real": real,
            "responder": batch["responder"],
            "summary": summary,
            "emotion": self.emotion(self.emotion_dropout(summary)),  # e_p [7], [8]
        }

    def looked_at(self, batch: Batch) -> dict[str, Tensor]:
        return super().looked_at(batch) | ({"emotion words": batch["emotional"]} if self.config.emotion_words else {})

    def first_input(self, read: dict[str, Tensor]) -> Tensor:
        return self.signal_input(read["emotion"])  # e′_p

    # — against the critics: what the stages `critics` and `adversarial` ask for —

    def stages(self) -> list[str]:
        return ["maximum-likelihood", *(["critics", "adversarial"] if self.config.adversarial else [])]

    def critics(self, codec: WordCodec) -> Critics:
        """Fresh critics. They read the generator's word vectors, which they do not change."""
        felt = None
        if self.config.emotion_words:
            words = sorted(codec.tokenizer.get_vocab().items(), key=lambda item: item[1])
            felt = torch.tensor([i >= len(SPECIALS) and bool(_felt((word,))) for word, i in words])
        return Critics(self.vectors.embedding_dim, self.config.d_model, felt)

    def critic_loss(self, critics: Critics, batch: Batch, said: Tensor) -> Tensor:
        """[19] of both critics, for generated replies `said` [B, L] (ids, EOS and padding behind). No gradient to the model."""
        with torch.no_grad():
            views = self._views(critics, batch, said)
        losses = []
        for view in views:
            critic = view.critic
            states = (critic.read(*view.generated), critic.read(*view.real))
            losses.append(critic.loss(*states, critic.last(*view.feedback), view.context, self.config.penalty))
        return torch.stack(losses).sum()

    def critic_signal(self, critics: Critics, batch: Batch, said: Tensor) -> Tensor:
        """−D(d^N) of both critics, each divided by how steep it is in the generated words, summed over the rows and weighted.

        Its gradient goes to the model and not to the critics.
        """
        critics.requires_grad_(False)
        scores = []
        for view in self._views(critics, batch, said):
            critic, words = view.critic, view.generated[0]
            score = critic(critic.read(*view.generated), critic.last(*view.feedback), view.context).sum()
            (slopes,) = torch.autograd.grad(score, words, retain_graph=True)
            scores.append(score / slopes.flatten(1).norm(dim=1).mean().clamp_min(1e-8))
        critics.requires_grad_(True)
        return -self.config.adversarial_weight * torch.stack(scores).sum()

    def _views(self, critics: Critics, batch: Batch, said: Tensor) -> list[View]:
        """Words are one-hot for the semantic critic, with the gradient of a softmax with the noise that they were drawn with
        (straight-through Gumbel); the emotional one sees soft vectors, weighted by the probability that an emotion word is said."""
        read = self.encode(batch)
        table = self.vectors.weight.detach() * self.vectors.embedding_dim**0.5  # of about unit variance
        table[UNK] = 0.0  # only real replies have unknown words: they tell nothing
        told = said != PAD
        begun = torch.cat([torch.full_like(said[:, :1], BOS), said[:, :-1]], 1)
        hidden = self.decode(begun, self.start(read))[told]
        logits = F.linear(*self.output_layer(hidden))  # [words, V]
        generated, probs = table[said], logits.softmax(-1)
        if torch.is_grad_enabled():
            soft = drawn(logits, said[told]).softmax(-1) @ table
            generated = generated.masked_scatter(told[..., None], table[said[told]] + soft - soft.detach())
        context = read["summary"].detach()[:, -self.config.d_model :]  # x̃0
        real, feedback = (batch[name] for name in ("target", "feedback"))
        views = [
            View(
                critics.semantic,
                (generated, told),
                (table[real], real != PAD),
                (table[feedback], feedback != PAD),
                context,
            )
        ]
        if critics.emotional is not None:
            felt = critics.emotional_words
            emotional = torch.zeros_like(generated).masked_scatter(told[..., None], probs[:, felt] @ table[felt])
            table = table * felt[:, None]
            context = read["summary"].detach()[:, : self.config.d_model]  # w̃0
            views.append(
                View(
                    critics.emotional,
                    (emotional, told),
                    (table[real], real != PAD),
                    (table[feedback], feedback != PAD),
                    context,
                )
            )
        return views
