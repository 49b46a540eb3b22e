"""Builds the graphs that :mod:`attune.knowledge.sentences` runs: a BERT-type encoder, mean pooling, unit length. No weights.

A graph names the tensors of a `model.safetensors` of its shape, so the weights are never copied or converted. They are
built once, by someone who has the `onnx` package, and shipped::

    python -m attune.knowledge.encoder_graph
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from attune.knowledge.sentences import SHAPES, Shape

GRAPHS = Path(__file__).parent / "data"


class _Graph:
    """Nodes and initialisers as they are added; each method returns the name of what it made."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.shapes = shape, shape.tensors()
        self.nodes: list[onnx.NodeProto] = []
        self.initialisers: list[onnx.TensorProto] = []

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def weight(self, name: str) -> str:
        """A tensor of the safetensors file; whoever runs the graph supplies it by this name."""
        shape = self.shapes[name]
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
        return self.node("LayerNormalization", x, weight, bias, axis=-1, epsilon=self.shape.epsilon)

    def linear(self, x: str, name: str) -> str:
        """`x` [rows, in] times a weight that is stored as [out, in], plus its bias."""
        return self.node("Gemm", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), transB=1)


def build(shape: Shape) -> onnx.ModelProto:
    """`tokens` [texts, tokens, d] (summed embeddings) and `mask` [texts, tokens] → `total` [texts, d], the sum of the last
    states, and `embedding`, the same in length 1. An encoder that knows distances also takes `bias` [heads, tokens, tokens].
    """
    g, d, count = _Graph(shape), shape.hidden, shape.heads
    rows = g.constant([-1, d])
    heads = g.node("Concat", g.node("Shape", "mask"), g.constant([count, d // count]), axis=0)
    whole = g.node("Concat", g.node("Shape", "mask"), g.constant([d]), axis=0)
    hidden = g.node("Sub", g.constant(1.0, np.float32), "mask")
    hidden = g.node("Unsqueeze", g.node("Mul", hidden, g.constant(-1e9, np.float32)), g.constant([1, 2]))
    if shape.buckets:
        hidden = g.node("Add", hidden, "bias")  # [texts, heads, tokens, tokens]
    scale, root, one, half = (g.constant(v, np.float32) for v in ((count / d) ** 0.5, 2.0**0.5, 1.0, 0.5))

    x = g.node("Reshape", g.norm("tokens", "embeddings.LayerNorm"), rows)  # [texts · tokens, d]
    for layer in (f"encoder.layer.{i}" for i in range(shape.layers)):
        q, k, v = (g.linear(x, f"{layer}.{name}") for name in (shape.query, shape.key, shape.value))
        q = g.node("Transpose", g.node("Reshape", q, heads), perm=[0, 2, 1, 3])  # [texts, heads, tokens, d / heads]
        k = g.node("Transpose", g.node("Reshape", k, heads), perm=[0, 2, 3, 1])
        v = g.node("Transpose", g.node("Reshape", v, heads), perm=[0, 2, 1, 3])
        score = g.node("Add", g.node("MatMul", g.node("Mul", q, scale), k), hidden)
        seen = g.node("MatMul", g.node("Softmax", score, axis=-1), v)
        seen = g.node("Reshape", g.node("Transpose", seen, perm=[0, 2, 1, 3]), rows)
        seen = g.linear(seen, f"{layer}.{shape.out}")
        x = g.norm(g.node("Add", seen, x), f"{layer}.{shape.norm}")
        inner = g.linear(x, f"{layer}.intermediate.dense")
        bell = g.node("Add", g.node("Erf", g.node("Div", inner, root)), one)  # GELU
        inner = g.node("Mul", g.node("Mul", inner, bell), half)
        x = g.norm(g.node("Add", g.linear(inner, f"{layer}.output.dense"), x), f"{layer}.output.LayerNorm")

    shown = g.node("Mul", g.node("Reshape", x, whole), g.node("Unsqueeze", "mask", g.constant([2])))
    g.node("ReduceSum", shown, g.constant([1]), keepdims=0)  # points where the mean points
    g.nodes[-1].output[0] = "total"
    g.node("LpNormalization", "total", axis=-1, p=2)
    g.nodes[-1].output[0] = "embedding"

    def tensor(name: str, *sizes: str | int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)

    inputs = [tensor("tokens", "texts", "tokens", d), tensor("mask", "texts", "tokens")]
    inputs += [tensor("bias", count, "tokens", "tokens")] if shape.buckets else []
    outputs = [tensor("embedding", "texts", d), tensor("total", "texts", d)]
    graph = helper.make_graph(g.nodes, "sentence-encoder", inputs, outputs, g.initialisers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    for name, shape in SHAPES.items():
        file = GRAPHS / f"{name}.onnx"
        file.write_bytes(build(shape).SerializeToString(deterministic=True))
        print(f"{file}: {file.stat().st_size} bytes")
