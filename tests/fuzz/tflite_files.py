"""TFLite files: damaged bytes, and models built with wrong shapes, indices, operators and options."""

from __future__ import annotations

import copy
import struct
from contextlib import suppress
from typing import TYPE_CHECKING

from edgemem.errors import UnsupportedError
from edgemem.planning.model_plan import plan_graph
from edgemem.plans import Settings
from edgemem.records.lifetime import lifetimes
from edgemem.schedule.order import find_order
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from edgemem_converters.tflite.names import DTYPES, OPERATOR_CODES
from edgemem_converters.tflite.writer import write
from tests.fuzz.cases import Target
from tests.fuzz.mutation import edge, mutate_bytes, reread
from tests.tflite_models import ADD_OPTIONS, IF, WHILE, M, O, S, T, build, floats

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

__all__ = ["PLANNED", "TARGET", "WHOLE", "use"]


def _whole() -> M:
    """Something of everything that is read."""
    main = S(
        [T("c", "bool", (1,)), T("x", signature=(-1, 4)), T("w", data=floats(1, 2, 3, 4)), T("a"), T("y"), T("z")],
        [
            O("ADD", (1, 2), (3,), ADD_OPTIONS),
            O("IF", (0, 3), (4,), (IF, (1, 1))),
            O("Magic", (4,), (5,), custom_options=b"mm"),
        ],
        (0, 1),
        (5,),
    )
    arm = S([T("i"), T("v", behind=floats(5, 6, 7, 8)), T("o")], [O("ADD", (0, 1), (2,), ADD_OPTIONS)], (0,), (2,))
    return M([main, arm], metadata={"mine": b"12345"})


def _loop() -> M:
    main = S([T("n", "int32", (1,)), T("x"), T("m", "int32", (1,)), T("y")], [], (0, 1), (2, 3))
    main.ops.append(O("WHILE", (0, 1), (2, 3), (WHILE, (1, 2))))
    limit = T("limit", "int32", (1,), data=struct.pack("<i", 3))
    cond = S([T("n", "int32", (1,)), T("x"), limit, T("go", "bool", (1,))], [O("LESS", (0, 2), (3,))], (0, 1), (3,))
    body = S([T("n", "int32", (1,)), T("x"), T("m", "int32", (1,)), T("y")], [], (0, 1), (2, 3))
    body.ops += [O("ADD", (0, 0), (2,), ADD_OPTIONS), O("ABS", (1,), (3,))]
    return M([main, cond, body])


def _views() -> M:
    tensors = [T("x", "int8", (2, 8)), T("s", "int32", (2,), data=struct.pack("<2i", 4, 4)), T("r", "int8", (4, 4))]
    tensors += [T("p", "int8", (4, 4)), T("q", "int4", (4, 4)), T("v", "int8", (4, 4), variable=True), T("e", shape=())]
    ops = [O("RESHAPE", (0, 1), (2,)), O("ABS", (2,), (3,)), O("CAST", (3,), (4,)), O("ADD", (5, 3), (5,), ADD_OPTIONS)]
    return M(
        [S(tensors, [*ops, O("SUM", (4, 1), (6,))], (0,), (6,))], metadata={"model_control_dependencies": b"\1\1\0"}
    )


_SEEDS = (_whole(), _loop(), _views())
WHOLE = build(_SEEDS[0])
PLANNED = write(
    WHOLE, {"edgemem.plan": b"plan" * 9, "OfflineMemoryAllocation": struct.pack("<12i", 1, 0, 9, *[-1] * 9)}
)
_MOST_OPERATORS = 200  # of a graph that is planned
_MOST_ORDERED = 30


def use(data: bytes) -> None:
    """All that is done with a file; only edgemem's errors may come of it."""
    model = TfliteConverter.from_bytes(data)
    model.plan()
    model.content()
    graph = model.graph()
    for target in ("tflm", "generic", "gpu-texture"):
        lifetimes(graph, BUILT_IN[target])
    model.with_order(tuple(range(len(graph.ops)))[::-1])


def _run(data: bytes) -> None:
    model = TfliteConverter.from_bytes(data)
    model.plan()
    model.offline()
    model.weights()
    graph = model.graph()
    for target in ("litert", "generic", "gpu-texture"):
        lifetimes(graph, BUILT_IN[target])
    model.folded().graph()
    program = model.program()
    assert len(program.steps) == len(graph.ops)
    if graph.ops:
        with suppress(UnsupportedError):
            model.operator_model(0)
    if len(graph.ops) <= _MOST_OPERATORS:
        planset = plan_graph(graph, BUILT_IN["tflm"], Settings(("greedy_by_size",)))
        written = model.with_plan(b"plan", planset)
        assert written.plan() == b"plan"
    if len(graph.ops) <= _MOST_ORDERED:
        model.with_order(find_order(graph, BUILT_IN["generic"]).order)


def _change(model: M, chance: random.Random) -> None:
    """Make one thing in the model other than it should be."""
    subgraph = chance.choice(model.subgraphs)
    tensor, op = chance.choice(subgraph.tensors), chance.choice(subgraph.ops)
    kind = chance.randrange(12)
    if kind == 0:
        shape = [*(tensor.shape or ()), *([1] if chance.random() < 0.2 else [])] or [1]
        shape[chance.randrange(len(shape))] = chance.choice((-1, 0, 2, 3, edge(chance, 2**31 - 1)))
        tensor.shape = tuple(shape)
    elif kind == 1:
        tensor.dtype = chance.choice(DTYPES)
    elif kind == 2:
        op.type = chance.choice((*OPERATOR_CODES, "BUILTIN_200", "BUILTIN_9999", "Custom"))
    elif kind in (3, 4):
        places = list(op.inputs if kind == 3 else op.outputs)
        index = chance.choice((-1, len(subgraph.tensors), edge(chance, 2**31 - 1), *range(len(subgraph.tensors))))
        places[chance.randrange(len(places) + 1) :][:1] = [index]
        at = chance.randrange(len(places) + 1)
        places[at : at + chance.choice((0, 1))] = [index]
        op.inputs, op.outputs = (tuple(places), op.outputs) if kind == 3 else (op.inputs, tuple(places))
    elif kind == 5:
        op.options = (
            chance.choice((IF, WHILE, 11, chance.randrange(130))),
            tuple(chance.choice((0, 1, 2, 3, edge(chance, 2**31 - 1))) for _ in range(chance.randrange(4))),
        )
    elif kind == 6:
        tensor.data = chance.randbytes(chance.choice((0, 1, 4, 16, 64)))
    elif kind == 7:
        tensor.variable = not tensor.variable
    elif kind == 8:
        subgraph.ops.insert(chance.randrange(len(subgraph.ops) + 1), copy.deepcopy(op))
    elif kind == 9:
        ends = tuple(chance.randrange(-1, len(subgraph.tensors) + 1) for _ in range(chance.randrange(4)))
        subgraph.inputs, subgraph.outputs = (ends, subgraph.outputs) if chance.random() < 0.5 else (ends, ends)
    elif kind == 10:
        name = chance.choice(("edgemem.plan", "OfflineMemoryAllocation", "model_control_dependencies"))
        words = [chance.choice((0, 1, 2, 9, -1, edge(chance, 2**31 - 1))) for _ in range(chance.randrange(16))]
        model.metadata[name] = struct.pack(f"<{len(words)}i", *words)
    else:
        tensor.signature = tuple(chance.choice((-1, 0, 4, 2**31 - 1)) for _ in range(chance.randrange(4)))


def _mutate(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if chance.random() < 0.5:
        return mutate_bytes(chance, data, others)

    def changed() -> bytes:
        model = copy.deepcopy(chance.choice(_SEEDS))
        for _ in range(chance.choice((1, 1, 2, 4))):
            _change(model, chance)
        built = build(model)
        return built if chance.random() < 0.8 else mutate_bytes(chance, built, others, 1)

    return reread(changed, mutate_bytes(chance, data, others))


TARGET = Target(_run, lambda: [*map(build, _SEEDS), PLANNED], _mutate)
