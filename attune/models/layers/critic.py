"""A critic of replies: tells real from generated ones by a score without bounds (seed 004, Eqs. 16–19)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTHS = (2, 3, 4)  # of the convolutions


class Critic(nn.Module):
    """An LSTM, convolutions of several widths, max-pooling; the reply interacts with feedback and context by addition.

    A reply comes as vectors of its words [B, T, size], of about unit variance, with a mask of what is real in it [B, T].

    >>> critic = Critic(size=4, d_model=6)
    >>> states = critic.read(torch.randn(2, 3, 4), torch.ones(2, 3, dtype=torch.bool))
    >>> critic(states, torch.zeros(2, 6), torch.zeros(2, 6)).shape
    torch.Size([2])
    """

    def __init__(self, size: int, d_model: int) -> None:
        super().__init__()
        self.reader = nn.LSTM(size, d_model, batch_first=True)
        counts = [len(range(i, d_model, len(WIDTHS))) for i in range(len(WIDTHS))]  # they total d_model
        self.filters = nn.ModuleList(
            nn.Conv1d(d_model, count, width) for count, width in zip(counts, WIDTHS, strict=True)
        )
        self.out = nn.Linear(d_model, 1)
        self._begin()

    def _begin(self) -> None:
        """Weights with which reply, feedback and context weigh about alike in [17]; torch's leave the words unheard."""
        for name, values in self.named_parameters():
            if values.ndim == 1:
                nn.init.zeros_(values)
            else:
                for part in values.chunk(4) if name.startswith("reader") else [values]:  # the LSTM's four gates
                    nn.init.xavier_uniform_(part)

    def read(self, x: Tensor, real: Tensor) -> Tensor:
        """The LSTM's states d_t [B, T, d]; zero where nothing is real."""
        return self.reader(x)[0] * real[..., None]

    def last(self, x: Tensor, real: Tensor) -> Tensor:
        """The LSTM's state after the last real word [B, d]."""
        return self.read(x, real)[torch.arange(len(x)), real.sum(1) - 1]

    def forward(self, states: Tensor, feedback: Tensor, context: Tensor) -> Tensor:
        """Scores [B] of replies by their states, given states of feedback and context [B, d]."""
        # zeros behind every reply, so that a score does not depend on the padding of its batch
        padded = F.pad(states, (0, 0, 0, max(WIDTHS))).transpose(1, 2)
        found = torch.cat([layer(padded).relu().amax(-1) for layer in self.filters], -1)  # [16]
        return self.out((found + feedback + context).relu()).squeeze(-1)  # [17]

    def loss(self, generated: Tensor, real: Tensor, feedback: Tensor, context: Tensor, penalty: float) -> Tensor:
        """Wasserstein loss with gradient penalty [19] over the states of generated and real replies."""
        apart = self(generated, feedback, context) - self(real, feedback, context)
        return (apart + penalty * self.steepness(generated, real, feedback, context)).mean()

    def steepness(self, generated: Tensor, real: Tensor, feedback: Tensor, context: Tensor) -> Tensor:
        """(‖∇D‖ − 1)² [B] at a random point between each pair [18]; it has a gradient itself."""
        length = max(generated.shape[1], real.shape[1])
        ends = [F.pad(states.detach(), (0, 0, 0, length - states.shape[1])) for states in (generated, real)]
        share = torch.rand(len(real), 1, 1, device=real.device)
        between = (share * ends[0] + (1 - share) * ends[1]).requires_grad_()
        score = self(between, feedback.detach(), context.detach()).sum()
        (gradient,) = torch.autograd.grad(score, between, create_graph=True)
        return (gradient.flatten(1).norm(dim=1) - 1) ** 2
