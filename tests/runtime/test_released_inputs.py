"""LiteRT inside a plan that uses the memory of inputs again: no run reads an input that was not set since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from edgemem import api, planfile
from edgemem.errors import RuntimeBindError
from edgemem.replay.arena import Arena
from edgemem.runtime.litert.interpreter import Interpreter
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.test_interpreter import BUILTIN
from tests.tflite_models import ADD_OPTIONS, M, O, S, T, build

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 1024
GIVEN = [np.full((1, SIZE), value, np.float32) for value in (1, 2)]


def _file() -> bytes:
    """y = exp(a + b) + exp(a + b), whose results lie where a and b were."""
    tensors = [T(n, shape=(1, SIZE)) for n in "abcdy"]
    ops = [O("ADD", (0, 1), (2,), ADD_OPTIONS), O("EXP", (2,), (3,)), O("ADD", (3, 3), (4,), ADD_OPTIONS)]
    data = build(M([S(tensors, ops, (0, 1), (4,))]))
    model = TfliteConverter.from_bytes(data)
    planset = api.plan(model, target="litert-release")
    return model.with_plan(planfile.encode(planset), planset).content()


def _made(**options: Any) -> Any:
    made = Interpreter(model_content=_file(), **options, **BUILTIN)
    made.allocate_tensors()
    return made


def _run(one: Any, values: list[Any] = GIVEN) -> float:
    for index, value in enumerate(values):
        one.set_tensor(index, value)
    one.invoke()
    return float(one.get_tensor(4)[0, 0])


def _again(one: Any) -> None:
    one.invoke()


def _read_views(one: Any) -> None:
    assert one.tensor(0)().shape == one.tensor(1)().shape
    one.invoke()


def _allocate(one: Any) -> None:
    one.allocate_tensors()
    one.invoke()


def _read(one: Any) -> None:
    one.get_tensor(0)


@pytest.mark.parametrize("act", [_again, _read_views, _allocate, _read])
def test_inputs_that_were_used_are_neither_run_nor_read(act: Callable[[Any], None]) -> None:
    one = _made()
    wanted = float(2 * np.exp(np.float32(3)))
    assert _run(one) == pytest.approx(wanted)
    with pytest.raises(RuntimeBindError, match="was not set since its memory was used"):
        act(one)
    assert _run(one) == pytest.approx(wanted)


@pytest.mark.parametrize("options", [{}, {"plan": "make", "inputs": "keep"}])
@pytest.mark.parametrize("ran", [False, True])
def test_after_another_interpreters_turn_all_inputs_are_set(options: dict[str, Any], *, ran: bool) -> None:
    arena = Arena()
    one, other = _made(arena=arena, **options), _made(arena=arena, **options)
    if ran:
        _run(one)
    else:
        one.set_tensor(0, GIVEN[0])
        one.set_tensor(1, GIVEN[1])
    _run(other, [3 * value for value in GIVEN])
    one.set_tensor(0, GIVEN[0])
    with pytest.raises(RuntimeBindError, match="input 1 was not set since its memory was used"):
        one.invoke()
    assert _run(one) == pytest.approx(float(2 * np.exp(np.float32(3))))
