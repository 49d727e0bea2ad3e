"""What arithmetic in float16 gives in plans in fp16, on a GPU with shader-f16: time, and difference from the CPU.

    python tests/bench/gpu_halves.py [NETWORK ...] [--adapter NAME] [--repeats 15]

Each network runs inside its plan in fp32, in fp16 with products in float32, and in fp16 with products in float16; the
three alternate. Milliseconds are medians: of whole runs, and of the GPU alone by its timestamps. A difference is the
largest from ONNX Runtime on the CPU, divided by the spread of the output.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np
import onnxruntime

import edgemem
from edgemem.runtime.webgpu.device import open_device
from edgemem.runtime.webgpu.executor import GpuExecutor
from tests.bench.gpu import opened
from tests.onnx_sessions import feeds

if TYPE_CHECKING:
    from edgemem.runtime.webgpu.device import GpuDevice

NETWORKS: Final = ("mobilenet_v1", "mobilenet_v2", "resnet18", "inception_v3", "transformer")
STORAGES: Final = ("gpu-buffer", "gpu-texture")


def rows(name: str, gpu: GpuDevice, adapter: str | None, repeats: int) -> list[str]:
    """A row of the table for each storage."""
    made = []
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        model, suffix = opened(name, Path(folder), "basic")  # extended has an operator without a kernel
        for storage in STORAGES:
            executors, timed = [], []
            for target, has_f16 in ((storage, False), (f"{storage}-fp16", False), (f"{storage}-fp16", True)):
                path = Path(folder, target + suffix)
                edgemem.save(model, edgemem.plan(model, target=target), path)
                device = replace(gpu, has_f16=has_f16, pipelines={})
                with patch("edgemem.runtime.webgpu.executor.open_device", lambda *_, device=device: device):
                    executors.append(GpuExecutor(path, adapter=adapter))
                    timed.append(GpuExecutor(path, adapter=adapter, timings=True))
            session: Any = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            given = feeds(session)
            wanted = np.asarray(session.run(None, given)[0], np.float64)
            ms: list[list[float]] = [[] for _ in executors]
            gpu_ms: list[list[float]] = [[] for _ in executors]
            differences = []
            for executor in executors:
                found = np.asarray(executor.run(None, given)[0], np.float64)
                differences.append(float(np.abs(found - wanted).max() / wanted.std()))
            for _ in range(repeats):
                for k, (executor, watched) in enumerate(zip(executors, timed, strict=True)):
                    executor.run(None, given)
                    ms[k].append(executor.last_ms)
                    watched.run(None, given)
                    gpu_ms[k].append(sum(time.ms for time in watched.times))
            for executor in (*executors, *timed):
                executor.close()
            cells = [", ".join(f"{median(one):.2f}" for one in figures) for figures in (ms, gpu_ms)]
            cells.append(", ".join(f"{difference:.1e}" for difference in differences))
            made.append(f"| {name} | {storage} | {' | '.join(cells)} |")
            print(made[-1], file=sys.stderr, flush=True)
    return made


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--adapter")
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    gpu = open_device(args.adapter)
    if "shader-f16" not in gpu.handle.features:
        parser.error(f"{gpu.adapter} has no shader-f16")
    made = [row for name in args.networks for row in rows(name, gpu, args.adapter, args.repeats)]
    chosen = "float16" if gpu.has_f16 else "float32"
    print(f"\n{gpu.adapter}; by default products of plans in fp16 are computed in {chosen} here\n")
    print("fp32; fp16 with products in float32; fp16 with products in float16:\n")
    print("| network | target | run, ms | GPU, ms | difference |\n|---|---|---|---|---|")
    print("\n".join(made))


if __name__ == "__main__":
    main()
