"""An encoder of MiniLM's shape with linear heads as one ONNX file. Weights are stored in 8 bits, arithmetic stays in 32.

The graph is that of the sentence encoder (:mod:`attune.knowledge.encoder_graph`), with the embeddings put before it and the heads
behind it. A matrix is kept as whole numbers with a scale for each 32 of them; onnxruntime multiplies them out once, when it opens the
file, so a reading costs what it would in single precision and is the same on every processor.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attune.errors import DataError, SettingsError, did_you_mean

Array = NDArray[Any]
Pooling = Literal["cls", "mean"]
BLOCK = 32  # numbers with one scale
POOLINGS: tuple[Pooling, ...] = ("cls", "mean")

_WORDS, _PLACES, _KINDS = (f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type"))


def write_perceiver(
    path: Path,
    tensors: Mapping[str, Array],
    heads: Mapping[str, tuple[Array, Array]],
    *,
    pooling: Pooling,
    longest: int,
) -> None:
    """Write the encoder's `tensors`, named as in its `model.safetensors`, and `heads`: name → weight [n, d] and bias [n].

    The file takes `ids` and `mask` [texts, tokens] and gives the logits of each head under its name; `longest` is noted in it
    for whoever cuts the texts. The same weights give the same bytes.
    """
    from onnx import TensorProto, helper

    from attune.knowledge.encoder_graph import build
    from attune.knowledge.sentences import weights

    if pooling not in POOLINGS:
        raise SettingsError(did_you_mean(pooling, POOLINGS, "pooling"))
    for name, shape in weights().items():
        found = tensors.get(name)
        if found is None or found.shape != shape:
            what = "is not there" if found is None else f"has the shape {list(found.shape)}, not {list(shape)}"
            raise DataError(f"the encoder's {name} {what}; only an encoder of MiniLM's shape can be written")
    model = build()
    graph = model.graph
    small = [tensor for tensor in graph.initializer if tensor.data_location != TensorProto.EXTERNAL]
    outside = [tensor.name for tensor in graph.initializer if tensor.data_location == TensorProto.EXTERNAL]
    before = _Part()
    for name in outside:
        before.matrix(name, tensors[name]) if tensors[name].ndim == 2 else before.value(name, tensors[name])
    before.embed(tensors[_WORDS], tensors[_PLACES] + tensors[_KINDS][0])
    *inside, total, _ = graph.node  # … → the sum over the tokens → length 1
    shown = next(node for node in inside if node.output[0] == total.input[0])
    behind = _Part()
    if pooling == "cls":
        inside.remove(shown)
        pooled = behind.node("Gather", shown.input[0], behind.value("first", np.array(0)), axis=1)
    else:
        count = behind.node("ReduceSum", "mask", behind.value("along", np.array([1])), keepdims=1)
        inside.append(total)
        pooled = behind.node("Div", total.output[0], count)
    for name, (weight, bias) in heads.items():
        sides = behind.value(f"{name}.weight", weight), behind.value(f"{name}.bias", bias)
        behind.nodes.append(helper.make_node("Gemm", [pooled, *sides], [name], name=name, transB=1))

    texts = ("texts", "tokens")
    whole = helper.make_graph(
        [*before.nodes, *inside, *behind.nodes],
        "perceiver",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, texts),
            helper.make_tensor_value_info("mask", TensorProto.FLOAT, texts),
        ],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ("texts", len(bias)))
            for name, (_, bias) in heads.items()
        ],
        [*small, *before.initialisers, *behind.initialisers],
    )
    made = helper.make_model(whole, opset_imports=model.opset_import, ir_version=model.ir_version)
    helper.set_model_props(made, {"longest": str(longest)})
    path.write_bytes(made.SerializeToString(deterministic=True))


class _Part:
    """Nodes and initialisers to put before or behind a graph; each method returns the name of what it made."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initialisers: list[Any] = []

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        name = output or f"{kind.lower()}:{inputs[0]}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def value(self, name: str, value: Array) -> str:
        from onnx import numpy_helper

        kind = np.float32 if value.dtype.kind == "f" else value.dtype
        self.initialisers.append(numpy_helper.from_array(np.asarray(value, dtype=kind, order="C"), name))
        return name

    def matrix(self, name: str, value: Array) -> None:
        """A matrix in 8 bits, under its name once it is multiplied out."""
        whole, scale = in_8_bits(value)
        plain = self.node("Cast", self.value(f"{name}:8", whole), to=1)
        blocks = self.node("Mul", plain, self.value(f"{name}:scale", scale))
        self.node("Reshape", blocks, self.value(f"{name}:shape", np.array(value.shape)), output=name)

    def embed(self, words: Array, places: Array) -> None:
        """`ids` to `tokens`: the rows of the words and of their places. The table of the words stays in 8 bits."""
        whole, scale = in_8_bits(words)
        rows = self.node("Cast", self.node("Gather", self.value("words:8", whole), "ids"), to=1)
        rows = self.node("Mul", rows, self.node("Gather", self.value("words:scale", scale), "ids"))
        rows = self.node("Reshape", rows, self.value("words:shape", np.array([0, 0, -1])))  # [texts, tokens, d]
        zero, one, two = (self.value(f"place:{i}", np.array([i])) for i in range(3))
        length = self.node("Slice", self.node("Shape", "ids"), one, two)
        self.node("Add", rows, self.node("Slice", self.value("places", places), zero, length), output="tokens")


def in_8_bits(value: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """A matrix as whole numbers from -127 to 127 in blocks of its rows, and the scale of each block.

    >>> whole, scale = in_8_bits(np.array([[1.0, -2.0], [0.0, 0.0]]))
    >>> whole.tolist(), scale.round(4).ravel().tolist() == [np.float32(0.0157), 0.0]
    ([[[64, -127]], [[0, 0]]], True)
    """
    rows, columns = value.shape
    blocks = value.reshape(rows, -1, BLOCK if columns % BLOCK == 0 else columns)
    scale = np.abs(blocks).max(axis=2, keepdims=True).astype(np.float32) / 127
    whole = np.rint(blocks / np.where(scale == 0, 1, scale)).astype(np.int8)
    return whole, scale
