"""Bundles of `edgemem export -f web` on this computer's GPU: their player runs in Node, on Dawn, as in Chromium.

    npm install webgpu
    python tests/bench/web_gpu.py --webgpu node_modules/webgpu [NETWORK ...]

It takes Node 24. Outputs are compared with those of the run without sharing, bit for bit, and of `edgemem.GpuExecutor`,
relative to the largest of them; memory is what is allocated for tensors. Times are those of the player, which converts
inputs and outputs in JavaScript: from loading to the first result, and the median of the runs after it.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

sys.path.append(str(Path(__file__).resolve().parents[2]))

import numpy as np

import edgemem
from edgemem.commands.run_gpu import feeds_for, open_planned
from edgemem.runtime.webgpu.web_bundle import write_bundle
from tests.bench.gpu import MIB, opened

NETWORKS: Final = ("mobilenet_v1", "mobilenet_v2", "resnet18", "transformer", "unet", "mp_face_detection_short")
TARGETS: Final = ("gpu-buffer", "gpu-texture", "gpu-buffer-fp16", "gpu-texture-fp16")


def row(name: str, target: str, args: argparse.Namespace) -> str:
    """A row of the table. Raises AssertionError for other memory than planned, or bits that sharing changes."""
    with tempfile.TemporaryDirectory(prefix="edgemem-") as made:
        model, suffix = opened(name, Path(made), "basic")
        path, bundle = Path(made, "planned" + suffix), Path(made, "bundle")
        edgemem.save(model, edgemem.plan(model, target=target), path)
        write_bundle(path, bundle)
        feeds = feeds_for(open_planned(path), None)
        with edgemem.GpuExecutor(path, adapter=args.adapter) as executor:
            names = [output.name for output in executor.get_outputs()]
            wanted = dict(zip(names, executor.run(None, feeds), strict=True))
        given = {key: base64.b64encode(np.asarray(v, np.float32).tobytes()).decode() for key, v in feeds.items()}
        script = Path(__file__).with_suffix(".mjs")
        command = [args.node, script, args.webgpu, bundle, str(args.runs)]
        done = subprocess.run(command, input=json.dumps(given), stdout=subprocess.PIPE, text=True, check=True)
        said = json.loads(done.stdout.splitlines()[-1])
    shared, alone = said["outputs"]
    assert shared == alone, f"{name}, {target}: sharing changes an output"
    assert said["bytes"] == said["planned"], f"{name}, {target}: {said['bytes']} bytes are allocated"
    errors = [
        np.abs(np.frombuffer(base64.b64decode(shared[key]), value.dtype).reshape(value.shape) - value).max()
        / np.abs(value).max()
        for key, value in wanted.items()
    ]
    cells = [
        f"{said['planned'] / MIB:.3f}",
        f"{said['weights'] / MIB:.1f}",
        f"{max(errors):.0e}",
        f"{said['first'] / 1e3:.2f}",
        f"{median(said['times']):.1f}",
    ]
    print(f"{name}, {target}: {said['adapter']}, shader-f16: {said['halves']}", file=sys.stderr, flush=True)
    return f"| {name} | {target} | {' | '.join(cells)} |"


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--webgpu", required=True, help="the folder of npm's package webgpu")
    parser.add_argument("--node", default="node")
    parser.add_argument("--adapter", help="letters of its name, for the executor; Dawn takes its first")
    parser.add_argument("--runs", type=int, default=15)
    args = parser.parse_args()
    print("| network | target | tensors, MiB | weights, MiB | difference | first result, s | run, ms |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name in args.networks:
        for target in TARGETS:
            try:
                print(row(name, target, args), flush=True)
            except subprocess.CalledProcessError as error:
                print(f"{name}, {target}: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
