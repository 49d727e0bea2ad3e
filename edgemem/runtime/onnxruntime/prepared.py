"""What the IO-binding executor reads of a model before it builds a session: its pieces, forms and plan."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem import planfile
from edgemem.errors import PlanFileError, RuntimeBindError
from edgemem.formats import Bindings, load_model, onnx_editor
from edgemem.model.dtypes import byte_size
from edgemem.model.graph import digest
from edgemem.model.ranges import Range, in_ranges, resolve
from edgemem.planning.ranges import plan_at
from edgemem.plans import Settings
from edgemem.proof import prove
from edgemem.runtime.arguments import Argument, argument
from edgemem.runtime.feeds import make_feeds
from edgemem.runtime.onnxruntime.optimise import LEVELS, baked_note, onnxruntime, optimised
from edgemem.runtime.onnxruntime.profile import kernels_run
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet
    from edgemem.proof import Proved
    from edgemem.runtime.arguments import Form
    from edgemem.runtime.memory import Source

__all__ = [
    "QUICK",
    "Prepared",
    "embedded_plan",
    "prepare",
    "profiled_forms",
    "sub_options",
]

# The entries of a user's options that change the results of single nodes.
_ENTRIES = (
    "session.set_denormal_as_zero",
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
)
_FATAL, _ERROR = 4, 3  # log severities
_FIELDS = ("intra_op_num_threads", "log_severity_level", "use_deterministic_compute", "use_per_session_threads")
# They are quick even without compiled kernels.
QUICK = ("offsets/greedy_by_size", "offsets/greedy_by_breadth", "offsets/greedy_in_order")


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A model ready to be run in pieces, or the reason why it is not.

    Attributes:
        path: the model. level: how far ONNX Runtime optimised it.
        parts: the graph that runs, taken apart; None with a reason.
        forms: (dtype, shape) of every input and result.
        proved: the plan; None with a reason.
        source: where the plan came from.
        order: the nodes in the order of the plan.
        folded: results that depend on constants alone; they are computed once.
        inputs, outputs: as the caller sees them.
        options: the user's.
        reason: why it cannot be run in pieces, or "".
        graph: the graph that runs, in the order of the plan; None with a reason.
    """

    path: Path
    level: str
    parts: Any
    forms: Mapping[str, Form]
    proved: Proved | None
    source: Source
    order: tuple[int, ...]
    folded: frozenset[str]
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    options: Any
    reason: str = ""
    graph: Graph | None = None

    @property
    def names_in(self) -> tuple[str, ...]:
        """The inputs' names."""
        return tuple(a.name for a in self.inputs)

    @property
    def remedy(self) -> str:
        """What the user can do about a plan that cannot be run."""
        return _remedy(self.path)

    def size(self, form: Form) -> int:
        """Bytes."""
        return byte_size(form[0], prod(form[1]))

    def sizes(self) -> dict[str, tuple[int, int]]:
        """(bytes, bytes of one element) of every tensor that is bound; results that are computed once are absent."""
        return {
            name: (self.size(form), byte_size(form[0], 1))
            for name, form in self.forms.items()
            if name not in self.folded
        }

    def pieces(self) -> Iterator[Any]:
        """The nodes as models, in order."""
        return (self.parts.piece(number, self.forms) for number in self.order)

    def constant(self, name: str) -> NDArray[Any]:
        """The values of an initializer."""
        values: NDArray[Any] = self.parts.constant(name)
        return values

    def plain(self, providers: Sequence[Any]) -> Any:
        """The model as one session of ONNX Runtime, optimised as this one is, without any sizes bound."""
        ort = onnxruntime()
        options = sub_options(self.options)
        options.enable_cpu_mem_arena = options.enable_mem_pattern = True
        options.log_severity_level = min(options.log_severity_level, _ERROR)
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[self.level])
        return ort.InferenceSession(str(self.path), options, providers=list(providers))


def prepare(
    model_path: str | Path,
    planset: PlanSet | None = None,
    *,
    make: bool = False,
    level: str = "all",
    feeds: Mapping[str, NDArray[Any]] | None = None,
    bindings: Bindings | None = None,
    options: Any = None,
    strategy: str | Sequence[str] | None = None,
) -> Prepared:
    """As `io_binding.make_session`; with `make`, a plan is made where the file has none."""
    path = Path(model_path)
    bindings = bindings or Bindings()
    if planset is not None:
        return _with_plan(path, planset, "given", bindings, options)
    if strategy is None:
        embedded = embedded_plan(path, missing_ok=make)
        if embedded is not None:
            return _with_plan(path, embedded, "file", bindings, options)
    return _made_now(path, level, feeds, bindings, options, QUICK if strategy is None else strategy)


def embedded_plan(path: Path, *, missing_ok: bool = False) -> PlanSet | None:
    """The plan set of the graph in a model file; nothing is proved.

    Raises PlanFileError if it is damaged, or if there is none, unless that is allowed: it is None then.
    """
    data = load_model(path).plan()
    found = () if data is None else planfile.decode_all(data)
    planset = next((p for p in found if p.recording is None), None)
    if planset is None and not missing_ok:
        has = "only plans of recordings, which run as they were recorded (--executor replay)" if found else "no plan"
        raise PlanFileError(f"{path.name} carries {has}; {_remedy(path, make='make one with')}")
    return planset


def _remedy(path: Path, make: str = "make another with") -> str:
    return f"{make}: edgemem plan {path.name} -o PLANNED.onnx"


def _made_now(
    path: Path,
    level: str,
    given: Mapping[str, NDArray[Any]] | None,
    bindings: Bindings,
    options: Any,
    strategy: str | Sequence[str],
) -> Prepared:
    """ONNX Runtime's optimised graph, with sizes from a profiled run and a plan made for it here."""
    opened = load_model(path)
    baked = baked_note(path)
    dims = bindings.dims
    if baked:
        level, dims = "none", {**baked.dims, **dims}
    data = opened.content() if baked else optimised(path, level, dims=dims)
    parts = onnx_editor().parts(data, path.parent)
    forms_in = parts.input_forms()
    feeds = dict(given) if given else make_feeds(forms_in, Bindings(dims, bindings.input_shapes))
    inputs = {n: (str(feeds[n].dtype.name), feeds[n].shape) for n in forms_in if n in feeds}
    refusals = parts.refusals()
    forms: dict[str, Form] = dict(inputs)
    reason = refusals[0] if refusals else ""
    if not reason:
        missing = profiled_forms(parts, feeds, options, forms)
        reason = f"ONNX Runtime's profile does not show {missing!r}" if missing else ""
    folded: frozenset[str] = frozenset()
    proved = graph = None
    if not reason:
        graph = parts.graph(forms)
        folded = _folded(graph)
        proved = prove(_plan(graph, strategy), graph)
    return Prepared(
        path=path,
        level=level,
        parts=parts,
        forms=forms,
        proved=proved,
        source="made now",
        order=tuple(range(len(parts.names))),
        folded=folded,
        inputs=tuple(argument(n, f) for n, f in inputs.items()),
        outputs=tuple(argument(n, forms[n]) if n in forms else Argument(n, "", []) for n in parts.outputs),
        options=options,
        reason=reason,
        graph=graph,
    )


def _with_plan(path: Path, planset: PlanSet, source: Source, bindings: Bindings, options: Any) -> Prepared:
    """The file's graph as it stands, under a plan that was made for it."""
    if planset.recording is not None:
        raise RuntimeBindError(
            "a plan of a recording runs as it was recorded (edgemem.InferenceSession), not node by node; "
            f"{_remedy(path, make='make a plan of the graph with')}"
        )
    dims = _dims_within(path, planset, bindings)
    opened = load_model(path, Bindings(dims, planset.input_shapes))
    graph, order = _graph_and_order(opened, planset)
    if dims != dict(planset.dims):  # other sizes of its range: proved for these, too
        planset = plan_at(planset, graph, dims)
    proved = prove(planset, graph, remedy=_remedy(path))
    if planset.target is not None and not planset.target.is_dense:
        raise RuntimeBindError(
            f"the plan is for the target {planset.target.name!r} and {planset.target.kept}; {_remedy(path)} "
            "--target generic"
        )
    if planset.target is not None and planset.target.scratch != "unknown":
        raise RuntimeBindError(
            f"the plan is for the target {planset.target.name!r} with the workspace of other kernels; {_remedy(path)} "
            "--target onnxruntime"
        )
    parts = onnx_editor().parts(opened.content(), path.parent)
    folded = _folded(graph)
    forms = {t.name: (t.dtype, t.shape) for t in graph.tensors if t.kind == "activation" or t.name in folded}
    refusals = [f"{t.name!r} is {t.note or t.dtype}" for t in graph.tensors if t.kind == "opaque"]
    refusals += [f"{t.name!r} keeps its value between runs" for t in graph.tensors if t.kind == "variable"]
    refusals += parts.refusals()
    inputs, outputs = (
        tuple(argument(n, forms[n]) if n in forms else Argument(n, "", []) for n in names)
        for names in ([graph.tensors[i].name for i in side] for side in (graph.inputs, graph.outputs))
    )
    return Prepared(
        path=path,
        level="none",
        parts=parts,
        forms=forms,
        proved=proved,
        source=source,
        order=order,
        folded=folded,
        inputs=inputs,
        outputs=outputs,
        options=options,
        reason=refusals[0] if refusals else "",
        graph=graph,
    )


def _graph_and_order(opened: Model, planset: PlanSet) -> tuple[Graph, tuple[int, ...]]:
    """The graph in the order that the plan was made for, and that order."""
    graph = opened.graph()
    if planset.order is not None and digest(graph) != planset.digest:
        return graph.reordered(planset.order), planset.order
    return graph, tuple(range(len(graph.ops)))


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


def profiled_forms(parts: Any, feeds: Mapping[str, NDArray[Any]], options: Any, forms: dict[str, Form]) -> str:
    """Run the graph and add the form of every result to `forms`; returns the first node that did not run, or ""."""
    ort = onnxruntime()
    plain = sub_options(options)
    plain.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    ran = {k.node: k.outputs for k in kernels_run(parts.named(), [dict(feeds)], plain)}
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
    from edgemem.planning.model_plan import plan_graph  # imported on use: a session with a plan needs no planner

    names = (strategy,) if isinstance(strategy, str) else tuple(strategy)
    return plan_graph(graph, BUILT_IN["onnxruntime"], Settings(names), families=("offsets",))


def sub_options(options: Any) -> Any:
    """Options of a session for one node: no optimisation, no arena; one thread unless the user's options say more."""
    ort = onnxruntime()
    made = ort.SessionOptions()
    made.intra_op_num_threads = 1
    made.log_severity_level = _FATAL  # errors are caught, and reported as the reason
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
