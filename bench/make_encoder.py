#!/usr/bin/env python3
"""Writes a BERT-shaped encoder with random weights as ONNX, in the form the legacy PyTorch exporter gives it.

The graph has what makes such files slow to read: shape chains (Shape, Gather, Unsqueeze, Concat, Reshape) in every
layer, erf GELU spelled out, one initializer a weight. Needs numpy and onnx.

    make_encoder.py encoder.onnx --layers 12 --hidden 768 --heads 12 --ffn 3072 --vocab 30522
"""

import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """Nodes and initializers under construction; every method returns the name of its result."""

    def __init__(self, seed):
        self.nodes, self.initializers = [], []
        self.random = np.random.default_rng(seed)
        self.count = 0

    def op(self, op_type, inputs, **attributes):
        self.count += 1
        output = f"{op_type}_{self.count}_output"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=f"{op_type}_{self.count}", **attributes))
        return output

    def weight(self, name, shape, scale=0.02, offset=0.0):
        data = (self.random.standard_normal(shape, dtype=np.float32) * np.float32(scale)) + np.float32(offset)
        self.initializers.append(numpy_helper.from_array(data.astype(np.float32), name))
        return name

    def constant(self, value, dtype):
        return self.op("Constant", [], value=numpy_helper.from_array(np.array(value, dtype)))

    def dim(self, x, axis):
        size = self.op("Gather", [self.op("Shape", [x]), self.constant(axis, np.int64)], axis=0)
        return self.op("Unsqueeze", [size, self.constant([0], np.int64)])

    def reshape(self, x, like, tail):
        parts = [self.dim(like, 0), self.dim(like, 1), *(self.constant([size], np.int64) for size in tail)]
        return self.op("Reshape", [x, self.op("Concat", parts, axis=0)])

    def linear(self, x, name, rows, columns):
        product = self.op("MatMul", [x, self.weight(f"{name}.weight", (rows, columns))])
        return self.op("Add", [self.weight(f"{name}.bias", (columns,)), product])

    def layer_norm(self, x, name, hidden):
        scale, bias = self.weight(f"{name}.weight", (hidden,), 0.1, 1.0), self.weight(f"{name}.bias", (hidden,))
        return self.op("LayerNormalization", [x, scale, bias], axis=-1, epsilon=1e-12)

    def gelu(self, x):
        erf = self.op("Erf", [self.op("Div", [x, self.constant(np.sqrt(2.0), np.float32)])])
        product = self.op("Mul", [x, self.op("Add", [erf, self.constant(1.0, np.float32)])])
        return self.op("Mul", [product, self.constant(0.5, np.float32)])


def attention(graph, x, mask, name, hidden, heads):
    size = hidden // heads

    def split(kind, perm):
        value = graph.linear(x, f"{name}.{kind}", hidden, hidden)
        return graph.op("Transpose", [graph.reshape(value, x, [heads, size])], perm=perm)

    query, key, value = split("query", [0, 2, 1, 3]), split("key", [0, 2, 3, 1]), split("value", [0, 2, 1, 3])
    scores = graph.op("Div", [graph.op("MatMul", [query, key]), graph.constant(np.sqrt(size), np.float32)])
    weights = graph.op("Softmax", [graph.op("Add", [scores, mask])], axis=-1)
    context = graph.op("Transpose", [graph.op("MatMul", [weights, value])], perm=[0, 2, 1, 3])
    return graph.linear(graph.reshape(context, x, [hidden]), f"{name}.output", hidden, hidden)


def encoder(layers, hidden, heads, ffn, vocab, positions, seed):
    graph = Graph(seed)
    one, lowest = graph.constant(1.0, np.float32), graph.constant(np.finfo(np.float32).min, np.float32)
    mask = graph.op("Unsqueeze", ["attention_mask", graph.constant([1, 2], np.int64)])
    mask = graph.op("Mul", [graph.op("Sub", [one, graph.op("Cast", [mask], to=TensorProto.FLOAT)]), lowest])

    x = graph.op("Gather", [graph.weight("embeddings.word", (vocab, hidden)), "input_ids"])
    start, end = graph.constant([0], np.int64), graph.dim("input_ids", 1)
    position = graph.op("Slice", [graph.weight("embeddings.position", (positions, hidden)), start, end, start])
    x = graph.layer_norm(graph.op("Add", [x, position]), "embeddings.norm", hidden)
    for layer in range(layers):
        name = f"layer.{layer}"
        x = graph.layer_norm(
            graph.op("Add", [attention(graph, x, mask, f"{name}.attention", hidden, heads), x]), f"{name}.norm1", hidden)
        inner = graph.gelu(graph.linear(x, f"{name}.ffn1", hidden, ffn))
        x = graph.layer_norm(graph.op("Add", [graph.linear(inner, f"{name}.ffn2", ffn, hidden), x]), f"{name}.norm2", hidden)

    graph.nodes.append(helper.make_node("Identity", [x], ["last_hidden_state"], name="output"))
    dims = ["batch", "sequence"]
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, dims) for n in ("input_ids", "attention_mask")]
    outputs = [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*dims, hidden])]
    return helper.make_model(
        helper.make_graph(graph.nodes, "encoder", inputs, outputs, graph.initializers),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="rtx make_encoder.py")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", help="ONNX file to write")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--ffn", type=int, default=3072)
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--positions", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    arguments = vars(parser.parse_args())
    output = arguments.pop("output")
    onnx.save(encoder(**arguments), output)


if __name__ == "__main__":
    main()
