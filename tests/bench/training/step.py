"""What training inside a plan costs and saves: the time of a step, and the memory of the process.

python tests/bench/training/step.py [--steps 10] [--rounds 8] [--threads 1] [--quick] [NAME ...]

Time: two equal models train in one process, one inside a plan and one in plain PyTorch; they take turns of some steps,
and which goes first changes with each round. The ratio is the median over rounds of the ratio of their median steps.
Memory: the same training in a process for each way; the peak of its resident memory, and how far it rose above what was
resident after the first steps.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

import torch
from torch.nn import functional

import edgemem.torch
from edgemem.system.process_memory import begin_peak, peak_bytes, resident_bytes
from tests.bench.serving.checks import Checks
from tests.torch.networks import Gpt, MixtureOfExperts, ResNet18

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_TIME = 1.03  # of PyTorch's time
MOST_ARENA = 1.01  # of the lower bound
MIB = 1 << 20


def _images(model: Any, batch: int, side: int) -> Any:
    return model, torch.randn(batch, 3, side, side), torch.randint(0, 10, (batch,))


def _words(model: Any, batch: int, length: int) -> Any:
    words = torch.randint(0, 50, (batch, length + 1))
    return model, words[:, :-1].clone(), words[:, 1:].reshape(-1)


SUBJECTS: dict[str, Callable[[], Any]] = {
    "resnet18": lambda: _images(ResNet18(width=32), 16, 64),
    "gpt": lambda: _words(Gpt(layers=4, width=256), 32, 16),
    "experts": lambda: _words(MixtureOfExperts(layers=4, width=256), 32, 16),
}
SMALL: dict[str, Callable[[], Any]] = {
    "resnet18": lambda: _images(ResNet18(), 2, 32),
    "gpt": lambda: _words(Gpt(), 2, 16),
    "experts": lambda: _words(MixtureOfExperts(), 2, 16),
}


def step_of(name: str, kind: str, *, small: bool) -> tuple[Any, Callable[[], None]]:
    """The model, and a step that trains it on one batch again and again."""
    torch.manual_seed(0)
    model, given, target = (SMALL if small else SUBJECTS)[name]()
    make: Any = torch.optim.Adam if kind == "adam" else torch.optim.SGD
    optimizer = make(model.parameters(), 1e-3)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(given), target).backward()
        optimizer.step()

    return model, step


def planned(model: Any, step: Callable[[], None]) -> edgemem.torch.TrainingPlan:
    """The plan of a step; the experts of a model that has some are dynamic."""
    if isinstance(model, MixtureOfExperts):
        edgemem.torch.mark(model, dynamic=("*.experts",))
    return edgemem.torch.profile(step).plan()


def times(step: Callable[[], None], steps: int, session: edgemem.torch.Session | None) -> float:
    """Seconds of the median step among some; the first one is left out."""
    found = []
    with session or nullcontext():
        for _ in range(steps + 1):
            with session.iteration() if session else nullcontext():
                began = time.perf_counter()
                step()
                found.append(time.perf_counter() - began)
    return median(found[1:])


def compare_times(name: str, kind: str, args: argparse.Namespace, checks: Checks) -> None:
    """Print the times of both ways and check their ratio."""
    _, plain = step_of(name, kind, small=args.quick)
    model, inside = step_of(name, kind, small=args.quick)
    plan = planned(model, inside)
    for _ in range(7):  # as many as the profile has run
        plain()
    ratios, seconds = [], []
    for k in range(args.rounds):
        if k % 2:
            b, a = times(inside, args.steps, plan.session()), times(plain, args.steps, None)
        else:
            a, b = times(plain, args.steps, None), times(inside, args.steps, plan.session())
        ratios.append(b / a)
        seconds.append((a, b))
    a, b = (median(column) for column in zip(*seconds, strict=True))
    print(f"{name} {kind}: PyTorch {a * 1e3:.2f} ms, inside the plan {b * 1e3:.2f} ms a step")
    checks.at_most(f"{name} {kind}: time of a step", median(ratios), MOST_TIME)
    checks.at_most(f"{name} {kind}: arena over lower bound", (plan.size - plan.room) / plan.lower_bound, MOST_ARENA)


def memory_of(name: str, kind: str, way: str, *, small: bool) -> None:
    """In a process of its own: print the peak of resident memory, and its rise, in bytes."""
    model, step = step_of(name, kind, small=small)
    for _ in range(3):
        step()
    before = resident_bytes() or 0
    if way == "planned":
        with planned(model, step).session() as session:
            step_inside(step, session)
            begin_peak()
            for _ in range(10):
                step_inside(step, session)
            peak = peak_bytes() or 0
    else:
        for _ in range(8):
            step()
        begin_peak()
        for _ in range(10):
            step()
        peak = peak_bytes() or 0
    print(peak, peak - before)


def step_inside(step: Callable[[], None], session: edgemem.torch.Session) -> None:
    """One iteration."""
    with session.iteration():
        step()


def compare_memory(name: str, kind: str, args: argparse.Namespace) -> None:
    """Print the peaks of both ways."""
    peaks = {}
    for way in ("plain", "planned"):
        command = [sys.executable, __file__, "--child", way, "--optimizers", kind, "--threads", str(args.threads)]
        done = subprocess.run(
            [*command, *(["--quick"] if args.quick else []), name], capture_output=True, text=True, check=True
        )
        peaks[way] = [int(n) for n in done.stdout.split()]
    (a, rise_a), (b, rise_b) = peaks["plain"], peaks["planned"]
    print(
        f"{name} {kind}: peak of the process, PyTorch {a / MIB:.1f} MiB (rise {rise_a / MIB:.1f}), "
        f"inside the plan {b / MIB:.1f} MiB (rise {rise_b / MIB:.1f}), ratio {b / a:.3f}"
    )


def main() -> None:
    """Print both measurements of every model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--optimizers", nargs="+", default=["sgd", "adam"], choices=["sgd", "adam"])
    parser.add_argument("--steps", type=int, default=10, help="of a turn")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each way")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--child", choices=["plain", "planned"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.child:
        memory_of(args.name[0], args.optimizers[0], args.child, small=args.quick)
        return
    checks = Checks()
    for name in args.name or SUBJECTS:
        for kind in args.optimizers:
            compare_times(name, kind, args, checks)
            compare_memory(name, kind, args)
    checks.end()


if __name__ == "__main__":
    main()
