"""Builds the graph that :mod:`attune.knowledge.sentences` runs: a BERT encoder, mean pooling, unit length. No weights.

The graph names the tensors of a `model.safetensors` of that shape, so the weights are never copied or converted. It is
built once, by someone who has the `onnx` package, and shipped::

    python -m attune.knowledge.encoder_graph
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from attune.knowledge.sentences import HEADS, HIDDEN, LAYERS, weights

GRAPH = Path(__file__).parent / "data" / "minilm.onnx"


class _Graph:
    """Nodes and initialisers as they are added; each method returns the name of what it made."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initialisers: list[onnx.TensorProto] = []

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def weight(self, name: str) -> str:
        """A tensor of the safetensors file; whoever runs the graph supplies it by this name."""
        shape = weights()[name]
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        for key, value in {
            "location": "model.safetensors",
            "offset": "0",
            "length": str(4 * int(np.prod(shape))),
        }.items():
            tensor.external_data.add(key=key, value=value)
        self.initialisers.append(tensor)
        return name

    def constant(self, value: int | float | list[int], kind: type[np.generic] = np.int64) -> str:
        name = f"constant_{len(self.initialisers)}"
        self.initialisers.append(numpy_helper.from_array(np.array(value, dtype=kind), name))
        return name

    def norm(self, x: str, name: str) -> str:
        weight, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.node("LayerNormalization", x, weight, bias, axis=-1, epsilon=1e-12)

    def linear(self, x: str, name: str) -> str:
        """`x` [rows, in] times a weight that is stored as [out, in], plus its bias."""
        return self.node("Gemm", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), transB=1)


def build() -> onnx.ModelProto:
    """`tokens` [texts, tokens, 384] (summed embeddings) and `mask` [texts, tokens] → `embedding` [texts, 384], length 1."""
    g = _Graph()
    rows = g.constant([-1, HIDDEN])
    heads = g.node("Concat", g.node("Shape", "mask"), g.constant([HEADS, HIDDEN // HEADS]), axis=0)
    whole = g.node("Concat", g.node("Shape", "mask"), g.constant([HIDDEN]), axis=0)
    hidden = g.node("Sub", g.constant(1.0, np.float32), "mask")
    hidden = g.node("Unsqueeze", g.node("Mul", hidden, g.constant(-1e9, np.float32)), g.constant([1, 2]))
    scale, root, one, half = (g.constant(v, np.float32) for v in ((HEADS / HIDDEN) ** 0.5, 2.0**0.5, 1.0, 0.5))

    x = g.node("Reshape", g.norm("tokens", "embeddings.LayerNorm"), rows)  # [texts · tokens, 384]
    for layer in (f"encoder.layer.{i}" for i in range(LAYERS)):
        q, k, v = (g.linear(x, f"{layer}.attention.self.{name}") for name in ("query", "key", "value"))
        q = g.node("Transpose", g.node("Reshape", q, heads), perm=[0, 2, 1, 3])  # [texts, heads, tokens, 32]
        k = g.node("Transpose", g.node("Reshape", k, heads), perm=[0, 2, 3, 1])
        v = g.node("Transpose", g.node("Reshape", v, heads), perm=[0, 2, 1, 3])
        score = g.node("Add", g.node("MatMul", g.node("Mul", q, scale), k), hidden)
        seen = g.node("MatMul", g.node("Softmax", score, axis=-1), v)
        seen = g.node("Reshape", g.node("Transpose", seen, perm=[0, 2, 1, 3]), rows)
        seen = g.linear(seen, f"{layer}.attention.output.dense")
        x = g.norm(g.node("Add", seen, x), f"{layer}.attention.output.LayerNorm")
        inner = g.linear(x, f"{layer}.intermediate.dense")
        bell = g.node("Add", g.node("Erf", g.node("Div", inner, root)), one)  # GELU
        inner = g.node("Mul", g.node("Mul", inner, bell), half)
        x = g.norm(g.node("Add", g.linear(inner, f"{layer}.output.dense"), x), f"{layer}.output.LayerNorm")

    shown = g.node("Mul", g.node("Reshape", x, whole), g.node("Unsqueeze", "mask", g.constant([2])))
    total = g.node("ReduceSum", shown, g.constant([1]), keepdims=0)  # points where the mean points
    g.node("LpNormalization", total, axis=-1, p=2)
    g.nodes[-1].output[0] = "embedding"

    def tensor(name: str, *shape: str | int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    inputs = [tensor("tokens", "texts", "tokens", HIDDEN), tensor("mask", "texts", "tokens")]
    outputs = [tensor("embedding", "texts", HIDDEN)]
    graph = helper.make_graph(g.nodes, "sentence-encoder", inputs, outputs, g.initialisers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    GRAPH.write_bytes(build().SerializeToString(deterministic=True))
    print(f"{GRAPH}: {GRAPH.stat().st_size} bytes")
