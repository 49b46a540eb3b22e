"""What the systems that read seed 001's emotional context graph share. Numbers in brackets are the paper's equations."""

from __future__ import annotations

from collections.abc import Container

import torch
from torch import Tensor
from transformers import PreTrainedConfig

from attune.emotion.lexicons import load_vad
from attune.knowledge.build import open_index
from attune.knowledge.graph import GraphBuilder, GraphSettings


class GraphKeys(PreTrainedConfig):
    """Settings of the graph and of what is learnt from it; each is a recipe key under `model:`."""

    emotion_weight: float = 1.0
    """Weight of the emotion loss (γ1): mean per example, beside the reply's loss (mean per token)."""
    attention_weight: float = 0.1
    """Weight of the emotional attention loss (γ3)."""
    concepts_per_word: int = 5
    """Concepts that one word may bring (K′)."""
    concepts_per_dialogue: int = 10
    """Concepts of a whole context; the paper's Figure 5 has 0, 5, 10 and 20."""
    confidence: float = 0.1
    """An assertion has to be more certain than this."""
    lexicon: str = "warriner"
    """Where η comes from: a VAD lexicon by name, or a file."""
    index: str | None = None
    """Folder of a concept index; null is ConceptNet 4, which comes with Attune."""

    def graph_builder(self, vocabulary: Container[str] | None = None, concepts: bool = True) -> GraphBuilder:
        """What makes the graphs; with a `vocabulary`, of its words; without `concepts`, of the context's words alone."""
        most = self.concepts_per_dialogue if concepts else 0
        settings = GraphSettings(self.concepts_per_word, most, self.confidence)
        return GraphBuilder(open_index(self.index), load_vad(self.lexicon), settings=settings, vocabulary=vocabulary)


def emotional_signal(states: Tensor, intensity: Tensor, real: Tensor) -> Tensor:
    """c_e [B, d]: the states of the vertices [B, N, d], weighed by how intense each is [7]."""
    weights = intensity.masked_fill(~real, -torch.inf).softmax(-1)
    return (weights[:, None] @ states).squeeze(1)


def attention_loss(attention: Tensor, intensity: Tensor, real: Tensor) -> Tensor:
    """[B, T]: how far attention [B, T, N] is from the raw intensities [B, N], the mean over vertices [16]."""
    seen = real[:, None]
    return ((intensity[:, None] - attention) ** 2 * seen).sum(-1) / seen.sum(-1)
