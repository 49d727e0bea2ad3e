"""Random graphs, their honest plans, and changes of these: what edgemem's verify says against what the checker says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

import edgemem
from edgemem import planfile
from edgemem.errors import EdgememError, InvalidPlanError
from edgemem.formats import find_probe, open_bytes
from edgemem.model.graph import digest
from edgemem.targets import BUILT_IN
from tests.oracle.memory_plans.checker import Checker
from tests.oracle.memory_plans.mutations import mutated
from tests.oracle.memory_plans.onnx_file import read_onnx
from tests.oracle.memory_plans.program import Program, Unknown
from tests.oracle.memory_plans.random_onnx import random_onnx
from tests.oracle.memory_plans.random_targets import random_target
from tests.oracle.memory_plans.random_tflite import random_tflite
from tests.oracle.memory_plans.tflite_file import read_tflite

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem import PlanSet, Target
    from edgemem.model.graph import Graph

__all__ = ["FORMS", "Case", "Tally", "check_graph", "check_random", "compare", "litert_case", "random_case"]

_THROUGH_A_FILE = 8  # every so manieth refused change is tried from a plan file, too

FORMS = ("onnx", "tflite", "litert")  # files of the two formats, and .tflite files under the target litert

_STRATEGIES = (
    ("offsets/greedy_by_size", "shared_objects/greedy_by_size"),
    ("offsets/greedy_by_size", "shared_objects/greedy_by_size"),
    ("offsets/greedy_by_breadth", "shared_objects/greedy_in_order"),
    ("offsets/greedy_in_order", "shared_objects/greedy_by_breadth"),
    ("offsets/search:effort=fast", "shared_objects/greedy_by_size_improved"),
)


@dataclass(slots=True)
class Tally:
    """What was found.

    Attributes:
        graphs: by format.
        honest: plan sets that edgemem made, by verdict.
        changes: (kind, whether the checker says wrong, whether verify accepts) -> how many.
        findings: what is a defect of edgemem, or of the checker, each in one line that says how to have it again.
        not_planned: why there was no plan.
    """

    graphs: Counter[str] = field(default_factory=Counter)
    honest: Counter[str] = field(default_factory=Counter)
    changes: Counter[tuple[str, bool, bool]] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    not_planned: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        for name in ("graphs", "honest", "changes", "not_planned"):
            getattr(self, name).update(getattr(other, name))
        self.findings += other.findings

    @property
    def mutations(self) -> int:
        return sum(self.changes.values())


@dataclass(slots=True)
class Case:
    """A graph: as edgemem reads it, and as the checker does."""

    name: str
    form: str
    graph: Graph
    checker: Checker


def random_case(form: str, seed: int) -> Case:
    """The random graph of a format with this number."""
    rng, name = Random(f"{form} {seed}"), f"{form} {seed}"
    if form == "onnx":
        data, forms = random_onnx(rng)
        return Case(name, form, open_bytes(data, ".onnx").graph(), Checker(read_onnx(data, shapes=forms)))
    data = random_tflite(rng, runs=form == "litert")
    if form == "litert":
        return litert_case(name, data)
    return Case(name, form, open_bytes(data, ".tflite").graph(), Checker(read_tflite(data)))


def litert_case(name: str, data: bytes) -> Case:
    """A file under the target litert. What workspace kernels need and what LiteRT keeps elsewhere, only it can say."""
    model = open_bytes(data, ".tflite")
    told = find_probe("litert").annotated(model.graph(), model)
    workspace = {op.name: op.scratch for op in told.ops if op.scratch}
    elsewhere = {t.name for t in told.tensors if t.kind != "activation"}
    program = read_tflite(data)
    program = Program("tflite", program.main, program.values, frozenset(elsewhere))
    return Case(name, "litert", told, Checker(program, workspace))


def check_random(form: str, seed: int, changes: int, tally: Tally, targets: Sequence[Target] = ()) -> None:
    """Honest plans of the random graph of this number, and so many changes of them; for random targets if not given."""
    try:
        case = random_case(form, seed)
    except EdgememError as e:
        tally.not_planned[f"{type(e).__name__}: {' '.join(str(e).split()[:3])}"] += 1
        return
    check_graph(case, changes, tally, targets)


def check_graph(case: Case, changes: int, tally: Tally, given: Sequence[Target] = ()) -> None:
    """Honest plans of one graph, and so many changes of them."""
    rng = Random(f"plans of {case.name}")
    tally.graphs[case.form] += 1
    targets = [BUILT_IN["litert"]] if case.form == "litert" else given or _targets(rng, case.checker.program)
    plansets = [p for target in targets if (p := _honest(case, target, rng, tally)) is not None]
    wanted = [p for p in plansets if p.problem.records]
    for k in range(changes if wanted else 0):
        planset = wanted[k % len(wanted)]
        made = mutated(rng, planset, case.checker.program)
        if made is not None and rng.random() < 0.15:  # two changes
            again = mutated(rng, made[1], case.checker.program)
            made = again and ("two changes", again[1])
        if made is not None:
            compare(case, *made, tally)


def _targets(rng: Random, program: Program) -> Iterator[Target]:
    for _ in range(3):
        yield random_target(rng, program)


def _honest(case: Case, target: Target, rng: Random, tally: Tally) -> PlanSet | None:
    options: dict[str, Any] = {"strategy": rng.choice(_STRATEGIES), "target": target}
    if rng.random() < 0.2:
        options["alignment"] = rng.choice((1, 8, 16, 128))
    if target.pins or target.regions[0].reserved:
        options["strategy"] = _STRATEGIES[0]
    try:
        planset = edgemem.plan(case.graph, **options)
    except InvalidPlanError as e:
        tally.honest["refused by edgemem's own proof"] += 1
        tally.findings.append(f"{case.name}: no plan for {_brief(target)}: {e}")
        return None
    except EdgememError as e:
        tally.not_planned[f"{type(e).__name__}: {' '.join(str(e).split()[:3])}"] += 1
        return None
    wrongs = case.checker.wrongs(planset)
    violations = edgemem.verify(planset, case.graph)
    tally.honest["wrong" if wrongs else "refused" if violations else "right"] += 1
    if wrongs:
        tally.findings.append(f"{case.name}: the plan for {_brief(target)} is wrong: {wrongs[0]}")
    elif violations:
        tally.findings.append(f"{case.name}: the plan for {_brief(target)} is refused: {violations[0]}")
    return None if wrongs or violations else planset


def compare(case: Case, kind: str, planset: PlanSet, tally: Tally) -> None:
    try:
        accepted = not edgemem.verify(planset, case.graph)
    except EdgememError:
        accepted = False
    except Exception as e:  # noqa: BLE001 -- what is no error of edgemem's is a finding
        tally.findings.append(f"{case.name}: verify raises {type(e).__name__}: {e} after {kind!r}")
        accepted = False
    if not accepted and tally.mutations % _THROUGH_A_FILE == 0:
        read = _accepted_from_a_file(planset, case.graph)
        # Judged as it is read: a file cannot say every fault.
        for wrong in [] if read is None else _wrongs(case, read):
            tally.findings.append(f"{case.name}: verify accepts {kind!r} when it comes from a file: {wrong}")
    wrongs = _wrongs(case, planset)
    tally.changes[kind, bool(wrongs), accepted] += 1
    if wrongs and accepted:
        target = _brief(planset.target) if planset.target else "no target"
        tally.findings.append(f"{case.name}: verify accepts {kind!r} for {target}: {wrongs[0]}")


def _wrongs(case: Case, planset: PlanSet) -> list[str]:
    """What the checker finds first, if anything."""
    if planset.digest == digest(case.graph):  # an executor takes the order of the file, which is the one planned for
        planset = replace(planset, order=None)
    try:
        return list(case.checker.wrongs(planset, at_most=1))
    except Unknown as e:
        return [str(e)]


def _accepted_from_a_file(planset: PlanSet, graph: Graph) -> PlanSet | None:
    """The plan set as a plan file has it, where it is accepted."""
    try:
        read = planfile.decode(planfile.encode(planset))
        return None if edgemem.verify(read, graph) else read
    except (EdgememError, ValueError, TypeError, OverflowError):  # nobody can write such a file, or read it
        return None


def _brief(target: Target) -> str:
    """The target's name, or what is not as in generic."""
    if target == BUILT_IN.get(target.name):
        return target.name
    fields = (
        "alignment",
        "inputs",
        "outputs",
        "unread",
        "variables",
        "aliasing",
        "bodies",
        "sub_byte",
        "texels",
        "storage",
        "precision",
        "texel_row",
        "layer_rows",
        "texture_side",
        "pins",
        "states",
    )
    plain = BUILT_IN["generic"]
    odd = [f"{f}={getattr(target, f)!r}" for f in fields if getattr(target, f) != getattr(plain, f)]
    regions = [f"{r.capacity}, {r.reserved}" for r in target.regions] if target.regions != plain.regions else []
    return f"{target.name}({', '.join([*odd, *regions])})"
