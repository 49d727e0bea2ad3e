"""ONNX Runtime on a CUDA device with its own allocator and inside a plan: outputs, time, and memory of the device.

python tests/bench/ort_cuda.py [--runs 60] [NETWORK ...]

Each way has a process of its own; both have the convolutions that cuDNN's heuristic takes. Memory is what the driver
says is gone from the device (cudaMemGetInfo) since before the session was made, at most, looked at after each run: with
weights, and with the handles and kernels of cuBLAS and cuDNN, which both ways have. Milliseconds are medians of runs
that copy the inputs to the device and the outputs back.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))

import onnxruntime

from edgemem.replay.cuda import cuda_runtime
from edgemem.runtime.onnxruntime.cuda import CUDA
from edgemem.runtime.onnxruntime.session import InferenceSession
from models.build import build
from tests.bench.serving.checks import Checks
from tests.onnx_sessions import feeds, options

NETWORKS = ("mobilenet_v2", "resnet18", "unet", "transformer")
PROVIDERS: list[str | tuple[str, dict[str, str]]] = [
    (CUDA, {"cudnn_conv_algo_search": "HEURISTIC"}),
    "CPUExecutionProvider",
]
MIB = 1 << 20
WARM = 5  # runs: the first records, and the device compiles what it needs


def free_bytes() -> int:
    """Memory of the current device that nothing has."""
    free, whole = ctypes.c_size_t(), ctypes.c_size_t()
    assert cuda_runtime().cudaMemGetInfo(ctypes.byref(free), ctypes.byref(whole)) == 0
    return free.value


def child(name: str, way: str, runs: int) -> None:
    """Run in one way; print what was measured as JSON."""
    free = free_bytes()
    model = build(name).SerializeToString()
    session: Any
    if way == "planned":
        session = InferenceSession(model, options(), PROVIDERS, cache=False, background=False)
    else:
        session = onnxruntime.InferenceSession(model, options(), providers=PROVIDERS)
    assert session.get_providers()[0] == CUDA, session.get_providers()
    many = [feeds(session, seed=seed) for seed in range(4)]
    digest, times, taken = hashlib.sha256(), [], 0
    for k in range(WARM + runs):
        began = time.perf_counter()
        found = session.run(None, many[k % len(many)])
        times.append((time.perf_counter() - began) * 1e3)
        taken = max(taken, free - free_bytes())
        for value in found:
            digest.update(value.tobytes())
    about: dict[str, Any] = {"ms": median(times[WARM:]), "taken": taken, "outputs": digest.hexdigest()}
    if way == "planned":
        memory = session.memory
        held = free_bytes()
        session.trim()
        about |= {
            "trimmed": free_bytes() - held,
            "mode": memory.mode,
            "arena": memory.planned,
            "bound": memory.bound,
            "bails": memory.bails,
        }
    print(json.dumps(about))


def measured(name: str, way: str, runs: int) -> dict[str, Any]:
    """What a child has measured."""
    command = [sys.executable, __file__, "--child", way, "--runs", str(runs), name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print both ways beside each other, and check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="*", default=NETWORKS)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--child", choices=["plain", "planned"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.network[0], args.child, args.runs)
        return
    checks = Checks()
    for name in args.network:
        plain, planned = (measured(name, way, args.runs) for way in ("plain", "planned"))
        before, after = (f"{found['ms']:.3f} ms, {found['taken'] / MIB:.1f} MiB" for found in (plain, planned))
        print(
            f"{name}: {before}; planned {after}, with an arena of {planned['arena'] / MIB:.3f} MiB; "
            f"trim() gives {planned['trimmed'] / MIB:.1f} MiB back"
        )
        checks.holds(f"{name}: outputs", plain["outputs"] == planned["outputs"])
        checks.holds(f"{name}: replay", planned["mode"] == "replay" and planned["bails"] == 0)
        checks.at_most(f"{name}: memory of the device", planned["taken"] / plain["taken"], 1.0)
        checks.at_most(f"{name}: arena over lower bound", planned["arena"] / planned["bound"], 1.01)
    checks.end()


if __name__ == "__main__":
    main()
