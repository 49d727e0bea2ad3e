"""Training on a CUDA device with PyTorch's allocator and inside a plan: losses, time, and memory of the device.

python tests/bench/training/gpu.py [--steps 30] [NAME ...]

Each way has a process of its own. Memory is what the driver says is gone from the device since before the model was
made (cudaMemGetInfo), at most, looked at after each step; PyTorch caches what it has reserved, so that this is its
peak. Allocated is the most that was alive at once (PyTorch's own count), the same in both ways. Kernels are PyTorch's
deterministic ones: others add in an order that changes from run to run, so that no two runs have the same losses.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

import torch
from torch.nn import functional

import edgemem.torch
from tests.bench.serving.checks import Checks
from tests.torch.networks import Gpt, MixtureOfExperts, ResNet18

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST_THROUGHPUT = 0.99  # of PyTorch's
MIB = 1 << 20
PROFILED = 7


def _words(model: Any, batch: int) -> tuple[Any, Any, Any]:
    words = torch.randint(0, 50, (batch, 17))
    return model, words[:, :-1].clone(), words[:, 1:].reshape(-1)


SUBJECTS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "resnet18": lambda: (ResNet18(width=64), torch.randn(128, 3, 128, 128), torch.randint(0, 10, (128,))),
    "gpt": lambda: _words(Gpt(layers=12, width=1024, heads=16), 512),
    "experts": lambda: _words(MixtureOfExperts(layers=8, width=1024, experts=8), 512),
}


def child(name: str, way: str, steps: int) -> None:
    """Train in one way; print what was measured as JSON."""
    if way == "planned":
        edgemem.torch.use_cuda_allocator()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else cuBLAS is refused as not deterministic
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # it takes time, and reads would differ without it
    torch.manual_seed(0)
    model, given, target = SUBJECTS[name]()
    torch.cuda.init()
    free = torch.cuda.mem_get_info()[0]
    model, given, target = model.cuda(), given.cuda(), target.cuda()
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    losses: list[float] = []
    taken = 0

    def step() -> None:
        nonlocal taken
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(given), target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        taken = max(taken, free - torch.cuda.mem_get_info()[0])

    found: dict[str, Any] = {}
    times = []
    if way == "planned":
        if name == "experts":
            edgemem.torch.mark(model, dynamic=("*.experts",))
        plan = edgemem.torch.profile(step, device="cuda").plan()
        taken = 0
        with plan.session() as session:
            for _ in range(steps):
                began = time.perf_counter()
                with session.iteration():
                    step()
                times.append(time.perf_counter() - began)
            stats = session.stats
        found = {
            "arena": stats.arena,
            "room": stats.room,
            "bound": stats.lower_bound,
            "hits": stats.last.hits + stats.last.dynamic_hits,
            "requests": stats.last.requests,
            "kept": stats.fallback.reserved - stats.fallback.used,
        }
    else:
        for _ in range(PROFILED):
            step()
        for _ in range(steps):
            began = time.perf_counter()
            step()
            times.append(time.perf_counter() - began)
        found = {"allocated": torch.cuda.max_memory_allocated()}
    print(json.dumps({"losses": losses, "seconds": median(times[3:]), "taken": taken, **found}))


def measured(name: str, way: str, steps: int) -> dict[str, Any]:
    """What a child has measured."""
    command = [sys.executable, __file__, "--child", way, "--steps", str(steps), name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print both ways beside each other and check the acceptance figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--child", choices=["plain", "planned"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.name[0], args.child, args.steps)
        return
    checks = Checks()
    for name in args.name or SUBJECTS:
        plain, planned = (measured(name, way, args.steps) for way in ("plain", "planned"))
        waste = [max(taken - plain["allocated"], 0) for taken in (plain["taken"], planned["taken"])]
        print(
            f"{name}: {plain['allocated'] / MIB:.0f} MiB allocated; PyTorch takes {plain['taken'] / MIB:.0f} MiB, "
            f"the plan {planned['taken'] / MIB:.0f} MiB ({planned['hits']} of {planned['requests']} requests in an "
            f"arena of {planned['arena'] / MIB:.0f} MiB, {planned['room'] / MIB:.0f} of it for dynamic requests; the "
            f"fallback keeps {planned['kept'] / MIB:.0f} MiB free); beyond what is allocated {waste[0] / MIB:.0f} and "
            f"{waste[1] / MIB:.0f} MiB; a step takes {plain['seconds'] * 1e3:.1f} and {planned['seconds'] * 1e3:.1f} ms"
        )
        checks.holds(f"{name}: losses", plain["losses"] == planned["losses"])
        checks.at_least(f"{name}: throughput", plain["seconds"] / planned["seconds"], LEAST_THROUGHPUT)
        checks.at_most(f"{name}: memory of the device", planned["taken"] / plain["taken"], 1.0)
        checks.at_most(f"{name}: arena over lower bound", (planned["arena"] - planned["room"]) / planned["bound"], 1.01)
    checks.end()


if __name__ == "__main__":
    main()
