"""Where each tensor inside LiteRT goes in an arena of ours: a plan for what LiteRT shows of a prepared model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from edgemem.errors import EdgememError, InvalidPlanError
from edgemem.formats import open_bytes
from edgemem.model.graph import digest
from edgemem.planning import choices, make_plans
from edgemem.proof import verify_planset
from edgemem.records.lifetime import lifetimes
from edgemem.runtime.litert.probe import annotate
from edgemem.targets import BUILT_IN, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgemem.formats import Model
    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet
    from edgemem.runtime.litert.probe import Probe

__all__ = [
    "Inputs",
    "Layout",
    "as_litert_has_it",
    "bound_target",
    "from_file",
    "graph_of",
    "open_tflite",
    "planned",
    "why_not",
]

Inputs: TypeAlias = Literal["keep", "release"]

# Quick, and at least one of them is never worse than LiteRT's own planner.
_QUICK: Final = ("offsets/greedy_by_size", "offsets/greedy_by_breadth", "offsets/litert_arena")


@dataclass(frozen=True, slots=True)
class Layout:
    """Places in the arena.

    Attributes:
        places: (tensor index, offset, bytes) of the main subgraph's tensors, workspace included.
        size: of the arena in bytes.
        planset: the plan it comes from; None for LiteRT's own layout.
        origin: where the plan is from, in words.
    """

    places: tuple[tuple[int, int, int], ...]
    size: int
    planset: PlanSet | None
    origin: str


def bound_target(inputs: Inputs) -> Target:
    """The rules of an arena that LiteRT's builtin kernels run in."""
    return replace(
        BUILT_IN["litert"],
        name=f"litert-{inputs}",
        inputs="whole_run" if inputs == "keep" else "until_last_use",
        unread="one_op",
        variables="outside",
        aliasing="elementwise",
    )


def open_tflite(data: bytes) -> Model:
    """A .tflite file in memory, as its converter gives it. Raises ModelError if it is damaged."""
    return open_bytes(data, ".tflite")


def graph_of(model: Any, probed: Probe) -> Graph:
    """The graph of a model as LiteRT runs it; what was taken out of its arena counts as in it."""
    main = probed.main
    inside = tuple(replace(t, allocation="arena") if t.allocation == "custom" else t for t in main.tensors)
    return annotate(model.graph(), replace(probed, subgraphs=(replace(main, tensors=inside), *probed.subgraphs[1:])))


def why_not(graph: Graph, probed: Probe) -> str:
    """Why no memory can be given to the tensors of a model beforehand, or ""."""
    # Workspace may be dynamic: nothing else depends on its size.
    own = probed.main.tensors[: len(graph.tensors)]
    written = {own[i].name for op in graph.ops for i in op.outputs if i >= 0}
    dynamic = [i for i, t in enumerate(own) if t.allocation in ("dynamic", "variant")]
    if dynamic:
        names = ", ".join(repr(probed.main.tensors[i].name) for i in dynamic[:3])
        more = f" and {len(dynamic) - 3} more" if len(dynamic) > 3 else ""
        return f"LiteRT decides the size of {names}{more} as it runs"
    waiting = [t.name for t in own if t.allocation == "arena" and t.size and not t.address and t.name in written]
    if waiting:
        return f"LiteRT places {waiting[0]!r} and {len(waiting) - 1} more only as it runs, when it knows other sizes"
    if any(op.bodies and op.type != "CALL_ONCE" for op in graph.ops):
        return "it runs branches or loops, whose subgraphs share tensors with the main one"
    return ""


def planned(
    graph: Graph,
    probed: Probe,
    inputs: Inputs,
    strategy: str | Sequence[str] | None,
    given: PlanSet | None,
    *,
    trust: bool = False,
) -> Layout:
    """A layout for a graph: by the plan that is given (proved, unless it is to be trusted), or the smallest of a few.

    Raises InvalidPlanError if the given plan is not right for this graph inside this LiteRT.
    """
    if given is not None:
        if not trust:
            _prove(given, graph)
        return _laid_out(graph, probed, given, "the plan it was given")
    names = (strategy,) if isinstance(strategy, str) else tuple(strategy or _QUICK)
    wanted = [choice for name in names for choice in choices(name)]
    candidates = []
    # Under LiteRT's rules its own planner competes, so nothing is ever larger than what it would take.
    for rules in (bound_target(inputs), *((BUILT_IN["litert"],) if inputs == "keep" else ())):
        lives = lifetimes(graph, rules)
        plans = make_plans(lives.problem, wanted, families=("offsets",))
        about = {"target": rules, "digest": digest(graph), "steps": lives.steps, "unplanned": lives.unplanned}
        candidates.append(replace(plans, **about))
    planset = min(candidates, key=lambda p: p.best_offsets.size if p.best_offsets else 0)
    _prove(planset, graph)
    return _laid_out(graph, probed, planset, "planned as it was loaded")


def from_file(model: Any, graph: Graph, probed: Probe, inputs: Inputs) -> Layout | None:
    """A layout by the plan that the file carries, if it is one for LiteRT and right here."""
    from edgemem import planfile

    data = model.plan()
    if data is None:
        return None
    try:
        planset = planfile.decode(data)
        rules = planset.target
        if rules is None or rules.scratch != "litert" or planset.best_offsets is None:
            return None
        if inputs == "keep" and rules.inputs == "until_last_use":
            return None
        _prove(planset, graph)
    except EdgememError:
        return None  # made for another LiteRT or other sizes; a new one takes milliseconds
    return _laid_out(graph, probed, planset, "the plan in the file")


def as_litert_has_it(probed: Probe, bound: Iterable[int] | None = None) -> Layout:
    """LiteRT's own layout of what is in its arena, moved into ours; of some tensors or of all."""
    tensors = probed.main.tensors
    mine = [i for i, t in enumerate(tensors) if t.allocation == "arena" and t.address and t.size]
    if bound is not None:
        mine = [i for i in mine if i in set(bound)]
    base = min((tensors[i].address for i in mine), default=0)
    places = tuple((i, tensors[i].address - base, tensors[i].size) for i in mine)
    return Layout(places, max((o + s for _, o, s in places), default=0), None, "LiteRT's own layout")


def _prove(planset: PlanSet, graph: Graph) -> None:
    if planset.best_offsets is None:
        raise InvalidPlanError("the plan has no offsets; LiteRT runs in one arena")
    violations = verify_planset(planset, graph)
    if violations:
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        raise InvalidPlanError(f"the plan is refused: {violations[0]}{more}", violations=violations)


def _laid_out(graph: Graph, probed: Probe, planset: PlanSet, origin: str) -> Layout:
    """Where a plan's records go, by tensor index. Raises InvalidPlanError if a tensor in use has no place."""
    best = planset.best_offsets
    assert best is not None
    index = {t.name: i for i, t in enumerate(graph.tensors)}
    main = probed.main
    for op, temporaries in zip(graph.ops, main.scratch, strict=True):
        mine = [i for i in temporaries if main.tensors[i].allocation == "arena"]
        index |= {f"{op.name or op.type}:scratch{k}": i for k, i in enumerate(mine)}
    places = {}
    for record, offset in zip(planset.problem.records, best.offsets.tolist(), strict=True):
        for name in record.tensors or (record.name,):
            if offset % 64:
                raise InvalidPlanError(f"{name!r} is at offset {offset}; LiteRT's kernels want multiples of 64")
            if name not in index:
                raise InvalidPlanError(f"the plan places {name!r}, which the model does not have")
            if record.kind != "variable":
                places[index[name]] = offset
    used = {i for op in graph.ops for i in (*op.inputs, *op.outputs)} | {*graph.inputs, *graph.outputs}
    for i in used:
        if i >= 0 and i not in places and main.tensors[i].allocation in ("arena", "custom") and main.tensors[i].size:
            raise InvalidPlanError(f"the plan has no place for {main.tensors[i].name!r}")
    sized = tuple((i, offset, main.tensors[i].size) for i, offset in sorted(places.items()))
    return Layout(sized, max((o + s for _, o, s in sized), default=0), planset, origin)
