"""`edgemem shrink` on models that nobody had in mind: what it promises, checked in the runtimes with code of this file.

    python tests/bench/below/foreign.py [MODEL...] [--built 12] [--page PAGE.md]

Each model is shrunk with the command line, without a budget and to 0.6 of what it takes as it is, and then run on three
random inputs, others than `shrink` tried. ONNX: in `edgemem.InferenceSession` in poisoned memory, beside a default
session of ONNX Runtime; outputs differ by no more than 1.5 times what ONNX Runtime's own levels do (on the inputs that
`shrink` tries, by no more than they do), the arena is that which was said, and every request is served by it. TFLite:
in TensorFlow Lite Micro in dirty memory; bits, head and tail are the same as was said.
`--built` makes .tflite networks of random architectures; `foreign_models.py` exports .onnx files.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[3]))

import edgemem
from edgemem import planfile
from edgemem.errors import EdgememError
from edgemem.formats import Foldable, load_model
from edgemem.records.micro_builds import INSTALLED
from edgemem.records.micro_tail import predicted_tail
from edgemem.runtime.tflm.execution import execute
from models.tflite_net import TfliteNet
from tests.bench.below.page import measured_with, put, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

COLUMNS = ("model", "budget", "as it is", "shrunk", "steps", "time", "outputs", "memory", "seconds")
SHARE = 0.6
RUNS = 3
OTHER_INPUTS = 1.5  # of what levels differ by, on inputs that were not tried before
MANY = 60.0  # seconds of a processor that are too many
DIRT = 0xA5


@dataclass(frozen=True, slots=True)
class Checked:
    """What the runtime says of a shrunk file: what is wrong with its outputs and its memory, or "as said"."""

    outputs: str
    memory: str


def built(count: int, folder: Path) -> Iterator[Path]:
    """Networks of random architectures, int8 and float32 in turn."""
    for seed in range(count):
        int8 = seed % 2 == 0
        path = folder / f"random_{seed}_{'int8' if int8 else 'float'}.tflite"
        path.write_bytes(_network(seed, int8=int8))
        yield path


def _network(seed: int, *, int8: bool) -> bytes:
    rng = np.random.default_rng(seed)
    net = TfliteNet(int8=int8, seed=seed)
    size = int(rng.choice((32, 48, 64, 80, 96, 128)))
    x = net.conv("stem", net.input("image", size, size, int(rng.integers(1, 4))), 8, 3, stride=2, relu6=True)
    outputs = []
    for block in range(int(rng.integers(3, 9))):
        name, channels = f"block{block}", int(rng.integers(1, 7)) * 8
        height = x.seen.shape[1]
        stride = 2 if height > 8 and rng.random() < 0.4 else 1
        kind = rng.choice(("separable", "inverted", "dense", "branches" if not int8 else "inverted"))
        if kind == "dense":
            x = net.conv(name, x, channels, int(rng.choice((1, 3, 5))), stride=stride, relu6=bool(rng.random() < 0.7))
        elif kind == "separable":
            deep = net.depthwise(f"{name}/deep", x, int(rng.choice((3, 5))), stride=stride, relu6=True)
            x = net.conv(f"{name}/point", deep, channels, relu6=True)
        elif kind == "inverted":
            wide = net.conv(f"{name}/wide", x, x.channels * int(rng.integers(2, 5)), relu6=True)
            deep = net.depthwise(f"{name}/deep", wide, stride=stride, relu6=True)
            y = net.conv(f"{name}/narrow", deep, x.channels if stride == 1 else channels, relu6=False)
            x = net.add(f"{name}/add", x, y) if stride == 1 else y
        else:
            parts = [net.conv(f"{name}/{k}", x, channels, k, relu6=True) for k in (1, 3)]
            x = net.concat(f"{name}/join", *parts)
        if rng.random() < 0.15:
            outputs.append(net.logits(f"{name}/side", x, int(rng.integers(1, 5))))
    if not int8 and rng.random() < 0.5:
        scores = net.logits("scores", x, 3)
        outputs.append(net.softmax("probability", net.resize("large", scores, size, size)))
    else:
        outputs.append(net.logits("logits", net.average_pool("pool", x), 10))
    return net.content(*outputs)


def shrunk(path: Path, out: Path | None, *options: str) -> tuple[int, dict[str, Any], str, float]:
    """Exit code, data, what was written as an error, and seconds of a processor of `edgemem shrink`."""
    command = [sys.executable, "-m", "edgemem", "shrink", str(path), "--json", *options]
    begun = _seconds()
    done = subprocess.run(  # the arguments are this file's
        [*command, *(["-o", str(out)] if out is not None else [])], capture_output=True, text=True, check=False
    )
    seconds = _seconds() - begun
    start = done.stdout.find("{")
    data = json.JSONDecoder().raw_decode(done.stdout[start:])[0] if start >= 0 else {}
    return done.returncode, data, done.stderr.strip(), seconds


def _seconds() -> float:
    """Processor time of the children of this process: what else the machine does is not in it."""
    times = os.times()
    return times.children_user + times.children_system


def _drawn(dtype: Any, shape: Sequence[int], rng: np.random.Generator, name: str) -> NDArray[Any]:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return rng.uniform(-2, 2, tuple(shape)).astype(kind)
    if kind.itemsize == 1:
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, tuple(shape), dtype=kind, endpoint=True)
    return rng.integers(0, 2 if "mask" in name else 99, tuple(shape)).astype(kind)


def _apart(here: Sequence[NDArray[Any]], there: Sequence[NDArray[Any]]) -> float:
    """The largest difference of an element, as a part of the largest element of its output."""
    found = 0.0
    for a, b in zip(here, there, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if not np.array_equal(a, b, equal_nan=True):
            scale = max(float(np.abs(a).max()), float(np.abs(b).max())) or 1.0
            apart = float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max()) / scale
            found = max(found, apart if np.isfinite(apart) else float("inf"))
    return found


def in_onnxruntime(path: Path, out: Path, best: dict[str, Any]) -> Checked:
    """The outputs of a file beside those of its original, and the arena of its session."""
    import onnxruntime as ort

    names = ("ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL")
    levels = []
    for name in names:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, name)
        levels.append(ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]))
    kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    forms = {i.name: (kinds[i.type], [d if isinstance(d, int) else 1 for d in i.shape]) for i in levels[0].get_inputs()}
    wrong, said = 0.0, 0.0
    with edgemem.InferenceSession(str(out), cache=False, poison=True) as session:
        for seed in range(RUNS):
            rng = np.random.default_rng((77, seed))
            feeds = {name: _drawn(dtype, shape, rng, name) for name, (dtype, shape) in forms.items()}
            each = [level.run(None, feeds) for level in levels]
            said = max([said, *(_apart(a, b) for a, b in combinations(each, 2))])
            wrong = max(wrong, _apart(session.run(None, feeds), each[-1]))
            report = session.memory_report
            if report.mode != "replay":
                break
    is_near = wrong <= OTHER_INPUTS * said
    outputs = f"{wrong:.1g}, levels {said:.1g}" if is_near else f"WRONG {wrong:.2g}, levels {said:.2g}"
    outputs = outputs if wrong else "bits"
    memory = "as said"
    if report.mode != "replay":
        memory = f"WRONG {report.mode}: {report.reason}"
    elif report.planned != best["memory"] or not best["is_measured"]:
        memory = f"WRONG {report.planned:,}, said {best['memory']:,}"
    elif report.details["bails"]:
        memory = f"WRONG {report.details['bails']} runs left the plan"
    return Checked(outputs, memory)


def in_micro(path: Path, out: Path, best: dict[str, Any]) -> Checked:
    """The bits of a file beside those of its original, and its arena beside what was said and predicted."""
    original, made = load_model(path), load_model(out)
    graph = original.graph()
    forms = [graph.tensors[i] for i in graph.inputs]
    sets = []
    for seed in range(RUNS):
        rng = np.random.default_rng((77, seed))
        sets.append([_drawn(t.dtype, t.shape, rng, t.name) for t in forms])
    count = len(graph.outputs)
    run = execute(out.read_bytes(), sets[0], outputs=count, then=sets[1:], fill=DIRT)
    if isinstance(original, Foldable):
        original = original.folded()
    before = execute(original.content(), sets[0], outputs=count, then=sets[1:])
    same = all(
        a.dtype == b.dtype and a.tobytes() == b.tobytes()
        for one, other in zip(before.each, run.each, strict=True)
        for a, b in zip(one, other, strict=True)
    )
    memory = "as said"
    best_plan = planfile.decode(made.plan() or b"").best_offsets
    head = -(-best_plan.size // 16) * 16 if best_plan is not None else 0
    tail = predicted_tail(made.graph(), INSTALLED)
    if run.head != best["arena"]:
        memory = f"WRONG {run.head:,}, said {best['arena']:,}"
    elif head != run.head:
        memory = f"WRONG head {run.head:,}, planned {head:,}"
    elif tail != run.tail:
        memory = f"as said; tail predicted {tail / run.tail:.4f}x"
    return Checked("bits" if same else "WRONG", memory)


def in_litert(path: Path, out: Path) -> Checked:
    """The bits of a file in LiteRT beside those of its original."""
    from ai_edge_litert.interpreter import Interpreter

    each = []
    for file in (path, out):
        interpreter = Interpreter(model_path=str(file), num_threads=1)
        interpreter.allocate_tensors()
        found = []
        for seed in range(RUNS):
            rng = np.random.default_rng((77, seed))
            for d in interpreter.get_input_details():
                interpreter.set_tensor(d["index"], _drawn(d["dtype"], d["shape"], rng, d["name"]))
            interpreter.invoke()
            found.append([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()])
        each.append(found)
    apart = max(_apart(a, b) for a, b in zip(*each, strict=True))
    return Checked("bits" if not apart else f"WRONG {apart:.2g}", "")


def check(path: Path, out: Path, best: dict[str, Any]) -> Checked:
    """What a shrunk file does in its runtime."""
    try:
        if path.suffix == ".onnx":
            return in_onnxruntime(path, out, best)
        return in_micro(path, out, best) if best["target"] == "tflm" else in_litert(path, out)
    except (EdgememError, RuntimeError, ValueError, KeyError) as e:
        return Checked(f"FAILED {type(e).__name__}: {str(e).splitlines()[0][:150]}", "")


def rows_of(path: Path, folder: Path) -> Iterator[list[str]]:
    """A row without a budget and one with."""
    code, data, said, _ = shrunk(path, None, "--steps", "", "--close")
    plain = data["best"]["memory"] if code == 0 and data.get("best") else 0
    if not plain:
        yield [path.stem, "", "", "", "", "", f"FAILED as it is ({code}): {said[-300:]}", "", ""]
    for budget in (None, int(plain * SHARE)):
        if budget == 0:
            continue
        out = folder / f"{path.stem}.{budget}{path.suffix}"
        limits = [] if budget is None else ["--budget", str(budget)]
        code, data, said, seconds = shrunk(path, out, *limits)
        late = f"{seconds:.1f}{' LATE' if seconds > MANY else ''}"
        row = [path.stem, f"{budget:,}" if budget else "", f"{plain:,}"]
        best = data.get("best")
        if code == 0 and best:
            found = check(path, out, best)
            latency = f"{best['latency']:.2f}x" if best["latency"] else "?"
            steps = best["steps"] if len(best["steps"]) < 60 else f"{best['steps'][:56]} ..."
            row += [f"{best['memory']:,}", steps, latency, f"{found.outputs} ({best['outputs']})", found.memory]
        elif code == 3 and budget is not None:
            row += ["does not fit", "", "", data.get("explanation", said)[:400], ""]
        else:
            row += ["", "", "", f"FAILED ({code}): {said[-400:]}", ""]
        yield [*row, late]
        out.unlink(missing_ok=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Checks what edgemem shrink promises, on any models.")
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--built", type=int, default=0, metavar="COUNT", help="random .tflite networks")
    parser.add_argument("--page", help="put the table into this page")
    args = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory(prefix="edgemem-") as name:
        folder = Path(name)
        for path in [*args.models, *built(args.built, folder)]:
            for row in rows_of(path, folder):
                rows.append(row)
                print(" | ".join(row), flush=True)
    put(args.page, "foreign", f"{measured_with('onnxruntime', 'tflite-micro')}\n\n{table(COLUMNS, rows)}")
    return int(any(word in cell for row in rows for cell in row for word in ("WRONG", "FAILED", "LATE")))


if __name__ == "__main__":
    sys.exit(main())
