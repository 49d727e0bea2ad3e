"""What processes that serve an .onnx model in ONNX Runtime will take, part by part, before they run.

The arena is that of a recording: one in the file, or one of a single run at the smallest sizes. For other sizes the
plan of the graph says how it grows. Fresh processes that have the plan open the model and run it at the smallest sizes,
which tells libraries, weights, load and what runs leave. All sizes and numbers of processes are computed from these.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any, Final

from edgemem.commands import process_parts
from edgemem.commands.process_parts import ARENA, MemoryPart, ServedFile
from edgemem.errors import ModelError, UnsupportedError
from edgemem.formats import Bindings, Stateful, load_model
from edgemem.model.dtypes import byte_size
from edgemem.model.ranges import in_ranges
from edgemem.planning.model_plan import plan_model
from edgemem.plans import Settings
from edgemem.runtime.feeds import make_feeds, resolve
from edgemem.system.child_call import ChildError
from edgemem.system.files import temporary_folder
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.plans import PlanSet

__all__ = ["ProcessSize", "SizePoint", "check_processes", "process_size", "process_size_data"]

_TIMEOUT_S: Final = 600.0
_COMPUTED: Final = "from their shapes"
# Addresses are drawn anew for each process, so that ONNX Runtime loads weights in another order, and the peak of equal
# processes differs: up to 7 % for a U-Net. Of so many the largest counts.
_OPENED: Final = 4


@dataclass(frozen=True, slots=True)
class SizePoint:
    """One process at one choice of sizes.

    Attributes:
        dims: the dimensions that were given.
        parts: of the resident memory of a process between its runs' beginning and end, when all of the arena is used.
    """

    dims: Mapping[str, int]
    parts: tuple[MemoryPart, ...]

    @property
    def resident(self) -> int:
        """Bytes of a process."""
        return sum(part.size for part in self.parts)

    def together(self, processes: int) -> int:
        """Bytes of so many processes, in which pages of files are there once."""
        shared = sum(part.shared for part in self.parts)
        return (self.resident - shared) * processes + shared


@dataclass(frozen=True, slots=True)
class ProcessSize:
    """The prediction. Sizes are bytes.

    Attributes:
        points: one for every choice of sizes, in the order in which they were given.
        processes: how many are counted together.
        threads: of one operator.
        load_peak: the most that is resident in a process while it opens the session, of several that were measured.
    """

    points: tuple[SizePoint, ...]
    processes: int
    threads: int
    load_peak: int

    @property
    def largest(self) -> int:
        """The most of all processes at any point, or while all of them open their sessions at once."""
        shared = min(sum(part.shared for part in point.parts) for point in self.points)
        loading = (self.load_peak - shared) * self.processes + shared
        return max(loading, *(point.together(self.processes) for point in self.points))


def process_size(
    path: Path,
    choices: Sequence[Mapping[str, int]] = ({},),
    *,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    threads: int = 1,
    processes: int = 1,
    timeout_s: float | None = None,
) -> ProcessSize:
    """What processes with an `edgemem.InferenceSession` will take that has its plan.

    Caches that the file's note keeps in place count once, as `edgemem.DecoderState` takes them.

    Args:
        path: an .onnx file.
        choices: values of dimensions, each a point of the answer.
        input_shapes: shapes of inputs by name.
        threads: of one operator.
        processes: counted together.
        timeout_s: of the process that opens the model and of the one that records; None for ten minutes.

    Raises:
        MissingDependencyError: onnxruntime is not installed.
        ModelError: the model does not run, or this system does not tell what a process takes.
        UnknownShapeError: a size is unknown; UnsupportedError: values of an input cannot be made up.
    """
    model = ServedFile(path, "size")
    bound = [model.bindings(Bindings(dict(dims), dict(input_shapes or {}))) for dims in choices]
    bound = [Bindings(each.dims, each.input_shapes) for each in bound]
    shapes = [{name: resolve(name, form, each) for name, (_, form) in model.forms.items()} for each in bound]
    plans = [_planned(path, each) for each in bound]
    in_place = _in_place(path)
    arenas: dict[int, MemoryPart] = {}
    with temporary_folder() as folder:
        task = model.task(folder, configuration="edgemem", dims={}, threads=threads, share=False, record="first-run")
        opened = [_answer({**task, "what": "open", "requests": []}, timeout_s)]
        if not opened[0]:
            raise ModelError("this system does not tell what a process takes (Linux does)")
        version = opened[0]["version"]
        stored = [p for p in model.plans if p.recording is None or p.recording.fingerprint.version == version]
        for k, dims in enumerate(choices):
            if size := _stored(stored, shapes[k], None if input_shapes else dims):
                arenas[k] = MemoryPart(ARENA, size, "recorded, in the file")
        peaks = [opened[0]["load_peak"]]
        for k in _to_record(plans, arenas):
            requests = process_parts.save_requests([make_feeds(model.forms, bound[k])], folder)
            answer = _answer({**task, "what": "record", "requests": requests}, timeout_s)
            peaks.append(answer["load_peak"])
            arenas[k] = MemoryPart(ARENA, answer["planned"], "recorded here")
            plans[k] = plans[k] or (answer["planned"], answer["outputs"])
        base = min(arenas, key=lambda k: arenas[k].size)
        requests = []
        with suppress(UnsupportedError):  # then what runs leave is not known
            requests = process_parts.save_requests([make_feeds(model.forms, bound[base])], folder)
        for k in range(len(opened), _OPENED):
            cache = folder / f"plans{k}"  # no process begins with what one before it has learned
            if Path(task["cache"]).exists():
                copytree(task["cache"], cache)
            question = {**task, "what": "open", "requests": requests, "cache": str(cache)}
            opened.append(_answer(question, timeout_s))
            peaks.append(opened[-1]["load_peak"])
    usual = sorted(opened[1:], key=lambda each: each.get("left", 0))[len(opened) // 2 - 1]
    opened_once = process_parts.opened_parts(usual, model.weights, usual["weights_touched"])
    points = []
    for k, dims in enumerate(choices):
        planned, outputs = plans[k] or (0, 0)
        if k not in arenas:
            of, _ = plans[base] or (0, 0)
            ratio = arenas[base].size / of if of else 1.0
            arenas[k] = MemoryPart(ARENA, int(planned * ratio), f"planned x{ratio:.2f}")
        fed = {name: byte_size(model.forms[name][0], prod(shape)) for name, shape in shapes[k].items()}
        kept = sum(size for name, size in fed.items() if name in in_place)
        of_runs = (
            MemoryPart(process_parts.INPUTS, sum(fed.values()) - kept, _COMPUTED),
            *([MemoryPart(process_parts.CACHES, kept, _COMPUTED)] if kept else []),
            arenas[k],
            MemoryPart(process_parts.OUTPUTS, max(outputs - kept, 0), _COMPUTED),
        )
        points.append(SizePoint(dict(dims), (*opened_once, *of_runs)))
    return ProcessSize(tuple(points), processes, threads, max(peaks))


def process_size_data(size: ProcessSize) -> dict[str, Any]:
    """The prediction as plain data for JSON."""
    points = [
        {**asdict(point), "resident": point.resident, "together": point.together(size.processes)}
        for point in size.points
    ]
    return {"runtime": "onnxruntime", **asdict(size), "points": points, "largest": size.largest}


def check_processes(size: ProcessSize, budget: int | None) -> None:
    """Raise BudgetExceededError if the processes take more than `budget` bytes at any point or while they load."""
    message = "the processes take {required:,} bytes, {available:,} are available; the parts are above"
    process_parts.check_budget(size.largest, budget, message)


def _planned(path: Path, bindings: Bindings) -> tuple[int, int] | None:
    """Bytes of the arena of a plan of the graph, and of the graph's outputs; None where it cannot be planned."""
    try:
        model = load_model(path, bindings)
        planset = plan_model(model, BUILT_IN["onnxruntime"], Settings(effort="fast"), families=("offsets",))
    except UnsupportedError:
        return None
    graph = model.graph()
    outputs = [graph.tensors[i] for i in graph.outputs]
    best = planset.best_offsets
    return best.size if best is not None else 0, sum(t.size for t in outputs if t.kind == "activation")


def _in_place(path: Path) -> frozenset[str]:
    """The inputs that the file's note keeps in one buffer with an output each: the caches of a decoder."""
    model = load_model(path)
    pairs = model.noted_states() if isinstance(model, Stateful) else ()
    return frozenset(pair.past for pair in pairs if pair.growth == "in_place")


def _stored(plans: Sequence[PlanSet], shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, int] | None) -> int:
    """The arena of a recording in the file for these inputs; 0 without one.

    Args:
        plans: in the file; recordings of this version of the runtime.
        shapes: of the inputs.
        dims: what was bound, which may lie in the ranges that the recordings are for; None if shapes were given.
    """
    graph = next((p for p in plans if p.recording is None), None)
    in_range = dims is not None and graph is not None and graph.ranges and not in_ranges(dims, graph.dims, graph.ranges)
    sizes = [0]
    for plan in plans:
        if plan.recording is None or plan.best_offsets is None or plan.recording.fingerprint.keeps_reuse:
            continue
        ran = {name: shape for name, _, shape in plan.recording.fingerprint.signature.inputs}
        if in_range or ran == shapes:
            sizes.append(plan.best_offsets.size)
    return max(sizes)


def _to_record(plans: Sequence[tuple[int, int] | None], arenas: Mapping[int, MemoryPart]) -> list[int]:
    """Which choices are to be run: those that no plan tells, and the smallest one where nothing is recorded."""
    unplanned = [k for k, plan in enumerate(plans) if plan is None and k not in arenas]
    if arenas or unplanned:
        return unplanned
    return [min(range(len(plans)), key=lambda k: plans[k] or (0, 0))]


def _answer(task: Mapping[str, Any], timeout_s: float | None) -> dict[str, Any]:
    try:
        return process_parts.child_answer(task, timeout_s or _TIMEOUT_S)
    except ChildError as e:
        advice = "; record it with inputs of its own: edgemem plan MODEL --record --input NAME=FILE.npy -o PLANNED"
        ran = advice if task["what"] == "record" else ""
        raise ModelError(f"ONNX Runtime does not run the model: {str(e)[:300]}{ran}") from None
