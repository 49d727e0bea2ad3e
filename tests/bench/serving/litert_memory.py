"""What LiteRT and edgemem's interpreter take of a process's memory.

    python tests/bench/serving/litert_memory.py [MODEL.tflite ...]

Each row is the resident memory of fresh processes that import the documented class, allocate and run twice, less that
of a bare Python; the median of some processes, ours and LiteRT's by turns. `first` is our first process for a model,
which finds no notes; `again` is a later one. The last rows have two models in one process, ours in one shared arena.
Without arguments: generated networks of 5 MB and 28 MB. Modules come compiled, as an installed package has them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT))

_CHILD = """
import json, sys
def resident():
    with open("/proc/self/status") as file:
        rows = dict(line.split(":", 1) for line in file)
    return {name: int(rows[name].split()[0]) for name in ("VmRSS", "VmHWM")}
task = json.loads(sys.argv[1])
before = resident()["VmRSS"]
if task["who"] == "LiteRT":
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
    options = {}
else:
    import edgemem
    from ai_edge_litert.interpreter import OpResolverType
    Interpreter = edgemem.Interpreter
    options = {"arena": edgemem.Arena()} if task["shared"] else {}
if task["kernels"] == "builtin":
    options["experimental_op_resolver_type"] = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
loaded = resident()["VmRSS"]
kept = []
for model in task["models"]:
    interpreter = Interpreter(model, **options)
    interpreter.allocate_tensors()
    for _ in range(2):
        for details in interpreter.get_input_details():
            value = interpreter.get_tensor(details["index"])
            value[...] = 1
            interpreter.set_tensor(details["index"], value)
        interpreter.invoke()
    kept.append(interpreter)
now = resident()
print("\\nresult:" + json.dumps([now["VmRSS"] - before, now["VmRSS"] - loaded, now["VmHWM"] - before]))
"""


def _measured(who: str, kernels: str, models: list[str], environment: dict[str, str], *, shared: bool) -> list[int]:
    """KiB: resident memory, the same without imports, and the peak."""
    task = {"who": who, "kernels": kernels, "models": models, "shared": shared}
    command = [sys.executable, "-c", _CHILD, json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    if "result:" not in done.stdout:
        raise SystemExit(done.stderr)
    found: list[int] = json.loads(done.stdout.rpartition("result:")[2])
    return found


def _row(title: str, kernels: str, models: list[str], folder: Path, rounds: int, *, shared: bool = False) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPYCACHEPREFIX": str(folder / "pyc"), "EDGEMEM_CACHE": str(folder / "cache")}
    _measured("edgemem", kernels, models, environment, shared=shared)  # compiles the modules, and checks LiteRT
    for note in (folder / "cache" / "litert-layouts").glob("*"):
        note.unlink()
    first = _measured("edgemem", kernels, models, environment, shared=shared)
    pairs = [
        [_measured(who, kernels, models, environment, shared=shared) for who in ("LiteRT", "edgemem")]
        for _ in range(rounds)
    ]
    theirs, ours = ([statistics.median(pair[k][i] for pair in pairs) for i in range(3)] for k in range(2))
    cells = [f"{theirs[0] / 1024:8.1f}", f"{first[0] / 1024:8.1f}", f"{ours[0] / 1024:8.1f}"]
    cells += [f"{first[0] / theirs[0]:7.3f}", f"{ours[0] / theirs[0]:7.3f}"]
    cells += [f"{theirs[1] / 1024:8.1f}", f"{ours[1] / 1024:8.1f}", f"{ours[1] / theirs[1]:7.3f}"]
    cells += [f"{ours[2] / theirs[2]:7.3f}"]
    print(f"{title:44}{kernels:>9}", *cells, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = arguments.models
        if not models:
            from tests.bench.serving.litert_models import mobile_network

            for size in (5, 28):
                for weights in ("float32", "float16"):
                    models.append(folder / f"network {size} MB {weights}.tflite")
                    models[-1].write_bytes(mobile_network(size * 1_000_000, weights))
        print("MiB above bare Python; growth is without imports; peak is the greatest of the whole process")
        columns = "  LiteRT    first    again  first/  again/   growth     ours growth/   peak/"
        print(f"{'model':44}{'kernels':>9} {columns}")
        for model in models:
            for kernels in ("builtin", "XNNPACK"):
                _row(model.stem, kernels, [str(model)], folder, arguments.rounds)
        for one, other in zip(models[::2], models[1::2], strict=False):
            for kernels in ("builtin", "XNNPACK"):
                title = f"{one.stem[:20]} and {other.stem[:18]}"
                _row(title, kernels, [str(one), str(other)], folder, arguments.rounds, shared=True)


if __name__ == "__main__":
    main()
