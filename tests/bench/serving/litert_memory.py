"""What a process takes for a .tflite model: LiteRT as it is, edgemem's interpreter, and files that `shrink` changed.

    python tests/bench/serving/litert_memory.py docs/mobile.md

replaces the table in the page, between its two marks. Every row is fresh processes that import the documented class,
load the model and run it, less what a bare Python takes: `resident`, `anonymous` and `peak` of one process, the sum of
the proportional memory of 4 processes that run at once, and the processor time of a run. Rows of a model take turns;
sizes are medians over the rounds, and the time is the least of the rounds' medians. Rows with the same kernels must
give the same outputs, bit for bit; in changed files that is so for builtin kernels alone.
Modules come compiled, and packed weights from earlier processes, as on a machine that has run the model before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT))

from ai_edge_litert.interpreter import Interpreter

import edgemem
from models.fetch import fetch
from models.tflite_networks import mobilenet_v2
from tests.bench.serving.children import environment

if TYPE_CHECKING:
    from collections.abc import Iterable

BEGIN, END = "<!-- table: made by tests/bench/serving/litert_memory.py -->", "<!-- end of the table -->"
CHILD = Path(__file__).with_name("litert_memory_child.py")
PROCESSES = 4
RUNS = 12
FILES = ("as it is", "shrunk to the knee", "shrunk to the least")
# Which file, what runs it, and whether builtin kernels are asked for.
WAYS = (
    (0, "litert", False),
    (0, "edgemem", False),
    (0, "compiled", False),
    (0, "litert", True),
    (1, "litert", True),
    (2, "litert", True),
    (2, "litert", False),
)
NAMES = {"litert": "LiteRT", "edgemem": "edgemem.Interpreter", "compiled": "LiteRT, packed weights in a file"}
COLUMNS = ("resident", "anonymous", "peak", f"{PROCESSES} processes", "ms")


@dataclass(slots=True, eq=False)
class Row:
    """A way to run a model, and the figures of each round: KiB, and ms last."""

    file: int
    way: str
    is_builtin: bool
    task: str
    figures: list[tuple[float, ...]] = field(default_factory=list)
    outputs: set[int] = field(default_factory=set)

    @property
    def cells(self) -> list[str]:
        *sizes, times = zip(*self.figures, strict=True)
        return [*(f"{median(column) / 1024:.1f}" for column in sizes), f"{min(times):.1f}"]


class Process:
    """A child, which does what it is told line by line."""

    def __init__(self, task: str, settings: dict[str, str], stack: ExitStack) -> None:
        self._command = [sys.executable, str(CHILD), task]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self._child = stack.enter_context(
            subprocess.Popen(self._command, text=True, env=settings, stdin=pipe, stdout=pipe, stderr=nowhere)
        )

    def tell(self, what: str) -> None:
        print(what, file=self._child.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        for line in self._child.stdout or ():
            if line.startswith("answer:"):
                found: dict[str, Any] = json.loads(line.removeprefix("answer:"))
                return found
        raise SystemExit("a process failed: run its task by hand: " + " ".join(self._command))

    def ask(self, what: str) -> dict[str, Any]:
        self.tell(what)
        return self.answer()


def warm(row: Row, settings: dict[str, str]) -> None:
    """Compile modules, and pack weights."""
    with ExitStack() as stack:
        Process(row.task, settings, stack).ask("run")


def measure(row: Row, settings: dict[str, str]) -> None:
    """One round of a row."""
    with ExitStack() as stack:
        one = Process(row.task, settings, stack)
        before, ran, after = one.ask("read"), one.ask("run"), one.ask("read")
        row.outputs.add(ran["outputs"])
    with ExitStack() as stack:
        several = [Process(row.task, settings, stack) for _ in range(PROCESSES)]
        bare = [process.ask("read")["proportional"] for process in several]
        for process in several:
            process.tell("run")
        for process in several:
            process.answer()
        shared = sum(process.ask("read")["proportional"] for process in several) - sum(bare)
    start = before["resident"]
    kib = (after["resident"] - start, after["anonymous"] - before["anonymous"], after["peak"] - start, shared)
    row.figures.append((*kib, median(ran["times"][2:])))


def files_of(model: Path) -> list[Path]:
    """The model, and what `shrink` makes of it: at the knee of its menu, and the least memory."""
    least = edgemem.shrink(model, target="litert")
    knee = least.found.knee
    assert knee is not None
    made = [edgemem.shrink(model, target="litert", steps=knee.text), least]
    paths = [model.with_suffix(f".{k}.tflite") for k in range(len(made))]
    for path, shrunk in zip(paths, made, strict=True):
        shrunk.save(path)
    return [model, *paths]


def rows_of(model: Path, folder: Path) -> list[Row]:
    files = files_of(model)
    shown = Interpreter(str(model))
    shown.allocate_tensors()
    inputs = [(d["shape"].tolist(), d["dtype"].__name__) for d in shown.get_input_details()]
    outputs = [(int(d["shape"].prod()), d["dtype"].__name__) for d in shown.get_output_details()]
    rows = []
    settings = {"inputs": inputs, "outputs": outputs, "runs": RUNS}
    # One file of packed weights for each model, because LiteRT does not compare it with the model.
    settings["cache"] = str(folder / f"{model.stem}.packed")
    for file, way, is_builtin in WAYS:
        task = {"model": str(files[file]), "way": way, "builtin": is_builtin, **settings}
        rows.append(Row(file, way, is_builtin, json.dumps(task)))
    return rows


def table(models: Iterable[Path], folder: Path, rounds: int) -> str:
    settings = environment(folder / "pyc") | {"EDGEMEM_CACHE": str(folder / "cache"), "PYTHONHASHSEED": "0"}
    what = f"ai-edge-litert {version('ai-edge-litert')}, Python {sys.version.split()[0]}, x86-64, one thread"
    lines = [
        f"Measured with {what}; MiB above a bare Python, ms of processor time.",
        "",
        f"| model, file | run by | kernels | {' | '.join(COLUMNS)} |",
        "|---|---|---" + "|---:" * len(COLUMNS) + "|",
    ]
    for model in models:
        rows = rows_of(model, folder)
        for row in rows:
            warm(row, settings)
        for number in range(rounds):
            for row in rows if number % 2 else reversed(rows):
                measure(row, settings)
        for is_builtin in (False, True):
            same = [row for row in rows if row.is_builtin == is_builtin and (is_builtin or not row.file)]
            if len(set().union(*(row.outputs for row in same))) != 1:
                raise SystemExit(f"{model.stem}: outputs differ")
        for row in rows:
            kernels = "builtin" if row.is_builtin else "XNNPACK"
            lines.append(
                f"| {model.stem}, {FILES[row.file]} | {NAMES[row.way]} | {kernels} | {' | '.join(row.cells)} |"
            )
            print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = {"mobilenet_v2": mobilenet_v2(), "mobilenet_v2_int8": mobilenet_v2(int8=True)}
        sources["mp_hand_landmark_full"] = fetch("mp_hand_landmark_full").read_bytes()
        paths = [folder / f"{model}.tflite" for model in sources]
        for path, data in zip(paths, sources.values(), strict=True):
            path.write_bytes(data)
        made = table(paths, folder, arguments.rounds)
    before, _, rest = arguments.page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    arguments.page.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
