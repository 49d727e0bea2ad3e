"""Small models of what LiteRT decides as it runs, keeps from run to run, or runs in other subgraphs."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from tests.tflite_models import ADD_OPTIONS, IF, WHILE, M, O, S, T, build, floats

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MODELS", "kinds"]

_MUL: Final = (21, ())
_SHAPE: Final = (55, (2,))
_PACK: Final = (59, (1,))
_CALL_ONCE: Final = (103, (1,))
_TRUE, _FALSE = b"\1", b"\0"


def ints(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def random_floats(seed: int, *shape: int) -> bytes:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, shape).astype("<f4").tobytes()


def computed_reshape() -> bytes:
    """y = |reshape(x, [n / 4, 4])|, with a shape that is computed from that of x."""
    tensors = [T("x", shape=(12,)), T("shape", "int32", (1,)), T("four", "int32", (1,), data=ints(4))]
    tensors += [T("rows", "int32", (1,)), T("both", "int32", (1, 2)), T("flat", "int32", (2,))]
    tensors += [T("two", "int32", (1,), data=ints(2)), T("wide", shape=(3, 4)), T("y", shape=(3, 4))]
    ops = [O("SHAPE", (0,), (1,), _SHAPE), O("DIV", (1, 2), (3,), (29, ())), O("PACK", (3, 2), (4,), (59, (2, 1)))]
    ops += [O("RESHAPE", (4, 6), (5,)), O("RESHAPE", (0, 5), (7,)), O("ABS", (7,), (8,))]
    return build(M([S(tensors, ops, (0,), (8,))]))


def given_reshape() -> bytes:
    """y = exp(reshape(|x|, shape)) where the shape is an input."""
    tensors = [
        T("x", shape=(12,)),
        T("shape", "int32", (2,)),
        T("a", shape=(12,)),
        T("b", shape=(1, 1)),
        T("y", shape=(1, 1)),
    ]
    ops = [O("ABS", (0,), (2,)), O("RESHAPE", (2, 1), (3,)), O("EXP", (3,), (4,))]
    return build(M([S(tensors, ops, (0, 1), (4,))]))


def where() -> bytes:
    """The places where x + w is not zero, and twice x."""
    tensors = [T("x"), T("w", data=floats(1, 2, 3, 4)), T("a"), T("places", "int64", (1, 2)), T("y")]
    ops = [O("ADD", (0, 1), (2,), ADD_OPTIONS), O("WHERE", (2,), (3,)), O("ADD", (2, 2), (4,), ADD_OPTIONS)]
    return build(M([S(tensors, ops, (0,), (3, 4))]))


_UNITS, _FEATURES, _STEPS = 6, 5, 4


def _lstm_weights(tensors: list[T], name: str, seed: int) -> tuple[int, ...]:
    """The inputs 1 to 17 of an LSTM: weights from inputs and from outputs, peepholes (absent), biases, projection."""
    inputs = []
    for k in range(8):
        shape = (_UNITS, _FEATURES if k < 4 else _UNITS)
        inputs.append(len(tensors))
        tensors.append(T(f"{name}{k}", shape=shape, data=random_floats(seed + k, *shape)))
    inputs += [-1, -1, -1]
    for k in range(4):
        inputs.append(len(tensors))
        tensors.append(T(f"{name}bias{k}", shape=(_UNITS,), data=random_floats(seed + 8 + k, _UNITS)))
    return (*inputs, -1, -1)


def _state(tensors: list[T], name: str) -> int:
    tensors.append(T(name, shape=(1, _UNITS), variable=True))
    return len(tensors) - 1


def lstm() -> bytes:
    """UNIDIRECTIONAL_SEQUENCE_LSTM, whose state lives on from run to run."""
    tensors = [
        T("x", shape=(1, _STEPS, _FEATURES)),
        T("y", shape=(1, _STEPS, _UNITS)),
        T("z", shape=(1, _STEPS, _UNITS)),
    ]
    weights = _lstm_weights(tensors, "w", 1)
    states = _state(tensors, "h"), _state(tensors, "c")
    # UnidirectionalSequenceLSTMOptions: activation TANH.
    ops = [O("UNIDIRECTIONAL_SEQUENCE_LSTM", (0, *weights, *states, -1, -1, -1, -1), (1,), (70, (4,)))]
    ops.append(O("ABS", (1,), (2,)))
    return build(M([S(tensors, ops, (0,), (2,))]))


def bilstm() -> bytes:
    """BIDIRECTIONAL_SEQUENCE_LSTM."""
    tensors = [
        T("x", shape=(1, _STEPS, _FEATURES)),
        T("y", shape=(1, _STEPS, _UNITS)),
        T("z", shape=(1, _STEPS, _UNITS)),
    ]
    weights = *_lstm_weights(tensors, "f", 1), *_lstm_weights(tensors, "b", 21)
    states = tuple(_state(tensors, name) for name in ("fh", "fc", "bh", "bc"))
    # Behind the states: no auxiliary input, and no weights for one.
    inputs = (0, *weights, *states, *(-1,) * 9)
    ops = [O("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, (1, 2), (71, (4,)))]
    return build(M([S(tensors, ops, (0,), (1, 2))]))


def variables() -> bytes:
    """A resource variable that grows by |x|: y is what it was before."""
    tensors = [T("x"), T("handle", "resource", (1,)), T("old"), T("a"), T("new"), T("y")]
    ops = [O("VAR_HANDLE", (), (1,), shared_name="v"), O("READ_VARIABLE", (1,), (2,)), O("ABS", (0,), (3,))]
    ops += [O("ADD", (2, 3), (4,), ADD_OPTIONS), O("ASSIGN_VARIABLE", (1, 4), ()), O("NEG", (2,), (5,))]
    start = [T("h", "resource", (1,)), T("zero", data=floats(0, 0, 0, 0))]
    first = [O("VAR_HANDLE", (), (0,), shared_name="v"), O("ASSIGN_VARIABLE", (0, 1), ())]
    once = O("CALL_ONCE", (), (), _CALL_ONCE)
    return build(M([S(tensors, [once, *ops], (0,), (5,)), S(start, first, (), (), "start")]))


def branches() -> bytes:
    """y = |x| or -x."""
    tensors = [T("go", "bool", (1,)), T("x"), T("y"), T("z")]
    body = [T("a"), T("b")]
    ops = [O("IF", (0, 1), (2,), (IF, (1, 2))), O("ADD", (2, 1), (3,), ADD_OPTIONS)]
    bodies = [S(body, [O(kind, (0,), (1,))], (0,), (1,), kind) for kind in ("ABS", "NEG")]
    return build(M([S(tensors, ops, (0, 1), (3,)), *bodies]))


def loop() -> bytes:
    """Doubles |x| until its sum is not less than 100."""
    tensors = [T("x"), T("a"), T("y"), T("z")]
    condition = [
        T("s"),
        T("axis", "int32", (2,), data=ints(0, 1)),
        T("sum", shape=()),
        T("most", shape=(), data=floats(100)),
    ]
    condition.append(T("less", "bool", ()))
    test = S(condition, [O("SUM", (0, 1), (2,), (27, ())), O("LESS", (2, 3), (4,))], (0,), (4,), "test")
    one = T("one", data=floats(1, 1, 1, 1))
    body = S(
        [T("p"), one, T("t"), T("q")],
        [O("ADD", (0, 1), (2,), ADD_OPTIONS), O("ADD", (2, 0), (3,), ADD_OPTIONS)],
        (0,),
        (3,),
        "body",
    )
    ops = [O("ABS", (0,), (1,)), O("WHILE", (1,), (2,), (WHILE, (1, 2))), O("NEG", (2,), (3,))]
    return build(M([S(tensors, ops, (0,), (3,)), test, body]))


def strings() -> bytes:
    """The last and the first string of three."""
    tensors = [T("x", "string", (3,)), T("which", "int32", (2,), data=ints(2, 0)), T("y", "string", (2,))]
    return build(M([S(tensors, [O("GATHER", (0, 1), (2,), (23, (0, 0)))], (0,), (2,))]))


def reshape_last() -> bytes:
    """y = reshape(|x|, shape), at the end of the graph, where the shape is an input."""
    tensors = [T("x", shape=(12,)), T("shape", "int32", (2,)), T("a", shape=(12,)), T("y", shape=(1, 1))]
    return build(M([S(tensors, [O("ABS", (0,), (2,)), O("RESHAPE", (2, 1), (3,))], (0, 1), (3,))]))


def kinds() -> bytes:
    """Tensors of several types and ranks, weights in float16, a workspace, and a tensor of open size."""
    half = struct.pack("<3e", 1, -2, 4)
    tensors = [T("x", shape=(2, 3)), T("bytes", "int8", (5, 7)), T("axis", "int32", (1,), ints(1))]
    tensors += [T("weights", shape=(3,), data=floats(0.5, 1.5, -2.5)), T("half", "float16", (3,), half)]
    tensors += [T("wide", shape=(3,)), T("sum", shape=(2,)), T("product", shape=(2, 3)), T("scaled", shape=(2, 3))]
    tensors += [T("same", "int8", (5, 7)), T("open", "int64", (1, 2))]
    ops = [O("DEQUANTIZE", (4,), (5,)), O("SUM", (0, 2), (6,), (27, ())), O("MUL", (0, 3), (7,), _MUL)]
    ops += [O("ADD", (7, 5), (8,), ADD_OPTIONS), O("MAXIMUM", (1, 1), (9,)), O("WHERE", (0,), (10,))]
    return build(M([S(tensors, ops, (0, 1), (6, 8, 9, 10))]))


def many() -> bytes:
    """A chain with a workspace, and tensors that may share memory."""
    tensors = [T("x", shape=(1, 8, 8, 3))]
    ops, last, width = [], 0, 3
    for k in range(6):
        channels = 4 + k
        shape = (channels, 3, 3, width)
        tensors.append(T(f"w{k}", shape=shape, data=random_floats(k, *shape)))
        tensors.append(T(f"b{k}", shape=(channels,), data=random_floats(k, channels)))
        tensors.append(T(f"c{k}", shape=(1, 8, 8, channels)))
        at = len(tensors) - 1
        ops.append(O("CONV_2D", (last, at - 2, at - 1), (at,), (1, (0, 1, 1))))
        tensors.append(T(f"a{k}", shape=(1, 8, 8, channels)))
        ops.append(O("TANH", (at,), (at + 1,)))
        last, width = at + 1, channels
    return build(M([S(tensors, ops, (0,), (last,))]))


MODELS: Final[dict[str, Callable[[], bytes]]] = {
    "computed_reshape": computed_reshape,
    "given_reshape": given_reshape,
    "reshape_last": reshape_last,
    "kinds": kinds,
    "strings": strings,
    "where": where,
    "lstm": lstm,
    "bilstm": bilstm,
    "variables": variables,
    "branches": branches,
    "loop": loop,
    "many": many,
}
