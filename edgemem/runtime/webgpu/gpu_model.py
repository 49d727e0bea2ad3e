"""What the GPU executor reads of a model before it opens a device: its graph, its program and a plan, proved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from edgemem import planfile
from edgemem.errors import ModelError, PlanFileError, RuntimeBindError, UnsupportedError
from edgemem.formats import Assuming, Bindings, Computable, Model, load_model, open_bytes
from edgemem.formats.claims import claim_refusal
from edgemem.model.graph import digest
from edgemem.planning.model_plan import plan_graph
from edgemem.plans import Settings
from edgemem.proof import prove
from edgemem.runtime.honoured import ON_GPU
from edgemem.system.text import join_names
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.model.graph import Graph
    from edgemem.model.tensor_ops import TensorOp, TensorProgram
    from edgemem.plans import PlanSet
    from edgemem.proof import Proved
    from edgemem.runtime.memory import Source
    from edgemem.targets import Target

__all__ = ["STORAGES", "GpuModel", "Storage", "read_gpu_model", "storage_of", "target_name"]

Storage: TypeAlias = Literal["buffer", "texture2d", "texture-linear", "texture-array"]
Precision: TypeAlias = Literal["fp32", "fp16"]

STORAGES: Final[Mapping[str, str]] = {
    "buffer": "gpu-buffer",
    "texture2d": "gpu-texture",
    "texture-linear": "gpu-texture-linear",
    "texture-array": "gpu-texture-array",
}
_PRECISIONS: Final = ("fp32", "fp16")
_QUICK: Final = Settings(("auto",), effort="fast")


@dataclass(frozen=True, slots=True, eq=False)
class GpuModel:
    """A model ready to be put on a GPU.

    Attributes:
        name: of the model, for people.
        model: what it was read from.
        graph: in the order of the plan.
        steps: for each operator in that order, its tensor operations, or why it has none.
        numbers: for each operator in that order, its number in the model's own order.
        program: the model's, in its own order.
        proved: the plan.
        source: where the plan came from.
        storage, precision: what the plan is for.
    """

    name: str
    model: Computable
    graph: Graph
    steps: tuple[tuple[TensorOp, ...] | str, ...]
    numbers: tuple[int, ...]
    program: TensorProgram
    proved: Proved
    source: Source
    storage: Storage
    precision: Precision

    @property
    def target(self) -> Target:
        """The plan's target."""
        target = self.proved.planset.target
        assert target is not None  # `_fitting` takes no other plan
        return target


def target_name(storage: str, precision: str) -> str:
    """The built-in target of a storage and a precision."""
    return STORAGES[storage] + ("-fp16" if precision == "fp16" else "")


def storage_of(target: Target | None) -> Storage | None:
    """The storage of a target for GPUs; None for another target."""
    if target is None or target.storage != "phwc4":
        return None
    if not target.texels:
        return "texture-array" if target.layer_rows else "buffer"
    return "texture-linear" if target.texel_row else "texture2d"


def read_gpu_model(
    model: str | Path | bytes | Computable,
    planset: PlanSet | None = None,
    *,
    storage: str | None = None,
    precision: str | None = None,
    dims: Mapping[str, int] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> GpuModel:
    """Read a model and prove the plan that it is to run in.

    Arguments and errors are those of `edgemem.GpuExecutor`.
    """
    _known("storage", storage, tuple(STORAGES))
    _known("precision", precision, _PRECISIONS)
    bindings = Bindings.of(dims, input_shapes)
    opened, name, reopen = _opened(model, bindings)
    source: Source = "given"
    if planset is None:
        found = _graph_plans(opened, name)
        planset = _fitting(found, storage, precision, name) if found else None
        source = "file"
    else:
        planset = _fitting((planset,), storage, precision, name)
    if planset is not None:
        _same_sizes(planset, bindings, name)
        own = Bindings(planset.dims, planset.input_shapes)
        opened = opened if reopen is None or own == bindings else reopen(own)
    computable = _computable(opened, name)
    graph = computable.graph()
    order = tuple(range(len(graph.ops)))
    if planset is None:
        if isinstance(computable, Assuming):
            computable.assumed_inputs()  # an error where nobody has said how large an input is
        target = BUILT_IN[target_name(storage or "buffer", precision or "fp32")]
        family: Any = "shared_objects" if target.texels else "offsets"
        planset = plan_graph(graph, target, _QUICK, bindings=bindings, families=(family,))
        source = "made now"
    elif planset.order is not None and digest(graph) != planset.digest:
        order = planset.order
        graph = graph.reordered(order)
    remedy = f"make another with: {_command(name, planset.target)}"
    proved = prove(planset, graph, remedy=remedy)
    program = computable.program()
    if digest(program.graph) != digest(computable.graph()) or len(program.steps) != len(graph.ops):
        raise ModelError(f"{name}: the model's program is not of its graph (a defect of its converter)")
    kind = storage_of(planset.target)
    assert kind is not None
    assert planset.target is not None
    return GpuModel(
        name,
        computable,
        graph,
        tuple(program.steps[k] for k in order),
        order,
        program,
        proved,
        source,
        kind,
        planset.target.precision,
    )


def _known(what: str, value: str | None, choices: tuple[str, ...]) -> None:
    if value is not None and value not in choices:
        raise RuntimeBindError(f"there is no {what} {value!r}; use one of {', '.join(choices)}")


def _opened(model: str | Path | bytes | Computable, bindings: Bindings) -> tuple[Any, str, Any]:
    """The model, its name, and what opens it at other sizes (None: nothing does)."""
    if isinstance(model, bytes):
        data = model
        suffix = ".tflite" if data[4:8] == b"TFL3" else ".onnx"
        return (
            open_bytes(data, suffix, bindings),
            f"a model in memory ({suffix})",
            lambda b: open_bytes(data, suffix, b),
        )
    if isinstance(model, str | Path):
        path = Path(model)
        return load_model(path, bindings), path.name, lambda b: load_model(path, b)
    return model, getattr(model, "name", type(model).__name__), None


def _graph_plans(opened: Any, name: str) -> tuple[PlanSet, ...]:
    """The plans of the graph in a model; nothing is proved. Raises PlanFileError for damaged plans."""
    data = opened.plan() if isinstance(opened, Model) else None
    if data is None:
        return ()
    found = planfile.decode_all(data)
    plans = tuple(p for p in found if p.recording is None and p.cycle is None)
    if not plans:
        raise PlanFileError(
            f"{name} carries only plans of recordings, which run as they were recorded; make a plan of the graph with: "
            f"{_command(name)}"
        )
    return plans


def _fitting(found: Sequence[PlanSet], storage: str | None, precision: str | None, name: str) -> PlanSet:
    """The first plan set for the storage and precision that are asked for.

    Raises UnsupportedError, which names the target to plan for, if there is none.
    """
    for planset in found:
        target = planset.target
        kind = storage_of(target)
        if target is None or kind is None or storage not in (None, kind) or precision not in (None, target.precision):
            continue
        if (refusal := claim_refusal(planset, ON_GPU)) is not None:
            raise RuntimeBindError(f"webgpu cannot run the plan of {name}: {refusal.why}; {refusal.advice}")
        return planset
    has = join_names(f"{p.target.name!r}" if p.target else "no target" for p in found)
    first = next((p.target for p in found if storage_of(p.target)), None)
    wanted = target_name(
        storage or storage_of(first) or "buffer", precision or (first.precision if first is not None else "fp32")
    )
    raise UnsupportedError(
        f"the plan of {name} is for {has}, and this run needs {wanted!r}; plan with: {_command(name, BUILT_IN[wanted])}"
    )


def _same_sizes(planset: PlanSet, asked: Bindings, name: str) -> None:
    """Raise RuntimeBindError if a plan was made for other sizes than the caller asks for."""
    other = [f"{n}={v}" for n, v in asked.dims.items() if planset.dims.get(n, v) != v]
    other += [
        f"{n}={','.join(map(str, shape))}"
        for n, shape in asked.input_shapes.items()
        if tuple(planset.input_shapes.get(n, shape)) != tuple(shape)
    ]
    if other or asked.ranges:
        raise RuntimeBindError(
            f"the plan is for other sizes than {' '.join(other) or 'a range'}; plan again with: "
            f"{_command(name, planset.target, ' --dim NAME=VALUE')}"
        )


def _computable(opened: Any, name: str) -> Computable:
    if not isinstance(opened, Computable):
        suffixes = " and ".join(getattr(opened, "suffixes", ("these",)))
        raise UnsupportedError(
            f"{name}: {suffixes} files do not say what their operators compute; use .onnx or .tflite"
        )
    return opened


def _command(name: str, target: Target | None = None, more: str = "") -> str:
    """What plans the model for a target."""
    suffix = Path(name).suffix
    result = f"PLANNED{suffix if suffix in ('.onnx', '.tflite') else ''}"
    return f"edgemem plan {name} --target {target.name if target else 'gpu-buffer'}{more} -o {result}"
