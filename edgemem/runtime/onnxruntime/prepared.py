"""What the IO-binding executor needs to know of a model before it builds a session: its pieces, forms and plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem import formats
from edgemem.errors import InvalidPlanError, ModelError, StalePlanError
from edgemem.formats import Bindings, Model, onnx_editor
from edgemem.model.dtypes import byte_size
from edgemem.model.graph import digest
from edgemem.proof import Cause, verify_planset
from edgemem.runtime.feeds import example_feeds
from edgemem.runtime.onnxruntime.optimise import LEVELS, baked_note, kernels_run, onnxruntime, optimised
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet
    from edgemem.proof import Violation

__all__ = ["QUICK", "Argument", "Form", "Prepared", "prepare", "profiled_forms", "sub_options"]

Form = tuple[str, tuple[int, ...]]

# What of a user's options also changes the results of a single node.
_ENTRIES = (
    "session.set_denormal_as_zero",
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
)
_FATAL, _ERROR = 4, 3  # log severities
_FIELDS = ("intra_op_num_threads", "log_severity_level", "use_deterministic_compute", "use_per_session_threads")
# They take no time worth mentioning, and need no compiled kernels.
QUICK = ("offsets/greedy_by_size", "offsets/greedy_by_breadth", "offsets/greedy_in_order")
_TYPES = {"float32": "float", "float64": "double"}


@dataclass(frozen=True, slots=True)
class Argument:
    """An input or output, with the attributes of `onnxruntime.NodeArg`; every dimension is known."""

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A model ready to be run in pieces, or the reason why it is not.

    Attributes:
        path: the model. level: how far ONNX Runtime optimised it.
        parts: the graph that runs, taken apart; None with a reason.
        forms: (dtype, shape) of every input and result.
        planset: the plan; None with a reason.
        order: the nodes in the order of the plan.
        folded: results that follow from constants alone; they are computed once.
        inputs, outputs: as the caller sees them.
        options: the user's.
        reason: why it cannot be run in pieces, or "".
    """

    path: Path
    level: str
    parts: Any
    forms: Mapping[str, Form]
    planset: PlanSet | None
    order: tuple[int, ...]
    folded: frozenset[str]
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    options: Any
    reason: str = ""

    @property
    def names_in(self) -> tuple[str, ...]:
        """The inputs' names."""
        return tuple(a.name for a in self.inputs)

    def size(self, form: Form) -> int:
        """Bytes."""
        return byte_size(form[0], prod(form[1]))

    def pieces(self) -> Iterator[Any]:
        """The nodes as models, in order."""
        return (self.parts.piece(number, self.forms) for number in self.order)

    def constant(self, name: str) -> NDArray[Any]:
        """The values of an initializer."""
        values: NDArray[Any] = self.parts.constant(name)
        return values

    def plain(self) -> Any:
        """The model as one session of ONNX Runtime, optimised as this one is, without any sizes bound."""
        ort = onnxruntime()
        options = sub_options(self.options)
        options.enable_cpu_mem_arena = options.enable_mem_pattern = True
        options.log_severity_level = min(options.log_severity_level, _ERROR)
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[self.level])
        return ort.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])


def prepare(
    model_path: str | Path,
    planset: PlanSet | None,
    *,
    level: str,
    feeds: Mapping[str, NDArray[Any]] | None,
    dims: Mapping[str, int],
    input_shapes: Mapping[str, Sequence[int]],
    options: Any,
    strategy: str | Sequence[str],
) -> Prepared:
    """See `io_binding.make_session`."""
    path = Path(model_path)
    if planset is not None:
        return _with_plan(path, planset, options)
    opened = formats.load(path)
    if not isinstance(opened, Model):
        raise ModelError(f"{path.name} holds usage records, which cannot be run")
    baked = baked_note(path)
    if baked:
        level, dims = "none", {**baked.dims, **dims}
    data = opened.content() if baked else optimised(path, level, dims=dims)
    parts = onnx_editor().parts(data, path.parent)
    feeds = dict(feeds) if feeds else example_feeds(parts.input_forms(), dims=dims, input_shapes=input_shapes)
    names = {k: v for k, v in parts.input_forms().items() if k in feeds}
    inputs = {n: (str(feeds[n].dtype.name), feeds[n].shape) for n in names}
    refusals = parts.refusals()
    forms: dict[str, Form] = dict(inputs)
    reason = refusals[0] if refusals else ""
    if not reason:
        missing = profiled_forms(parts, feeds, options, forms)
        reason = f"ONNX Runtime's profile does not show {missing!r}" if missing else ""
    order = tuple(range(len(parts.names)))
    folded: frozenset[str] = frozenset()
    if not reason:
        graph = parts.graph(forms)
        folded = _folded(graph)
        planset = _plan(graph, strategy)
    return Prepared(
        path,
        level,
        parts,
        forms,
        planset,
        order,
        folded,
        tuple(_argument(n, f) for n, f in inputs.items()),
        tuple(_argument(n, forms[n]) if n in forms else Argument(n, "", []) for n in parts.outputs),
        options,
        reason,
    )


def _with_plan(path: Path, planset: PlanSet, options: Any) -> Prepared:
    opened = formats.load(path, Bindings(planset.dims, planset.input_shapes))
    if not isinstance(opened, Model):
        raise ModelError(f"{path.name} holds usage records, which cannot be run")
    graph = opened.graph()
    order = tuple(range(len(graph.ops)))
    if planset.order is not None and digest(graph) != planset.digest:
        order = planset.order
        graph = graph.reordered(order)
    _refuse_invalid(verify_planset(planset, graph))
    parts = onnx_editor().parts(opened.content(), path.parent)
    folded = _folded(graph)
    forms = {t.name: (t.dtype, t.shape) for t in graph.tensors if t.kind == "activation" or t.name in folded}
    refusals = [f"{t.name!r} is {t.note or t.dtype}" for t in graph.tensors if t.kind == "opaque"]
    refusals += [f"{t.name!r} keeps its value between runs" for t in graph.tensors if t.kind == "variable"]
    refusals += parts.refusals()
    inputs, outputs = (
        tuple(_argument(n, forms[n]) if n in forms else Argument(n, "", []) for n in names)
        for names in ([graph.tensors[i].name for i in side] for side in (graph.inputs, graph.outputs))
    )
    return Prepared(
        path,
        "none",
        parts,
        forms,
        planset,
        order,
        folded,
        inputs,
        outputs,
        options,
        refusals[0] if refusals else "",
    )


def profiled_forms(parts: Any, feeds: Mapping[str, NDArray[Any]], options: Any, forms: dict[str, Form]) -> str:
    """Add the form of every result, as one run of the graph shows it; the first node that did not run, or ""."""
    ort = onnxruntime()
    plain = sub_options(options)
    plain.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    ran = {k.node: k.outputs for k in kernels_run(parts.named(), dict(feeds), plain)}
    for name, outputs in zip(parts.names, parts.node_outputs, strict=True):
        present = [n for n in outputs if n]
        if len(ran.get(name, ())) != len(present):
            return str(name)
        forms.update(zip(present, ran[name], strict=True))
    return ""


def _folded(graph: Graph) -> frozenset[str]:
    written = {i for op in graph.ops for i in op.outputs if i >= 0}
    return frozenset(t.name for i, t in enumerate(graph.tensors) if t.kind == "constant" and i in written)


def _plan(graph: Graph, strategy: str | Sequence[str]) -> PlanSet:
    from edgemem.planning import choices, make_plans
    from edgemem.records.lifetime import lifetimes  # a session with a plan needs no planner

    names = (strategy,) if isinstance(strategy, str) else tuple(strategy)
    target = BUILT_IN["onnxruntime"]
    lives = lifetimes(graph, target)
    wanted = tuple(choice for name in names for choice in choices(name))
    made = make_plans(lives.problem, wanted, families=("offsets",))
    planset = replace(made, target=target, digest=digest(graph), steps=lives.steps, unplanned=lives.unplanned)
    _refuse_invalid(verify_planset(planset, graph))
    return planset


def _refuse_invalid(violations: Sequence[Violation]) -> None:
    if violations:
        kind = StalePlanError if violations[0].cause is Cause.STALE_DIGEST else InvalidPlanError
        raise kind(f"the plan is refused: {violations[0]}", violations=violations)


def sub_options(options: Any) -> Any:
    """Options of a session for one node: nothing optimised, nothing kept; one thread unless the user says otherwise."""
    ort = onnxruntime()
    made = ort.SessionOptions()
    made.intra_op_num_threads = 1
    made.log_severity_level = _FATAL  # an error is handled, and told as a reason
    if options is not None:
        for name in _FIELDS:
            setattr(made, name, getattr(options, name))
        for key in _ENTRIES:
            try:
                made.add_session_config_entry(key, options.get_session_config_entry(key))
            except RuntimeError:
                continue  # not set
        if not options.intra_op_num_threads:
            made.intra_op_num_threads = 1
    if made.intra_op_num_threads > 1:  # a pool for every node: they must not wait for work in a busy loop
        made.add_session_config_entry("session.intra_op.allow_spinning", "0")
    made.inter_op_num_threads = 1
    made.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    made.enable_cpu_mem_arena = False
    made.enable_mem_pattern = False
    return made


def _argument(name: str, form: Form) -> Argument:
    return Argument(name, f"tensor({_TYPES.get(form[0], form[0])})", list(form[1]))
