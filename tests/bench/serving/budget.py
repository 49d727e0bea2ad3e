"""A session with a cap and an idle time, under many runs: nothing lost, nothing wrong, memory back after each pause.

python tests/bench/serving/budget.py [--runs 200000] [--pauses 20] [--threads 8] [--quick]

Threads run three layers of 128 numbers, which take little time, at batches that are drawn anew for each run, in a
session whose cap is what two runs of the largest batch need. Between the bursts all of them pause for twice the idle
time. Every result is compared with ONNX Runtime's; the resident memory is read at the end of each pause, and what the
allocator holds during the runs.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgemem.errors import BudgetExceededError
from edgemem.replay.library import library
from tests.bench.serving import readings, sessions, subjects
from tests.bench.serving.checks import Checks

BATCHES = (16, 32, 48, 64, 96, 128)
TOO_LARGE = 1024
WIDTH = 128
IDLE_S = 0.5
FLOOR_MIB = 4.0  # that the memory after a pause may be above that after the first


def layers(folder: Path) -> Path:
    """A model whose activations are most of its memory."""
    weights = np.random.default_rng(0).standard_normal((WIDTH, WIDTH)).astype(np.float32)
    nodes, last = [], "x"
    for k in range(3):
        nodes += [helper.make_node("MatMul", [last, "w"], [f"m{k}"]), helper.make_node("Tanh", [f"m{k}"], [f"t{k}"])]
        nodes.append(helper.make_node("Add", [f"m{k}", f"t{k}"], [f"a{k}"]))
        last = f"a{k}"
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH])] for name in ("x", last)
    )
    graph = helper.make_graph(nodes, "layers", inputs, outputs, [numpy_helper.from_array(weights, "w")])
    path = folder / "layers.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


class Burst:
    """Runs on several threads at once."""

    def __init__(self, session: Any, feeds: dict[int, sessions.Feeds], expected: dict[int, Any], before: int) -> None:
        self._session, self._feeds, self._expected, self._before = session, feeds, expected, before
        self.runs = self.wrong = self.refused = self.most = 0
        self.errors: list[str] = []
        self._lock = threading.Lock()

    def run(self, threads: int, each: int, seed: int) -> None:
        """So many runs on each thread; one of 200 is too large and has to be refused."""
        workers = [threading.Thread(target=self._work, args=(each, seed * threads + k)) for k in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def _work(self, count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        wrong = refused = most = 0
        for _ in range(count):
            batch = TOO_LARGE if rng.random() < 1 / 200 else int(rng.choice(BATCHES))
            try:
                found = self._session.run(None, self._feeds[batch])
                wrong += not sessions.same(found, self._expected[batch])
                del found
            except BudgetExceededError:
                refused += 1
                wrong += batch != TOO_LARGE
            except Exception as error:  # noqa: BLE001 - told at the end
                self.errors.append(repr(error))
            totals = library().totals()
            most = max(most, totals.arena_bytes + totals.heap_live - self._before)
        with self._lock:
            self.runs, self.wrong, self.refused = self.runs + count, self.wrong + wrong, self.refused + refused
            self.most = max(self.most, most)


def main() -> None:
    """Print what holds."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("--runs", type=int, default=200_000)
    parser.add_argument("--pauses", type=int, default=20)
    parser.add_argument("--threads", type=int, default=8)
    args = parser.parse_args()
    if args.quick:
        args.runs, args.pauses, args.threads = 400, 2, 4
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        path = layers(Path(folder))
        plain = sessions.plain(path)
        feeds = {n: sessions.feeds_for(plain, {"batch": n}, seed=n) for n in (*BATCHES, TOO_LARGE)}
        expected = {n: plain.run(None, feeds[n]) for n in BATCHES}
        with sessions.planned(path, cache=False, background=False) as free:
            for n in (BATCHES[-1], BATCHES[-1]):
                free.run(None, feeds[n])
            cap = 2 * free.memory.peak + (1 << 16)
        before = library().totals()
        start = before.arena_bytes + before.heap_live
        with sessions.planned(path, cache=False, max_bytes=cap, idle_seconds=IDLE_S) as session:
            burst = Burst(session, feeds, expected, start)
            floors = []
            began = time.perf_counter()
            for k in range(args.pauses):
                burst.run(args.threads, args.runs // args.pauses // args.threads, k)
                time.sleep(2 * IDLE_S)
                floors.append(readings.resident() / 2**20)
                checks.at_most(f"pause {k + 1}: MiB of arenas", session.memory.arena / 2**20, 0)
            seconds = time.perf_counter() - began - args.pauses * 2 * IDLE_S
            memory = session.memory
        print(f"{burst.runs:,} runs, {burst.runs / seconds:,.0f} a second, {burst.refused} refused, cap {cap:,} bytes")
        print(f"{memory.replayed:,} replayed whole, {memory.bails} deviated, {memory.replans} plans made anew")
        print("MiB resident after the pauses: " + " ".join(f"{size:.1f}" for size in floors))
        checks.holds("no run wrong", not burst.wrong, f"{burst.wrong} wrong")
        checks.holds("no run lost", not burst.errors, "; ".join(burst.errors[:3]))
        checks.at_most("most bytes held / cap", burst.most / cap, 1.0)
        checks.at_most("MiB after the last pause above the first", floors[-1] - floors[0], FLOOR_MIB)
        after = library().totals()
        left = after.arena_bytes + after.heap_live - start
        checks.at_most("bytes that the session leaves", float(left), 0)
    checks.end()


if __name__ == "__main__":
    main()
