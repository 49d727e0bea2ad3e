"""Several interpreters in one arena, by turns."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import Interpreter as LiteRT

import edgemem
from edgemem import api
from edgemem.errors import RuntimeBindError
from edgemem.replay.arena import Arena
from edgemem.runtime.litert.interpreter import Interpreter
from edgemem_converters.tflite.model import TfliteConverter
from models.build import build as build_onnx
from tests.runtime.test_cli_tflite import edgemem as command
from tests.runtime.test_interpreter import BUILTIN, allocated, run, same, small
from tests.runtime.test_litert import fetched

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.full
def test_two_interpreters_take_turns_in_one_arena() -> None:
    names = ("mp_hand_recrop", "mp_iris_landmark")
    arena = Arena()
    bound = [allocated(Interpreter, fetched(n), arena=arena, poison=True, **BUILTIN) for n in names]
    expected = [run(allocated(LiteRT, fetched(n), **BUILTIN)) for n in names]
    for _ in range(2):
        for interpreter, outputs in zip(bound, expected, strict=True):
            assert same(run(interpreter), outputs)
    assert len(arena.memory) == max(b.memory.planned for b in bound)
    with pytest.raises(RuntimeBindError, match="another interpreter has used the shared arena"):
        bound[0].get_tensor(bound[0].get_output_details()[0]["index"])
    with pytest.raises(RuntimeBindError, match="another interpreter has used the shared arena"):
        bound[0].invoke()


@pytest.mark.full
def test_a_larger_model_moves_the_arena_under_a_smaller_one() -> None:
    arena = Arena()
    first = allocated(Interpreter, small(), arena=arena, **BUILTIN)
    expected = run(first)
    before = arena.address
    second = allocated(Interpreter, fetched("mp_hand_recrop"), arena=arena, **BUILTIN)
    assert arena.address != before
    assert same(run(first), expected)
    run(second)
    assert same(run(first), expected)


def test_threads_share_an_arena_under_its_lock() -> None:
    arena = Arena()
    data = [small(), small(64)]
    expected = [run(allocated(LiteRT, d, **BUILTIN)) for d in data]
    bound = [allocated(Interpreter, d, arena=arena, **BUILTIN) for d in data]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(200):
            with arena.lock:
                if not same(run(bound[k]), expected[k]):
                    wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_arena_of_fixed_size() -> None:
    with pytest.raises(RuntimeBindError, match="needs an arena of"):
        allocated(Interpreter, small(64), arena=Arena(64), **BUILTIN)
    assert allocated(Interpreter, small(), arena=Arena(4096), **BUILTIN).memory.planned <= 4096


@pytest.mark.parametrize("other", [64, 4], ids=["the arena grows", "the arena stays"])
def test_inputs_that_another_one_s_allocation_took_are_missed(other: int) -> None:
    arena = Arena()
    first = allocated(Interpreter, small(), arena=arena, **BUILTIN)
    expected = run(first)
    output = first.tensor(4)
    first.set_tensor(0, np.ones((1, 4), "f4"))
    allocated(Interpreter, small(other), arena=arena, poison=True, **BUILTIN)
    for call in (first.invoke, output, lambda: first.get_tensor(4)):
        with pytest.raises(RuntimeBindError, match="another interpreter has used the shared arena"):
            call()
    assert same(run(first), expected)
    np.testing.assert_array_equal(output(), expected[0])


def test_size_tells_what_sessions_and_interpreters_need_together(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    tflite, plain, onnx = (tmp_path / name for name in ("a.tflite", "plain.onnx", "b.onnx"))
    model = TfliteConverter.from_bytes(small(4096))
    api.save(model, api.plan(model, target="litert", effort="fast"), tflite)
    plain.write_bytes(build_onnx("mobilenet_v2", size="small").SerializeToString(deterministic=True))
    assert command("plan", plain, "--record", "-o", onnx).exit_code == 0
    arena = Arena()
    interpreter = allocated(Interpreter, tflite.read_bytes(), arena=arena, **BUILTIN)
    run(interpreter)
    alone = arena.size
    session = edgemem.InferenceSession(str(onnx), arena=arena)
    (entry,) = session.get_inputs()
    session.run(None, {entry.name: np.zeros(entry.shape, np.float32)})
    for share, total in (("sequential", arena.size), ("interleaved", arena.size + alone)):
        made = json.loads(command("size", tflite, onnx, "--share", share, "--json").stdout)
        assert made["arena"] == total
        assert [each["name"] for each in made["models"]] == ["a.tflite", "b.onnx"]
    assert command("size", tflite, onnx, "--share", "sequential", "--runtime", "tflm").exit_code == 2
