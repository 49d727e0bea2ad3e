"""Places that are proved on LiteRT's own operators: what the planner makes is right, and what passes runs right."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.runtime.litert.arena_layout import ArenaLayout
from edgemem.runtime.litert.rehearsal import wrong_places
from edgemem.runtime.litert.structure import structure_of
from edgemem.runtime.memory import Origin
from tests.runtime.litert_models import MODELS
from tests.runtime.test_interpreter import BOUND, BUILTIN, allocated, run, same, small
from tests.runtime.test_litert import fetched
from tests.tflite_models import ADD_OPTIONS, M, O, S, T, build, floats

pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import Interpreter as LiteRT

from edgemem.runtime.litert.interpreter import Interpreter

if TYPE_CHECKING:
    from edgemem.runtime.litert.structure import Structure

_SHAPES = ((64,), (16, 4), (4, 16))
Places = tuple[tuple[int, int, int], ...]


def views() -> bytes:
    """Views of a view, operators in place, and one that reads a short row again for every row."""
    shapes = {"x": (4, 16), "a": (4, 16), "flat": (64,), "tall": (16, 4), "b": (16, 4), "back": (4, 16), "y": (4, 16)}
    tensors = [T(name, shape=shape) for name, shape in shapes.items()]
    tensors += [T("row", shape=(16,), data=floats(*range(16))), T("z", shape=(4, 16))]
    tensors += [T(f"to{n}", "int32", (len(s),), data=np.array(s, "<i4").tobytes()) for n, s in enumerate(_SHAPES)]
    ops = [O("ADD", (0, 7), (1,), ADD_OPTIONS), O("RESHAPE", (1, 9), (2,)), O("RESHAPE", (2, 10), (3,))]
    ops += [O("ABS", (3,), (4,)), O("RESHAPE", (4, 11), (5,)), O("SUB", (5, 1), (6,), (28, (0,)))]
    ops.append(O("ADD", (6, 7), (8,), ADD_OPTIONS))
    return build(M([S(tensors, ops, (0,), (8,))]))


def rows() -> bytes:
    """Two halves of a tensor are cut out, changed and put together again; one is a result, too."""
    numbers = {"top": (0, 0, 0), "below": (0, 4, 0), "half": (1, 4, 16)}
    whole, half = (1, 8, 16), (1, 4, 16)
    tensors = [T("x", shape=whole), T("a", shape=whole), T("s", shape=half), T("t", shape=half)]
    tensors += [T("u", shape=half), T("v", shape=half), T("w", shape=whole), T("y", shape=whole)]
    tensors += [T(n, "int32", (3,), data=np.array(v, "<i4").tobytes()) for n, v in numbers.items()]
    ops = [O("ABS", (0,), (1,)), O("SLICE", (1, 8, 10), (2,)), O("SLICE", (1, 9, 10), (3,)), O("NEG", (2,), (4,))]
    ops += [O("ABS", (3,), (5,)), O("CONCATENATION", (4, 5), (6,), (10, (1, 0))), O("NEG", (6,), (7,))]
    return build(M([S(tensors, ops, (0,), (7, 5))]))


def test_slices_and_pieces_may_lie_in_their_places() -> None:
    """x is overwritten by a, which is cut and put together where it lies; a piece elsewhere is copied."""
    data = rows()
    bound = allocated(Interpreter, data, **BUILTIN)
    known = structure(bound)
    slots = [(s.piece, s.whole, s.delta) for op in known.operators for s in op.slots]
    assert slots == [(2, 1, 0), (3, 1, 256), (4, 6, 0), (5, 6, 256)]
    sizes = {i: size for i, _, size in bound.layout.places}
    expected = run(allocated(LiteRT, data, **BUILTIN))
    inside = {0: 512, 1: 0, 2: 0, 3: 256, 4: 0, 5: 256, 6: 0, 7: 512}
    for offsets, size, wrong in (
        (inside, 1024, ""),
        ({**inside, 5: 1024}, 1280, ""),
        ({**inside, 4: 64}, 1024, "overwritten|lies on"),
        ({**inside, 2: 64}, 1024, "lies on"),
        ({**inside, 4: 256}, 1024, "overwritten|lies on"),
        ({**inside, 7: 256}, 1024, "overwritten|lies on"),
    ):
        places = tuple((i, offset, sizes[i]) for i, offset in offsets.items())
        found = wrong_places(known, places, size, inputs_kept=False)
        assert re.search(wrong, found) if wrong else found == ""
        # 7 at 256 lies on an output; the other wrong ones lose what is read again.
        assert same(run_at(data, places, size), expected) is not bool(wrong)


def structure(bound: Any) -> Structure:
    delegate = bound.delegate
    return structure_of(bound._interpreter._native, delegate, delegate.read())


def run_at(data: bytes, places: Places, size: int) -> list[Any]:
    bound = allocated(Interpreter, data, poison=True, **BUILTIN)
    layout = ArenaLayout(places, size, None, Origin("given", "test", "test"))
    delegate = bound.delegate
    bound._interpreter.place = lambda *_: (layout, delegate.read())
    bound.allocate_tensors()
    return run(bound)


@pytest.mark.full
@pytest.mark.parametrize("name", BOUND)
@pytest.mark.parametrize("inputs", ["keep", "release"])
def test_what_the_planner_makes_is_right(name: str, inputs: Any) -> None:
    bound = allocated(Interpreter, fetched(name), inputs=inputs, **BUILTIN)
    layout = bound.layout
    assert wrong_places(structure(bound), layout.places, layout.size, inputs_kept=inputs == "keep") == ""


@pytest.mark.full
@pytest.mark.parametrize("model", [small, views, rows, MODELS["many"]], ids=["small", "views", "rows", "many"])
def test_whatever_passes_computes_the_same(model: Any) -> None:
    data = model()
    bound = allocated(Interpreter, data, **BUILTIN)
    expected = run(allocated(LiteRT, data, **BUILTIN))
    known, layout = structure(bound), bound.layout
    random = np.random.default_rng(5)
    passed = refused = different = 0
    for _ in range(300):
        places = list(layout.places)
        for k in random.choice(len(places), random.integers(1, 3), replace=False):
            index, _, size = places[k]
            other = places[random.integers(len(places))]
            places[k] = (index, int(other[1] + 64 * random.integers(0, 4)), size)
        end = max(offset + size for _, offset, size in places)
        if wrong_places(known, places, end, inputs_kept=True):
            refused += 1
            if refused % 10 == 0:
                different += not same(run_at(data, tuple(places), end), expected)
        else:
            passed += 1
            assert same(run_at(data, tuple(places), end), expected), places
    assert passed > 10
    assert refused > 10
    assert different > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p[1:], "has no place"),
        (lambda p: [*p, p[0]], "no place or two"),
        (lambda p: [(p[0][0], p[0][1] + 4, p[0][2]), *p[1:]], "is at"),
        (lambda p: [(p[0][0], -64, p[0][2]), *p[1:]], "is at"),
        (lambda p: [(p[0][0], 1 << 40, p[0][2]), *p[1:]], "is at"),
        (lambda p: [(p[0][0], p[0][1], p[0][2] + 4), *p[1:]], "in the plan"),
        (lambda p: [(99, 0, 16), *p], "no place or two"),
        (lambda p: [(i, 0, s) for i, _, s in p], "overwritten|lies on"),
    ],
)
def test_wrong_places_are_named(change: Any, message: str) -> None:
    bound = allocated(Interpreter, small(), **BUILTIN)
    layout = bound.layout
    assert re.search(
        message, wrong_places(structure(bound), change(list(layout.places)), layout.size, inputs_kept=True)
    )
    assert "end to end" in wrong_places(structure(bound), layout.places, 1 << 30, inputs_kept=True)


@pytest.mark.full
def test_an_input_that_is_kept_is_not_overwritten() -> None:
    bound = allocated(Interpreter, fetched("mp_iris_landmark"), inputs="release", **BUILTIN)
    layout, known = bound.layout, structure(bound)
    assert wrong_places(known, layout.places, layout.size, inputs_kept=False) == ""
    assert "overwritten" in wrong_places(known, layout.places, layout.size, inputs_kept=True)
    other = replace(known, outputs=known.inputs)
    assert "overwritten" in wrong_places(other, layout.places, layout.size, inputs_kept=False)
