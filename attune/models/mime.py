"""`mime`: MIMicking Emotions (FACTS A.4; baseline of seeds 000 and 001).

Emotions fall into two polarities. From the CLS state a mixture of the emotions of each polarity is drawn; the one of the speaker's own
polarity mimics, the other does not. Each refines the context in an encoder of its own, and a gate fuses both into the decoder's memory.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attune.emotion.taxonomy import EMOTIONS, POSITIVE
from attune.models import register_system
from attune.models.codec import PAD, Batch
from attune.models.layers.blocks import Encoder, Shape
from attune.models.trunk import Gate, Trunk, TrunkConfig

POLARITY = torch.tensor([0 if emotion in POSITIVE else 1 for emotion in EMOTIONS])  # of each emotion
GROUPS = torch.stack([POLARITY == 0, POLARITY == 1])  # [2, 32]


class MimeConfig(TrunkConfig):
    """Settings of `mime`."""

    model_type = "attune-mime"

    emotion_head: bool = True
    kl_weight: float = 1.0
    """Weight of the divergence between posterior and prior, in nats per target token like the reply's loss."""
    polarity_noise: float = 0.0
    """How often training takes an example for the other polarity, as the prediction at test sometimes does."""


class Gaussians(nn.Module):
    """A diagonal Gaussian for each polarity: means and log-variances, [B, 2, d] both, always in full precision.

    Where both are alike their divergence is a difference of nearly equal numbers, and rounded to 16 bits it could fall below zero.
    """

    def __init__(self, size_in: int, size: int) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(size_in, size), nn.Linear(size, 4 * size)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.out(self.hidden(x).relu()).float().unflatten(-1, (2, 2, -1)).unbind(1)
        return mean, log_variance.clamp(-6, 4)  # both could shrink together, and a step too far would cost any amount


class View(nn.Module):
    """The context as one emotion shows it: the emotion joined to every state, then an encoder layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.join, self.encoder = nn.Linear(2 * shape.d_model, shape.d_model), Encoder(1, shape)

    def forward(self, memory: Tensor, real: Tensor, emotion: Tensor) -> Tensor:
        of_memory, of_emotion = self.join.weight.chunk(2, 1)  # the emotion is the same at every position
        joined = F.linear(memory, of_memory) + F.linear(emotion, of_emotion, self.join.bias)[:, None]
        return self.encoder(joined, real)


def divergence(mean: Tensor, log_variance: Tensor, other_mean: Tensor, other_log_variance: Tensor) -> Tensor:
    """KL(N(mean, variance) ‖ N(other)) of each number, in nats.

    >>> zero = torch.zeros(1)
    >>> round(divergence(torch.ones(1), zero, zero, zero).item(), 3)
    0.5
    """
    spread = (log_variance - other_log_variance).exp() + (mean - other_mean) ** 2 / other_log_variance.exp()
    return 0.5 * (other_log_variance - log_variance + spread - 1)


@register_system("mime")
class Mime(Trunk):
    config_class = MimeConfig
    config: MimeConfig

    def __init__(self, config: MimeConfig) -> None:
        super().__init__(config)
        d = config.d_model
        self.emotion = nn.Linear(d, len(EMOTIONS), bias=False)  # its rows are the emotions' embeddings
        self.query = nn.Linear(d, d, bias=False)
        self.prior, self.posterior = Gaussians(d, d), Gaussians(2 * d, d)
        self.mixture = nn.Linear(d, len(EMOTIONS))
        self.mimicking, self.differing = View(config.shape), View(config.shape)
        self.fusion_gate, self.fusion = nn.Linear(2 * d, 2 * d), nn.Linear(2 * d, d)
        self.post_init()

    def encode(self, batch: Batch) -> dict[str, Tensor]:
        read = super().encode(batch)
        summary = read["memory"][:, 0]
        read["emotion"] = self._felt(summary)
        polarity = POLARITY.to(summary.device)[read["emotion"].argmax(-1)]
        mean, log_variance = self.prior(summary)
        drawn = mean
        if self.training and "target" in batch:
            known = batch["emotion"] >= 0
            polarity = torch.where(known, POLARITY.to(summary.device)[batch["emotion"].clamp_min(0)], polarity)
            if self.config.polarity_noise:
                taken_for = torch.rand(len(polarity), device=polarity.device) < self.config.polarity_noise
                polarity = torch.where(taken_for, 1 - polarity, polarity)
            centre, spread = self.posterior(torch.cat([summary, self.pool(batch["target"])], -1))
            read["kl"] = divergence(centre, spread, mean, log_variance).sum((1, 2))
            drawn = centre + (0.5 * spread).exp() * torch.randn_like(mean)
        read["mixtures"], read["polarity"] = self.mixtures(drawn), polarity
        read["memory"] = self.fuse(read["memory"], read["real"], read["mixtures"] @ self.emotion.weight, polarity)
        return read

    def _felt(self, summary: Tensor) -> Tensor:
        return self.emotion(self.query(self.emotion_dropout(summary)))

    def perceive(self, batch: Batch) -> Tensor:
        return self._felt(self.read_words(batch)[:, 0])  # the views are not needed for it

    def pool(self, ids: Tensor) -> Tensor:
        """The mean of the words' vectors [B, d]. Tied to the output, the vector of padding is not zero."""
        real = (ids != PAD)[..., None]
        return (self.words(ids) * real).sum(1) / real.sum(1)

    def mixtures(self, drawn: Tensor) -> Tensor:
        """[B, 2, d] → the weights of the emotions within each polarity [B, 2, 32]."""
        return self.mixture(drawn).masked_fill(~GROUPS.to(drawn.device), -torch.inf).softmax(-1)

    def fuse(self, memory: Tensor, real: Tensor, felt: Tensor, polarity: Tensor) -> Tensor:
        """The context refined by the mimicking and by the other emotion, fused through a gate: [B, S, d]."""
        rows = torch.arange(len(felt), device=felt.device)
        same, other = felt[rows, polarity], felt[rows, 1 - polarity]
        both = torch.cat([self.mimicking(memory, real, same), self.differing(memory, real, other)], -1)
        return self.fusion(self.fusion_gate(both).sigmoid() * both)

    @property
    def capabilities(self) -> frozenset[str]:
        return super().capabilities | {"gates"}

    def gates(self, read: dict[str, Tensor]) -> list[Gate]:
        rows = torch.arange(len(read["mixtures"]), device=read["mixtures"].device)
        same, other = (read["mixtures"][rows, which] for which in (read["polarity"], 1 - read["polarity"]))
        return [
            Gate("Mimicking emotions", "The mixture that has the polarity of the emotion that was heard.", same),
            Gate("Other emotions", "The mixture of the opposite polarity.", other),
        ]

    def own_losses(
        self, batch: Batch, read: dict[str, Tensor], hidden: Tensor, tokens: int, examples: int
    ) -> dict[str, Tensor]:
        return {"kl": self.config.kl_weight * read["kl"].sum() / tokens} if "kl" in read else {}
