"""What real TFLite runtimes take for a model, and what they take with edgemem's plan, as a Markdown table.

    python tests/bench/tflite_runtimes.py > docs/tflite-arenas.md

All figures are bytes. TFLite Micro's are read from a real run (`tests/runtime/tflm_run.py`); LiteRT's from its
interpreter with builtin kernels. Models come from pinned packages (`models/fetch.py`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import edgemem
from edgemem import planfile
from edgemem.converter import Model
from edgemem.errors import RuntimeBindError
from edgemem.runtime import litert
from models.fetch import catalogue, fetch

RUN = ROOT / "tests" / "runtime" / "tflm_run.py"


def tflm_head(data: bytes, model: Model) -> int | None:
    """The head of TFLite Micro's arena, or None if it cannot run the model."""
    import tempfile

    graph = model.graph()
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
        file.write(data)
        file.flush()
        args = [sys.executable, str(RUN), file.name, str(len(graph.inputs)), str(len(graph.outputs))]
        done = subprocess.run(args, capture_output=True, text=True, check=False)
    return int(json.loads(done.stdout)["head"]) if done.returncode == 0 else None


def row(name: str) -> list[int | str | None]:
    """One model: name, naive, bound, LiteRT's own arena, the plan under LiteRT's rules, TFLM's own and planned head."""
    model = edgemem.load(fetch(name))
    assert isinstance(model, Model)
    tflm = edgemem.plan(model, target="tflm")
    try:
        own: int | None = litert.probe(model.content()).main.arena
        under_litert = edgemem.plan(model, target="litert").best_offsets
        planned = under_litert.size if under_litert else None
    except RuntimeBindError:
        own = planned = None
    before = tflm_head(model.content(), model)
    after = None
    if before is not None:
        after = tflm_head(model.with_plan(planfile.encode(tflm), tflm).content(), model)
    return [name, tflm.naive, tflm.bounds.offsets, own, planned, before, after]


def main() -> None:
    """Print the table."""
    versions = ", ".join(f"{p} {version(p)}" for p in ("edgemem", "ai-edge-litert", "tflite-micro"))
    print("# Arenas of real TFLite models\n")
    print(f"Made by `python tests/bench/tflite_runtimes.py` with {versions}. Bytes.\n")
    print("*naive* and *bound* are those of the tensors under the rules of TFLite Micro. LiteRT runs builtin kernels")
    print("without a delegate; its arena holds their workspace too, and so does the plan under its rules. TFLite Micro")
    print("runs the file as it is, and then with the plan in it; `-` where the runtime cannot run the model.\n")
    head = ["model", "naive", "bound", "LiteRT", "edgemem, LiteRT's rules", "TFLM", "edgemem in TFLM"]
    print("| " + " | ".join(head) + " |")
    print("|---" + "|---:" * (len(head) - 1) + "|")
    for name in (entry.name for entry in catalogue().values() if entry.path.endswith(".tflite")):
        cells = ["-" if c is None else f"{c:,}" if isinstance(c, int) else c for c in row(name)]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
