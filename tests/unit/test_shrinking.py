"""Steps as text, the check around every pass, and what a candidate is chosen by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import pytest

import edgemem
from edgemem.errors import BudgetExceededError, ModelError, PassError
from edgemem.formats import Bindings, Model
from edgemem.passes.protocol import Guarantee, PassContext, apply_pass
from edgemem.shrinking.candidate import Candidate, CandidateLimits, front_of, knee_of, thinned
from edgemem.shrinking.search import Search
from edgemem.shrinking.steps import parse_steps, steps_text
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from models.tflite_networks import mobilenet_v2

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MICRO = BUILT_IN["tflm"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "small.tflite"
    path.write_bytes(mobilenet_v2(alpha=0.3, size=80, int8=True, classes=2))
    return path


def candidate(memory: int, macs: float = 1.0, operators: int = 10, **more: object) -> Candidate:
    made = Candidate((), "none", MICRO, memory, 0, macs, operators, operators / 10, lambda: pytest.fail("made"))
    return replace(made, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fold",
        "order",
        "order=greedy",
        "stream=0:5:56",
        "split=0:5:4/3+6:9:2/1",
        "optimize=extended,tile=0:9:14x1,split=20:24:4/1@all",
        "fold,order,stream=0:5:4+6:9:2,overlap=tflm-reference",
        "optimize=extended,order,tile=0:9:14x1+10:12:2x3@all,recompute=4096",
        "optimize=none",
        "recompute",
    ],
)
def test_steps_are_the_text_that_names_them(text: str) -> None:
    assert steps_text(*parse_steps(text)) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("shrink", "no step 'shrink'"),
        ("fold=2", "fold has no value"),
        ("order=best", "no method 'best'"),
        ("optimize=most", "no level 'most'"),
        ("stream=auto", "FIRST:LAST:STRIPES"),
        ("stream=0:5:-1", "FIRST:LAST:STRIPES"),
        ("stream", "FIRST:LAST:STRIPES"),
        ("tile=0:9", "no stage"),
        ("split=0:9:2", "FIRST:LAST:PARTS/AXIS"),
        ("split=0:9:2/1@some", "no level 'some'"),
        ("tile=0:9:2x2@some", "no level 'some'"),
        ("overlap=mine", "no kernel profile"),
        ("recompute=much", "much"),
    ],
)
def test_what_is_no_step(text: str, told: str) -> None:
    with pytest.raises(edgemem.EdgememError, match=told):
        parse_steps(text)


@dataclass(frozen=True, slots=True)
class _Liar:
    """A pass that gives another model than it promises."""

    what: Literal["shape", "dtype", "count"]

    name: ClassVar[str] = "liar"
    suffixes: ClassVar[frozenset[str]] = frozenset({".tflite"})
    requires: ClassVar[Mapping[str, str]] = {}
    guarantee: ClassVar[Guarantee] = Guarantee("identical", "it says so")

    def apply(self, _model: Model, _context: PassContext) -> Model:
        data = mobilenet_v2(
            alpha=0.3,
            size=96 if self.what == "shape" else 80,
            int8=self.what != "dtype",
            classes=3 if self.what == "count" else 2,
        )
        return TfliteConverter.from_bytes(data)


def _context(path: Path, *applied: str) -> PassContext:
    return PassContext(path, path.parent, Bindings(), MICRO, None, frozenset(applied))


@pytest.mark.parametrize("what", ["shape", "dtype", "count"])
def test_a_pass_that_changes_inputs_or_outputs_is_caught(what: Literal["shape", "dtype", "count"], file: Path) -> None:
    model = TfliteConverter.open(file, Bindings())
    with pytest.raises(PassError, match=r"liar changed an (input|output)"):
        apply_pass(_Liar(what), model, _context(file))


def test_a_pass_is_for_its_formats_and_behind_what_it_requires(file: Path) -> None:
    model = TfliteConverter.open(file, Bindings())
    (optimise, tiles), _ = parse_steps("optimize=all,tile=0:1:2x1")
    with pytest.raises(ModelError, match=r"optimize is for \.onnx files"):
        apply_pass(optimise, model, _context(file))
    with pytest.raises(ModelError, match=r"tile is for \.onnx files"):
        apply_pass(tiles, model, _context(file, "optimize"))


def test_a_front_has_only_what_nothing_else_beats() -> None:
    cheap, dear, beaten = candidate(100), candidate(50, 1.1), candidate(60, 1.2)
    assert front_of([beaten, dear, cheap]) == (cheap, dear)
    assert front_of([cheap, candidate(100, operators=20)]) == (cheap,)


def test_the_knee_is_where_memory_gets_dear() -> None:
    front = [candidate(m, a) for m, a in ((1000, 1.0), (200, 1.02), (150, 1.1), (140, 1.15))]
    assert knee_of(front) is front[1]
    assert knee_of(front[:2]) is None


def test_a_thinned_front_keeps_its_ends_and_what_is_wanted() -> None:
    front = [candidate(1000 - k, 1 + k / 1000) for k in range(50)]
    few = thinned(front, 8, front[7])
    assert len(few) <= 8
    assert {front[0], front[7], front[-1]} <= set(few)
    assert thinned(front[:5], 8) == tuple(front[:5])


@pytest.mark.parametrize(
    ("limits", "broken"),
    [
        (CandidateLimits(max_macs=1.05), "max_macs"),
        (CandidateLimits(max_operators=9), "max_operators"),
        (CandidateLimits(max_file=99), "max_file"),
        (CandidateLimits(max_latency=1.4), "max_latency"),
        (CandidateLimits(max_macs=1.1, max_operators=10, max_file=100, max_latency=1.5), ""),
    ],
)
def test_limits(limits: CandidateLimits, broken: str) -> None:
    assert candidate(1, 1.1, 10, file=100, latency=1.5).breaks(limits) == broken


def test_figures_that_are_not_known_break_no_limit() -> None:
    assert not candidate(1).breaks(CandidateLimits(max_file=1, max_latency=0.1))


@pytest.mark.exhaustive
def test_every_candidate_is_what_its_text_makes(file: Path) -> None:
    """The bound of a candidate is never above what its steps, applied by hand, are planned with."""
    found = Search(file, CandidateLimits()).found(runs=False)
    assert len(found.front) >= 3
    for c in found.front:
        made = Search(file, CandidateLimits(outputs="close")).by_hand(c.text)
        assert made.chosen.arena >= c.arena
        assert made.chosen.macs == pytest.approx(c.macs)
        assert made.chosen.operators == c.operators


def test_a_budget_is_met_with_the_fewest_operators_that_do(file: Path) -> None:
    search = Search(file, CandidateLimits(140_000))
    found = search.found(runs=False)
    assert found.best is not None
    assert found.best.memory <= 140_000
    assert found.best.is_planned
    for c in found.candidates:
        if c.kernels == "none" and c.price < found.best.price:
            assert c.memory > 140_000 or c.is_planned  # a plan of it was tried


def test_limits_hold_for_what_is_chosen(file: Path) -> None:
    found = Search(file, CandidateLimits(max_operators=90)).found(runs=False)
    assert found.best is not None
    assert found.best.operators <= 90
    assert Search(file, CandidateLimits(max_operators=64)).found(runs=False).best.text == ""  # type: ignore[union-attr]


def test_only_what_is_allowed_is_used(file: Path) -> None:
    found = Search(file, CandidateLimits(), allow=["fold", "order"]).found(runs=False)
    assert {step.name for c in found.candidates for step in c.steps} <= {"fold", "order"}
    with pytest.raises(ModelError, match="no change is named 'magic'"):
        Search(file, CandidateLimits(), allow=["magic"])


@pytest.mark.full
def test_overlaps_are_offered_and_never_taken_unasked(file: Path) -> None:
    found = Search(file, CandidateLimits()).found(runs=False)
    assert found.best is not None
    assert found.best.kernels == "none"
    assert {c.kernels for c in found.overlapping} == {"tflm-reference"}
    named = Search(file, CandidateLimits(), kernels="tflm-reference").found(runs=False)
    assert named.best is not None
    assert named.best.kernels == "tflm-reference"
    assert named.best.memory < found.best.memory


def test_what_cannot_fit_is_an_error_that_names_the_operator_in_the_way(file: Path) -> None:
    with pytest.raises(BudgetExceededError, match="nothing found takes 1,000 bytes") as e:
        edgemem.shrink(file, budget=1000, target="tflm")
    assert e.value.available == 1000
    assert e.value.required > 1000


def test_usage_records_have_no_graph_to_change(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_text("tensor,first_op,last_op,size\na,0,1,16\n")
    with pytest.raises(ModelError, match="no graph to change"):
        edgemem.shrink(path)


def test_the_same_input_gives_the_same_model(file: Path) -> None:
    texts = [Search(file, CandidateLimits(140_000)).found(runs=False).best.text for _ in range(2)]  # type: ignore[union-attr]
    assert texts[0] == texts[1]
