"""The pool that serves runs without a plan gives its pages back once no run without one is left, in every order."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING

import onnx
import pytest
from onnx import TensorProto, helper

from edgemem.replay.arena import Arena
from edgemem.replay.library import library
from edgemem.replay.worker import worker
from edgemem.trace.recording import Signature
from tests.runtime.test_replay_families import Program, blocks
from tests.runtime.test_replay_threads import sharing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

MEBIBYTE = 1 << 20
SIGNATURE = Signature("run", (("x", "float", ()),))
# Both pause while everything that they took last is in use.
SMALL = [MEBIBYTE, 2 * MEBIBYTE, -1, MEBIBYTE, 0, -2, -3]
LARGE = [2 * MEBIBYTE, 4 * MEBIBYTE, -1, 2 * MEBIBYTE, 0, -2, -3]
LEFT = 64 << 10  # bytes of pages at the ends of blocks


@pytest.fixture(autouse=True)
def _trimmed() -> None:
    assert worker().wait(30)
    library().trim()


def run(program: Program, call: Callable[[], object]) -> None:
    program.replayer.run(program.replayer.family(SIGNATURE), lambda: SIGNATURE, call)


def is_given_back() -> bool:
    """Whether the pool keeps no pages: nothing is left for a trim."""
    assert worker().wait(30)
    return library().trim() <= LEFT


class Held:
    """A run on a thread of its own that pauses inside until `end`."""

    def __init__(self, program: Program, events: Sequence[int], *, fails: bool = False) -> None:
        self._pauses, self._may_end = threading.Event(), threading.Event()

        def call() -> None:
            blocks(events, self._pause)
            if fails:
                raise ZeroDivisionError

        def work() -> None:
            with suppress(ZeroDivisionError):
                run(program, call)

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()
        assert self._pauses.wait(20)

    def _pause(self) -> None:
        self._pauses.set()
        assert self._may_end.wait(20)

    def end(self) -> None:
        self._may_end.set()
        self._thread.join(20)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_first_runs_that_overlap_leave_no_pages_behind(order: Sequence[int]) -> None:
    """Run 0 is recorded; its plan is ready before the next one ends."""
    program = Program(background=True, most_arenas=4)
    runs = [Held(program, SMALL) for _ in range(4)]
    for number in order:
        runs[number].end()
        assert worker().wait(30)
    assert is_given_back()
    run(program, partial(blocks, SMALL))
    assert program.state[:2] == ("replay", 1)


def test_a_run_that_fails_inside_the_pool_leaves_no_pages_behind() -> None:
    program = Program(background=True)
    first, second = Held(program, SMALL), Held(program, SMALL, fails=True)
    first.end()
    assert worker().wait(30)
    second.end()
    assert is_given_back()


@pytest.mark.parametrize("is_shared", [False, True])
def test_runs_that_do_not_fit_leave_no_pages_behind(is_shared: bool) -> None:
    """Two larger runs in the old plan, which the pool serves for the most part, while the new plan is made."""
    program = sharing(Arena(), background=True) if is_shared else Program(background=True, most_arenas=2)
    run(program, partial(blocks, SMALL))
    assert worker().wait(30)
    run(program, partial(blocks, LARGE))  # from now on, larger runs are recorded
    recorded = Held(program, LARGE)
    other = None if is_shared else Held(program, LARGE)  # runs in a shared arena take turns
    recorded.end()
    assert worker().wait(30)
    if other is not None:
        other.end()
    assert is_given_back()
    run(program, partial(blocks, LARGE))
    assert program.state[1] == 1


def test_a_run_with_another_number_of_requests_leaves_no_pages_behind() -> None:
    """Its old plan stays beside the new one."""
    program = Program(background=True, most_arenas=2)
    run(program, partial(blocks, SMALL))
    assert worker().wait(30)
    longer = [*LARGE[:4], 2 * MEBIBYTE, 0, -2, -3, -4]
    run(program, partial(blocks, longer))
    recorded, other = Held(program, longer), Held(program, longer)
    recorded.end()
    assert worker().wait(30)
    other.end()
    assert is_given_back()


def test_without_a_plan_the_pool_keeps_its_pages_for_the_next_run() -> None:
    program = Program(record="never")
    for _ in range(2):
        run(program, partial(blocks, SMALL))
    assert library().trim() >= MEBIBYTE


def chain(path: Path) -> Path:
    """16 operators on 4 MiB each; every other tensor stays until the end."""
    size = 1 << 20
    nodes, kept = [], ["x"]
    for k in range(8):
        nodes.append(helper.make_node("Sin", [kept[-1]], [f"a{k}"]))
        kept.append(f"a{k}")
    total = kept[0]
    for k, name in enumerate(kept[:0:-1]):
        nodes.append(helper.make_node("Add", [total, name], [f"b{k}"]))
        total = f"b{k}"
    nodes.append(helper.make_node("ReduceMax", [total], ["y"], keepdims=0))
    value = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size])]
    result = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])]
    model = helper.make_model(
        helper.make_graph(nodes, "chain", value, result), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, path)
    return path


BURST = """
import json, sys, threading
import numpy as np, onnxruntime
import edgemem
from edgemem.system.process_memory import resident_bytes
from edgemem.replay.library import library
path, warm = sys.argv[1], sys.argv[2] == "warm"
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = edgemem.InferenceSession(path, options, cache=False, most_arenas=2)
feeds = {"x": np.zeros(1 << 20, np.float32)}
before = resident_bytes()
if warm:
    session.warm_up(feeds)
work = lambda: [session.run(None, feeds) for _ in range(2)]
for count in (4, 2):
    threads = [threading.Thread(target=work) for _ in range(count)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    session.wait()
grown = resident_bytes() - before
print(json.dumps([grown, library().trim(), session.memory.planned, session.memory.replayed]))
"""


@pytest.mark.full
def test_a_process_grows_as_after_a_warm_up_when_its_first_runs_overlap(tmp_path: Path) -> None:
    path = chain(tmp_path / "chain.onnx")
    figures = {}
    for way in ("warm", "cold"):
        done = subprocess.run(
            [sys.executable, "-c", BURST, str(path), way], capture_output=True, text=True, check=True, timeout=120
        )
        figures[way] = json.loads(done.stdout)
        grown, kept, planned, replayed = figures[way]
        assert kept <= MEBIBYTE  # the pool's pages
        assert replayed
        assert grown <= 2 * planned + 16 * MEBIBYTE  # of two arenas
    assert figures["cold"][0] <= figures["warm"][0] + 10 * MEBIBYTE
