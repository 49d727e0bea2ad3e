"""Packed weights that are mapped, against ONNX Runtime as it is: one process, and four workers at once.

python tests/bench/serving/weights.py MODEL.onnx ... [--rounds 5]

The requests of each model are recorded, its weights packed, and it is served from fresh processes, those
of both ways in turn. One process: resident and anonymous memory after 16 runs, and the peak when the session is loaded,
of the whole process with Python, numpy and ONNX Runtime, and in the served one edgemem, medians over the rounds; the
least time to make the session, and the least of the rounds' median processor time of a run, one thread. Four workers:
the sum of their proportional set sizes, all loaded and warm.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.runtime.onnxruntime.file_recording import add_recording
from edgemem.runtime.onnxruntime.weights.packed_files import pack_beside
from tests.bench.serving.children import HERE, environment
from tests.bench.serving.sessions import feeds_for, plain
from tests.bench.serving.weights_child import SIZES

WORKERS = 4
WAYS = ("plain", "mapped")
HEADER = (
    "| model | weights, MB | on disk, MB | resident, MiB | anonymous | peak at load | load, s | run, ms | 4 workers | "
    "plan | bits |\n|---|" + "---:|" * 8 + "---|---|"
)


def started(model: Path, way: str, bytecode: Path) -> subprocess.Popen[str]:
    """A process that serves a model."""
    command = [sys.executable, str(HERE / "weights_child.py"), str(model), way]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(bytecode)
    )


def read(process: subprocess.Popen[str]) -> Any:
    """The next line that a process prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit("a process failed; it says why above")
    return json.loads(line)


def figures(files: dict[str, Path], rounds: int, bytecode: Path) -> dict[str, dict[str, Any]]:
    """Of one process for each way, and the proportional memory of all workers."""
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for k in range(rounds):
        for way in sorted(WAYS, reverse=bool(k % 2)):
            process = started(files[way], way, bytecode)
            found[way].append(read(process))
            process.communicate()
    result = {}
    for way, rows in found.items():
        workers = [started(files[way], way, bytecode) for _ in range(WORKERS)]
        for worker in workers:
            read(worker)
        shared = 0
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
            shared += read(worker)
        for worker in workers:
            worker.communicate()
        sizes = {name: median(row[name] for row in rows) for name in ("resident", "anonymous", "peak")}
        times = {name: min(row[name] for row in rows) for name in ("load_s", "run_s")}
        result[way] = {**rows[0], **sizes, **times, "workers": shared}
        result[way]["bits"] = {row["bits"] for row in rows}
    return result


def row(name: str, files: dict[str, Path], found: dict[str, dict[str, Any]]) -> str:
    """The figures of a model in Markdown."""
    a, b = found["plain"], found["mapped"]

    def pair(key: str, unit: float, digits: int) -> str:
        return f"{a[key] / unit:.{digits}f} → {b[key] / unit:.{digits}f} ({b[key] / a[key]:.2f}x)"

    disk = [sum(f.stat().st_size for f in file.parent.iterdir() if f.is_file()) for file in files.values()]
    cells = [name, f"{disk[0] / 1e6:.1f}", f"{disk[1] / 1e6:.1f}", pair("resident", 2**20, 0)]
    cells += [pair("anonymous", 2**20, 0), pair("peak", 2**20, 0), pair("load_s", 1, 3), pair("run_s", 1e-3, 2)]
    cells += [pair("workers", 2**20, 0)]
    whole = b["replayed"] and not b["bails"]
    cells += [b["plan"].split(",")[0] if whole else f"{b['bails']} runs outside"]
    cells += ["equal" if a["bits"] == b["bits"] and len(a["bits"]) == 1 else "DIFFERENT"]
    return "| " + " | ".join(cells) + (" |" if b["mapped"] else " | (not mapped)")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(HEADER, flush=True)
    with tempfile.TemporaryDirectory() as bytecode:
        for model in given.models:
            measure(model, given.rounds, Path(bytecode))


def measure(model: Path, rounds: int, bytecode: Path) -> None:
    """Print the row of a model."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["EDGEMEM_CACHE"] = str(Path(folder, "cache"))
        files = {}
        for way in WAYS:
            files[way] = Path(folder, way, model.name)
            files[way].parent.mkdir()
            for file in (model, *model.parent.glob(f"{model.stem}.data")):
                files[way].with_name(file.name).write_bytes(file.read_bytes())
        add_recording(files["mapped"], feeds_for(plain(model), SIZES), threads=1)
        pack_beside(files["mapped"])
        print(row(model.stem, files, figures(files, rounds, bytecode)), flush=True)


if __name__ == "__main__":
    main()
