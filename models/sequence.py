"""Networks whose difficulty is not convolution: attention, symbolic lengths, control flow with captured tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, helper

from models.net import NetTensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx import GraphProto, NodeProto

    from models.net import Dim, Net

VOCABULARY = 512
WIDTH = 64  # of `branches`
STEPS = 3


def transformer(net: Net, *, small: bool) -> None:
    """A pre-norm encoder (Vaswani et al. 2017): 4 layers, width 256, 4 heads, 128 tokens; small: 2, 64, 4, 32.

    The input `ids` is int64 below 512. Queries, keys and values come from one product and a Split.
    """
    depth, width, heads, length = (2, 64, 4, 32) if small else (4, 256, 4, 128)
    ids = net.input("ids", length, dtype=TensorProto.INT64)
    embedded = NetTensor("embedding", (net.batch, length, width))
    net.node("Gather", [net.weight("embedding.weight", (VOCABULARY, width), 1.0), ids.name], embedded.name)
    x = net.layer(embedded, [ids])
    x = net.op("Add", [x], x.shape, extra=[net.weight("position.weight", (length, width), 0.1)], name="position")
    x = encoder(net, x, depth, heads)
    x = net.op("ReduceMean", [x], (net.batch, width), axes=[1], keepdims=0)
    net.output(net.dense(x, 16, name="logits"))


def encoder(net: Net, x: NetTensor, depth: int, heads: int) -> NetTensor:
    """Layers of a pre-norm encoder for tokens [batch, length, width], and the last norm."""
    width = x.dim(2)
    for _ in range(depth):
        x = net.add(_attention(net, _layer_norm(net, x), heads), x)
        y = net.dense(_layer_norm(net, x), 4 * width)
        x = net.add(net.dense(_gelu(net, y), width, gain=0.5), x)
    return _layer_norm(net, x)


def _attention(net: Net, x: NetTensor, heads: int) -> NetTensor:
    length, width = x.dim(1), x.dim(2)
    depth = width // heads
    q, k, v = (net.reshape(part, length, heads, depth) for part in net.split(net.dense(x, 3 * width), 3))
    q, k, v = net.transpose(q, 0, 2, 1, 3), net.transpose(k, 0, 2, 3, 1), net.transpose(v, 0, 2, 1, 3)
    scores = net.op("MatMul", [q, k], (net.batch, heads, length, length))
    scores = net.op("Mul", [scores], scores.shape, extra=[net.constant(depth**-0.5, np.float32)])
    mixed = net.op("MatMul", [net.softmax(scores), v], (net.batch, heads, length, depth))
    return net.dense(net.reshape(net.transpose(mixed, 0, 2, 1, 3), length, width), width, gain=0.5)


def _layer_norm(net: Net, x: NetTensor) -> NetTensor:
    name, width = net.fresh("layernorm"), x.dim(-1)
    extra = [net.weight(f"{name}.scale", (width,), 0.05, mean=1.0), net.weight(f"{name}.bias", (width,), 0.05)]
    return net.op("LayerNormalization", [x], x.shape, extra=extra, name=name, axis=-1)


def _gelu(net: Net, x: NetTensor) -> NetTensor:
    """GELU by erf, as exporters of this opset write it; one layer."""
    name = net.fresh("gelu")
    root, one, half = (net.constant(v, np.float32) for v in (math.sqrt(2.0), 1.0, 0.5))
    net.node("Div", [x.name, root], f"{name}.scaled")
    net.node("Erf", [f"{name}.scaled"], f"{name}.erf")
    net.node("Add", [f"{name}.erf", one], f"{name}.shifted")
    net.node("Mul", [x.name, f"{name}.shifted"], f"{name}.double")
    net.node("Mul", [f"{name}.double", half], name)
    return net.layer(NetTensor(name, x.shape), [x])


def dynamic(net: Net, *, small: bool) -> None:
    """Attention over a length `T` that no one knows beforehand; the shapes of its Reshapes are computed at run time.

    One size only. It has no records until T has a value.
    """
    del small
    x = net.input("x", "T", 32)
    h = net.dense(x, 32, act="relu")
    shape = net.op("Shape", [h], (3,))
    lengths = [
        net.op("Slice", [shape], (1,), extra=[net.constant([i], np.int64), net.constant([i + 1], np.int64)])
        for i in (0, 1)
    ]
    heads = _reshape_at_run_time(net, h, lengths, (4, 8))
    heads = net.transpose(heads, 0, 2, 1, 3)
    keys = net.transpose(heads, 0, 1, 3, 2)
    scores = net.softmax(net.op("MatMul", [heads, keys], (net.batch, 4, "T", "T")))
    mixed = net.transpose(net.op("MatMul", [scores, heads], heads.shape), 0, 2, 1, 3)
    y = net.dense(_reshape_at_run_time(net, mixed, lengths, (32,)), 32)
    both = net.op("Concat", [h, y], (net.batch, "2*T", 32), axis=1)
    pooled = net.op("ReduceMax", [both], (net.batch, 32), axes=[1], keepdims=0)
    net.output(net.dense(y, 8, name="per_step"), net.dense(pooled, 8, name="summary"))


def _reshape_at_run_time(net: Net, x: NetTensor, lengths: list[NetTensor], tail: tuple[int, ...]) -> NetTensor:
    target = net.op("Concat", lengths, (2 + len(tail),), extra=[net.constant(list(tail), np.int64)], axis=0)
    return net.op("Reshape", [x, target], (x.shape[0], x.shape[1], *tail))


def branches(net: Net, *, small: bool) -> None:
    """An If, then a Loop whose body holds another If; all of them capture tensors of the main graph.

    `flag` (bool) chooses the branch in both. One size only. `trunk` and `gate` live until the Loop although no node
    of the main graph names them as inputs after they were made.
    """
    del small
    x = net.input("x", WIDTH)
    flag = NetTensor("flag", (), dtype=TensorProto.BOOL)
    net.inputs.append(flag)
    trunk = net.dense(x, WIDTH, act="tanh", name="trunk")
    gate = net.dense(trunk, WIDTH, act="relu", name="gate")
    weight = net.weight("captured.weight", (WIDTH, WIDTH), WIDTH**-0.5)

    start = NetTensor("start", (net.batch, WIDTH))
    product = [helper.make_node("MatMul", [gate.name, weight], ["then.product"], name="then.product")]
    product.append(helper.make_node("Add", ["then.product", trunk.name], ["then.out"], name="then.out"))
    other = [helper.make_node("Sigmoid", [trunk.name], ["else.out"], name="else.out")]
    net.node(
        "If",
        [flag.name],
        start.name,
        then_branch=_graph("then", product, [], [NetTensor("then.out", start.shape)]),
        else_branch=_graph("else", other, [], [NetTensor("else.out", start.shape)]),
    )
    net.layer(start, [flag, trunk, gate])

    final, history = NetTensor("final", start.shape), NetTensor("history", (STEPS, net.batch, WIDTH))
    trips, go = net.constant(STEPS, np.int64), net.constant(True, np.bool_)
    net.node("Loop", [trips, go, start.name], [final.name, history.name], body=_loop_body(net.batch))
    net.layer_of([final, history], [start, flag, trunk, gate])
    mean = net.op("ReduceMean", [history], start.shape, axes=[0], keepdims=0, name="mean")
    net.output(net.add(final, mean, name="result"))


def _loop_body(batch: Dim) -> GraphProto:
    """The new state is tanh(state + trunk), or the maximum of that sum and gate; it is the history's row too."""
    shape: tuple[Dim, ...] = (batch, WIDTH)
    inner = helper.make_node(
        "If",
        ["flag"],
        ["body.next"],
        name="body.next",
        then_branch=_graph(
            "inner_then",
            [helper.make_node("Tanh", ["body.sum"], ["inner_then.out"], name="inner_then.out")],
            [],
            [NetTensor("inner_then.out", shape)],
        ),
        else_branch=_graph(
            "inner_else",
            [helper.make_node("Max", ["body.sum", "gate"], ["inner_else.out"], name="inner_else.out")],
            [],
            [NetTensor("inner_else.out", shape)],
        ),
    )
    nodes = [
        helper.make_node("Add", ["body.state", "trunk"], ["body.sum"], name="body.sum"),
        inner,
        helper.make_node("Identity", ["body.go"], ["body.go_on"], name="body.go_on"),
        helper.make_node("Identity", ["body.next"], ["body.row"], name="body.row"),
    ]
    inputs = [
        NetTensor("body.step", (), dtype=TensorProto.INT64),
        NetTensor("body.go", (), dtype=TensorProto.BOOL),
        NetTensor("body.state", shape),
    ]
    outputs = [
        NetTensor("body.go_on", (), dtype=TensorProto.BOOL),
        NetTensor("body.next", shape),
        NetTensor("body.row", shape),
    ]
    return _graph("body", nodes, inputs, outputs)


def _graph(name: str, nodes: Sequence[NodeProto], inputs: list[NetTensor], outputs: list[NetTensor]) -> GraphProto:
    return helper.make_graph(nodes, name, [t.info() for t in inputs], [t.info() for t in outputs])
