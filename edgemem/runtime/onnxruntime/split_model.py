"""An ONNX model split into its nodes, with the plan of its graph, proved, that they are to run in."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem import planfile
from edgemem.errors import EdgememError, NoPlanError, RuntimeBindError
from edgemem.formats import Bindings, load_model, onnx_editor
from edgemem.formats.claims import claim_refusal
from edgemem.model.dtypes import byte_size
from edgemem.model.graph import digest
from edgemem.model.ranges import Range, in_ranges, resolve
from edgemem.planning.ranges import plan_at
from edgemem.proof import prove
from edgemem.runtime.honoured import NODE_BY_NODE
from edgemem.runtime.onnxruntime.baked_file import check_place, onnxruntime, quiet_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.formats import Form, Model, Parts
    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet
    from edgemem.proof import Proved
    from edgemem.runtime.memory import Source

__all__ = ["SplitModel", "node_options", "node_refusal", "split_model"]

# The entries of a user's options that change the results of single nodes.
_ENTRIES = (
    "session.set_denormal_as_zero",
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
)
_FIELDS = ("intra_op_num_threads", "log_severity_level", "use_deterministic_compute", "use_per_session_threads")


@dataclass(frozen=True, slots=True, eq=False)
class SplitModel:
    """A model that can run node by node inside its plan.

    Attributes:
        path: the file.
        parts: the model, taken apart.
        graph: in the order of the plan.
        order: the nodes in that order.
        forms: (dtype, shape) of every input and result.
        proved: the plan.
        source: where the plan came from.
        folded: results that depend on constants alone; they are computed once.
        options: the user's session options.
    """

    path: Path
    parts: Any
    graph: Graph
    order: tuple[int, ...]
    forms: Mapping[str, Form]
    proved: Proved
    source: Source
    folded: frozenset[str]
    options: Any

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the graph's inputs."""
        return tuple(self.graph.tensors[i].name for i in self.graph.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the graph's outputs."""
        return tuple(self.graph.tensors[i].name for i in self.graph.outputs)

    @property
    def remedy(self) -> str:
        """What the user can do about a plan that cannot be run."""
        return _remedy(self.path)

    def size(self, name: str) -> int:
        """Bytes of an input or a result."""
        dtype, shape = self.forms[name]
        return byte_size(dtype, prod(shape))

    def sizes(self) -> dict[str, tuple[int, int]]:
        """(bytes, bytes of one element) of every tensor that is bound; results that are computed once are absent."""
        return {
            name: (self.size(name), byte_size(dtype, 1))
            for name, (dtype, _) in self.forms.items()
            if name not in self.folded
        }

    def pieces(self) -> Iterator[Any]:
        """The nodes as models, in order."""
        return (self.parts.piece(number, self.forms) for number in self.order)

    def check_feeds(self, feeds: Mapping[str, Any]) -> None:
        """Raise RuntimeBindError unless these are the inputs, in the sizes that the model was split for."""
        if set(feeds) != set(self.inputs):
            raise RuntimeBindError(f"the inputs are {', '.join(self.inputs)}, and not {', '.join(feeds) or 'none'}")
        for name, value in feeds.items():
            dtype, shape = self.forms[name]
            if not isinstance(value, np.ndarray) or value.dtype.name != dtype:
                fed = getattr(value, "dtype", type(value).__name__)
                raise RuntimeBindError(f"{name!r} is fed with {fed}, planned as {dtype}")
            if value.shape != shape:
                raise RuntimeBindError(
                    f"{name!r} is fed with the shape {value.shape}, planned as {shape}; {self.remedy} with --dim or "
                    "--input-shape"
                )


def split_model(
    path: str | Path,
    planset: PlanSet | None = None,
    *,
    bindings: Bindings | None = None,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    options: Any = None,
) -> SplitModel:
    """Split a model and prove the plan of its graph.

    Args:
        path: an .onnx file.
        planset: a plan made for this file, to run instead of the one in it.
        bindings: the sizes to run the plan in. Where a plan holds for a range, the largest are the default.
        feeds: inputs by name; of a plan for a range they say the sizes.
        options: `onnxruntime.SessionOptions`, of which those hold that change the results of single nodes.

    Raises:
        ModelError: the file cannot be read, or a dimension is unknown.
        PlanFileError: the file has no plan of its graph, or a damaged one.
        InvalidPlanError, StalePlanError: the plan is wrong, or belongs to another model.
        RuntimeBindError: the plan is for other sizes or another executor, or the model cannot be split, or was
            optimised elsewhere.
    """
    path = Path(path)
    opened = load_model(path)
    check_place(opened.content())
    source: Source = "file" if planset is None else "given"
    planset = planset or _graph_plan(opened, path)
    refusal = claim_refusal(planset, NODE_BY_NODE)
    if refusal is not None:
        raise refusal.error("io-binding", path)
    wanted = bindings or Bindings()
    parts = onnx_editor().parts(opened.content(), path.parent)
    if feeds is not None and planset.ranges:
        wanted = Bindings({**wanted.dims, **_fed_sizes(parts, feeds)}, wanted.input_shapes)
    bound = Bindings(_dims_within(path, planset, wanted), planset.input_shapes)
    if bound != Bindings():
        opened = load_model(path, bound)
        parts = onnx_editor().parts(opened.content(), path.parent)
    graph, order = opened.graph(), planset.order
    if order is not None and digest(graph) != planset.digest:
        graph = graph.reordered(order)
    else:
        order = tuple(range(len(graph.ops)))
    if bound.dims != dict(planset.dims):  # other sizes of its range: proved for these, too
        planset = plan_at(planset, graph, bound.dims)
    proved = prove(planset, graph, remedy=_remedy(path))
    if refusal_of_nodes := _refusal_of_nodes(graph, parts):
        raise RuntimeBindError(f"{path.name} does not run inside the plan: {refusal_of_nodes}")
    folded = _folded(graph)
    forms = {t.name: (t.dtype, t.shape) for t in graph.tensors if t.kind == "activation" or t.name in folded}
    return SplitModel(path, parts, graph, order, forms, proved, source, folded, options)


def node_refusal(model: Model) -> str:
    """Why a model does not run node by node, as far as its graph tells; "" if nothing is known."""
    content = model.content()
    try:
        check_place(content)
        return _refusal_of_nodes(model.graph(), onnx_editor().parts(content, Path()))
    except EdgememError as e:
        return str(e)


def _refusal_of_nodes(graph: Graph, parts: Parts) -> str:
    refusals = [f"{t.name!r} is {t.note or t.dtype}" for t in graph.tensors if t.kind == "opaque"]
    refusals += [f"{t.name!r} keeps its value between runs" for t in graph.tensors if t.kind == "variable"]
    return next(iter((*refusals, *parts.refusals())), "")


def _graph_plan(model: Model, path: Path) -> PlanSet:
    data = model.plan()
    found = () if data is None else planfile.decode_all(data)
    planset = next((p for p in found if p.recording is None), None)
    if planset is None:
        has = "only plans of recordings, which run as they were recorded (--executor replay)" if found else "no plan"
        raise NoPlanError(f"{path.name} carries {has}; {_remedy(path, make='make one with')}")
    return planset


def _remedy(path: Path, make: str = "make another with") -> str:
    return f"{make}: edgemem plan {path.name} -o PLANNED.onnx"


def _fed_sizes(parts: Any, feeds: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """The sizes of the symbols in the inputs' shapes. Raises RuntimeBindError for feeds that contradict each other."""
    values: dict[str, int] = {}
    for name, (_, declared) in parts.input_forms().items():
        if name not in feeds:
            continue  # it is made up
        shape: Sequence[int] = feeds[name].shape
        if len(shape) != len(declared):
            raise RuntimeBindError(f"{name!r} is fed with the shape {shape}, which has another rank than the model's")
        for symbol, size in zip(declared, shape, strict=True):
            if isinstance(symbol, str) and values.setdefault(symbol, size) != size:
                raise RuntimeBindError(f"the inputs are fed with {values[symbol]} and {size} for {symbol!r}")
    return values


def _dims_within(path: Path, planset: PlanSet, bindings: Bindings) -> dict[str, int]:
    """The sizes to run the plan in: those asked for, and besides the largest that it holds for.

    Raises RuntimeBindError if the plan was made for other sizes than the caller asks for.
    """
    ends = {name: made for name, made in planset.ranges.items() if isinstance(made, Range)}
    sums = planset.ranges.keys() - ends.keys()
    other = [
        f"{name}={value}"
        for name, value in bindings.dims.items()
        if name not in sums and in_ranges({name: value}, planset.dims, ends)
    ]
    other += [
        f"{name}={','.join(map(str, shape))}"
        for name, shape in bindings.input_shapes.items()
        if tuple(planset.input_shapes.get(name, shape)) != tuple(shape)
    ]
    if other:
        held = f" (it holds for {', '.join(f'{n}={r}' for n, r in planset.ranges.items())})" if planset.ranges else ""
        raise RuntimeBindError(
            f"the plan is for other sizes than {' '.join(other)}{held}; {_remedy(path)} with --dim or --input-shape"
        )
    return resolve(planset.dims, planset.ranges, {n: v for n, v in bindings.dims.items() if n in planset.dims})


def _folded(graph: Graph) -> frozenset[str]:
    written = {i for op in graph.ops for i in op.outputs if i >= 0}
    return frozenset(t.name for i, t in enumerate(graph.tensors) if t.kind == "constant" and i in written)


def node_options(options: Any = None) -> Any:
    """Options of a session for one node: no optimisation, no arena; one thread unless the user's options say more."""
    ort = onnxruntime()
    made = quiet_options()
    made.intra_op_num_threads = 1
    if options is not None:
        for name in _FIELDS:
            if hasattr(options, name):  # use_per_session_threads came with 1.23
                setattr(made, name, getattr(options, name))
        for key in _ENTRIES:
            try:
                made.add_session_config_entry(key, options.get_session_config_entry(key))
            except RuntimeError:
                continue  # not set
        if not options.intra_op_num_threads:
            made.intra_op_num_threads = 1
    if made.intra_op_num_threads > 1:  # each node has a thread pool: its threads must not wait for work in a busy loop
        made.add_session_config_entry("session.intra_op.allow_spinning", "0")
    made.inter_op_num_threads = 1
    made.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    made.enable_cpu_mem_arena = False
    made.enable_mem_pattern = False
    return made
