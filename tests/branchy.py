"""Small models whose order decides how much memory they need, with the peaks of their orders worked out by hand.

    bundle (.tflite): BRANCHES times  x ─► wide ─► narrow, all narrow ones added up one after the other. The file runs
    all first operators, then all second ones: all wide results are alive at once. Branch after branch needs one wide
    result at a time, beside a narrow one and the sum so far.

    joins (.onnx): two times  wide ─► narrow  and  tall  are joined. Where `tall` is first it is alive beside `wide`.
    The two joins have their inputs in different orders, and ONNX Runtime, which goes from the output back and takes
    inputs in turn, has `tall` first in one of them.

    wired (.tflite and .onnx): a randomly wired stage (Xie et al. 2019) without the rest of the network, where the order
    that it is drawn in keeps more results alive than needed. Its peaks are not worked out by hand.

No tensor is padded in these sizes, for any alignment up to 64 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from models.graphs import small_world
from models.net import Net
from tests.row_models import RowNet
from tests.tflite_models import ADD_OPTIONS, M, O, S, T, build

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import TypeVar

    Value = TypeVar("Value")

NARROW, TALL, WIDE = 64, 512, 1024  # float32 elements
BRANCHES = 6
DENSE_OPTIONS = (8, ())

# Bytes alive at most, with inputs and outputs of the graph left to the caller.
BUNDLE_GIVEN = 4 * (BRANCHES * WIDE + NARROW)
BUNDLE_BEST = 4 * (WIDE + 2 * NARROW)
JOINS_BEST = 4 * (NARROW + 2 * (TALL + NARROW))  # the second join, beside the result of the first one


def _weights(rows: int, columns: int, seed: int) -> bytes:
    return np.random.default_rng(seed).standard_normal((rows, columns), np.float32).tobytes()


def bundle() -> bytes:
    """The .tflite model."""
    tensors = [T("x", shape=(1, NARROW)), T("bias", shape=(WIDE,), data=bytes(4 * WIDE))]
    tensors.append(T("short_bias", shape=(NARROW,), data=bytes(4 * NARROW)))

    def add(*tensor: T) -> range:
        tensors.extend(tensor)
        return range(len(tensors) - len(tensor), len(tensors))

    first, second = [], []
    narrow = []
    for k in range(BRANCHES):
        grow, shrink, wide, short = add(
            T(f"grow{k}", shape=(WIDE, NARROW), data=_weights(WIDE, NARROW, k)),
            T(f"shrink{k}", shape=(NARROW, WIDE), data=_weights(NARROW, WIDE, k + BRANCHES)),
            T(f"wide{k}", shape=(1, WIDE)),
            T(f"narrow{k}", shape=(1, NARROW)),
        )
        first.append(O("FULLY_CONNECTED", (0, grow, 1), (wide,), DENSE_OPTIONS))
        second.append(O("FULLY_CONNECTED", (wide, shrink, 2), (short,), DENSE_OPTIONS))
        narrow.append(short)
    sums = []
    total = narrow[0]
    for k, short in enumerate(narrow[1:]):
        (out,) = add(T(f"sum{k}", shape=(1, NARROW)))
        sums.append(O("ADD", (total, short), (out,), ADD_OPTIONS))
        total = out
    return build(M([S(tensors, [*first, *second, *sums], (0,), (total,))]))


def joins(path: Path) -> None:
    """The .onnx model."""
    weights: list[TensorProto] = []
    nodes = []

    def dense(x: str, rows: int, columns: int, out: str) -> str:
        values = np.random.default_rng(len(weights)).standard_normal((rows, columns), np.float32)
        weights.append(numpy_helper.from_array(values, f"weights_{out}"))
        nodes.append(helper.make_node("MatMul", [x, f"weights_{out}"], [out], name=out))
        return out

    made = []
    for k in range(2):
        tall = dense("x", NARROW, TALL, f"tall{k}")
        narrow = dense(dense("x", NARROW, WIDE, f"wide{k}"), WIDE, NARROW, f"narrow{k}")
        parts = (tall, narrow) if k else (narrow, tall)
        nodes.append(helper.make_node("Concat", parts, [f"join{k}"], name=f"join{k}", axis=1))
        made.append(dense(f"join{k}", TALL + NARROW, NARROW, f"made{k}"))
    nodes.append(helper.make_node("Add", made, ["y"], name="y"))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, NARROW]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "joins", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def wired_tflite(nodes: int, seed: int, *, int8: bool) -> bytes:
    """A stage of so many convolutions of 8 channels on 12x12 pixels."""
    net = RowNet(int8, np.random.default_rng(seed))
    x = net.input(12, 12, 8)

    def conv(y: int) -> int:
        return net.conv(y, 8, (3, 3), (1, 1), (1, 1), same=True, depthwise=False)

    def add(parts: Sequence[int]) -> int:
        total = parts[0]
        for part in parts[1:]:
            total = net.binary("ADD", total, part)
        return total

    return net.content([_wire(x, nodes, seed, conv, add)])


def wired_onnx(path: Path, nodes: int, seed: int) -> None:
    """A stage of so many convolutions of 8 channels on 12x12 pixels."""
    net = Net("wired", seed=seed)
    x = net.input("x", 8, 12, 12)
    net.output(_wire(x, nodes, seed, lambda y: net.conv(y, 8, 3), lambda parts: net.add(*parts)))
    onnx.save(net.model(), path)


def _wire(
    x: Value, nodes: int, seed: int, conv: Callable[[Value], Value], add: Callable[[Sequence[Value]], Value]
) -> Value:
    """Every node is a convolution of the sum of those before it; what nothing reads is added up in the end."""
    before = small_world(nodes, 4, 0.75, seed=(seed,))
    made: list[Value] = []
    for sources in before:
        made.append(conv(add([made[s] for s in sources]) if len(sources) > 1 else made[sources[0]] if sources else x))
    read = {s for sources in before for s in sources}
    sinks = [value for k, value in enumerate(made) if k not in read]
    return add(sinks) if len(sinks) > 1 else sinks[0]
