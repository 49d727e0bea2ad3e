"""What a budget costs in training: rematerialisation under several policies beside `torch.utils.checkpoint`.

    python tests/bench/training/remat.py [NAME ...] [--budget 0.9 0.5] [--policy coop dtr dte] [--rounds 5] [--small]

Each way of training has a model of its own, trained with SGD and momentum; the ways take turns in one process. Budgets
are shares of the peak that the allocator of `edgemem.torch.rematerialize` measures without a budget, or of the one that
a step with checkpoints has there (`checkpoint`). Gradients, parameters and running statistics have to be those of plain
PyTorch, bit for bit; only running statistics of a step with checkpoints may differ: PyTorch updates them twice.

With `--process` each way runs in a process of its own, and the table has the rise of its resident memory over what was
resident before the first step under the budget, as Linux measures it.

`time` is the median step over the one of plain PyTorch, `recomputed` the seconds of operators that ran again over the
seconds of a step of plain PyTorch, `free` the share of the budget that is free when something is evicted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

import torch

import edgemem.torch
from edgemem.errors import BudgetExceededError
from edgemem.system.process_memory import begin_peak, peak_bytes, resident_bytes
from tests.bench.serving.checks import Checks
from tests.torch.steps import NAMES, Step, make_step
from tests.torch.training import bits

if TYPE_CHECKING:
    from collections.abc import Sequence

MIB = 1 << 20
BUDGETS = (0.9, 0.8, 0.7, 0.6, 0.5)
POLICIES = ("coop", "dtr", "dte")


@dataclass
class Way:
    """A model that is trained in one way.

    Attributes:
        label: of the table.
        step: the model and its batch.
        policy: None for plain PyTorch.
        budget: in bytes; None for no budget.
        seconds: of each round.
        stats: of the last round.
        refused: why a round did not fit.
    """

    label: str
    step: Step
    policy: str | None = None
    budget: int | None = None
    seconds: list[float] = field(default_factory=list)
    stats: Any = None
    refused: str = ""

    def __post_init__(self) -> None:
        self.optimizer = torch.optim.SGD(self.step.model.parameters(), 0.01, momentum=0.9)
        self._train(0)  # gradients and the state of the optimizer are there before the first round

    def turn(self, number: int) -> None:
        """One step."""
        if self.refused:
            return
        memory = (
            nullcontext()
            if self.policy is None
            else edgemem.torch.rematerialize(budget=self.budget, policy=self.policy)
        )
        began = time.perf_counter()
        try:
            with memory:
                self._train(number)
        except BudgetExceededError as e:
            self.refused = str(e)
            return
        self.seconds.append(time.perf_counter() - began)
        self.stats = getattr(memory, "stats", None)

    def result(self, *, buffers: bool = True) -> list[bytes]:
        """Gradients, parameters and buffers."""
        model = self.step.model
        return bits([*self.step.gradients(), *model.parameters(), *(model.buffers() if buffers else ())])

    def _train(self, number: int) -> None:
        torch.manual_seed(number)
        self.optimizer.zero_grad()
        self.step.loss()
        self.optimizer.step()


def measured(name: str, args: argparse.Namespace, checks: Checks) -> None:
    """Print the table of a model and check it."""
    plain, watched = (
        Way("plain", make_step(name, small=args.small)),
        Way("no budget", make_step(name, small=args.small)),
    )
    watched.policy = "coop"
    saved = Way("checkpoint", make_step(name, small=args.small).checkpointed(), "coop")
    watched.turn(1)
    saved.turn(1)
    plain.turn(1)
    peak, peak_saved = watched.stats.peak, saved.stats.peak
    budgets = [(f"{share:g}", int(share * peak)) for share in args.budget] + [("checkpoint", peak_saved)]
    ways = [
        Way(label, make_step(name, small=args.small), policy, budget)
        for label, budget in budgets
        for policy in args.policy
    ]
    for way in ways:
        way.turn(1)
    for number in range(2, args.rounds + 2):
        for way in (plain, watched, saved, *ways):
            way.turn(number)
    _print(name, (plain, watched, saved, *ways))
    expected = plain.result()
    checks.holds(f"{name} without a budget: gradients", watched.result() == expected)
    checks.holds(f"{name} with checkpoints: gradients", saved.result(buffers=False) == plain.result(buffers=False))
    for way in ways:
        about = f"{name} {way.label} {way.policy}"
        checks.holds(f"{about}: fits", not way.refused, way.refused)
        if not way.refused:
            checks.holds(f"{about}: gradients", way.result() == expected)
            checks.at_most(f"{about}: peak over budget", way.stats.peak / (way.budget or 1), 1.0)


def _print(name: str, ways: Sequence[Way]) -> None:
    plain = median(ways[0].seconds)
    print(f"\n{name}: a step of PyTorch takes {plain * 1e3:.1f} ms")
    print(f"{'budget':>10} {'policy':>15} {'peak MiB':>9} {'time':>7} {'recomputed':>10} {'evictions':>9} {'free':>6}")
    for way in ways[1:]:
        if way.refused:
            print(f"{way.label:>10} {way.policy:>15} does not fit")
            continue
        stats = way.stats
        print(
            f"{way.label:>10} {way.policy if way.budget else '':>15} {stats.peak / MIB:9.2f} "
            f"{median(way.seconds) / plain:6.2f}x {100 * stats.recomputed_seconds / plain:9.1f}% {stats.evictions:9} "
            f"{100 * stats.fragmentation:5.1f}%",
            flush=True,
        )


def rise(name: str, args: argparse.Namespace) -> None:
    """In a process of its own: print how far a way's resident memory rose in some steps, and its peak in the pool."""
    policy = None if args.child == "plain" else args.child
    way = Way("", make_step(name, small=args.small), policy, args.bytes)
    before = resident_bytes() or 0
    begin_peak()
    for number in range(1, 4):
        way.turn(number)
    if way.refused:
        sys.exit(way.refused)
    print((peak_bytes() or 0) - before, way.stats.peak if way.stats else 0)


def compare_processes(name: str, args: argparse.Namespace) -> None:
    """Print the rise of the resident memory of each way."""

    def run(policy: str, budget: int | None = None) -> list[int] | str:
        command = [sys.executable, __file__, name, "--child", policy, *(["--small"] if args.small else [])]
        command += [] if budget is None else ["--bytes", str(budget)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return [int(n) for n in done.stdout.split()] or done.stderr.splitlines()[-1]

    plain, watched = run("plain"), run("coop")
    assert not isinstance(plain, str), plain
    assert not isinstance(watched, str), watched
    print(
        f"\n{name}: resident memory rises by {plain[0] / MIB:.1f} MiB in plain PyTorch, "
        f"by {watched[0] / MIB:.1f} MiB without a budget, where the peak is {watched[1] / MIB:.1f} MiB"
    )
    for share in args.budget:
        budget = int(share * watched[1])
        for policy in args.policy:
            found = run(policy, budget)
            said = found if isinstance(found, str) else f"{found[0] / MIB:.1f} MiB"
            print(f"  {policy} within {budget / MIB:.1f} MiB: {said}", flush=True)


def main() -> None:
    """Print the tables and check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", default=NAMES)
    parser.add_argument("--budget", type=float, nargs="+", default=BUDGETS)
    parser.add_argument("--policy", nargs="+", default=POLICIES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="models of the tests")
    parser.add_argument("--process", action="store_true", help="compare the resident memory of processes")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()

    torch.set_num_threads(1)
    if args.child:
        rise(args.name[0], args)
        return
    if args.process:
        for name in args.name:
            compare_processes(name, args)
        return
    checks = Checks()
    for name in args.name:
        measured(name, args, checks)
    checks.end()


if __name__ == "__main__":
    main()
