"""Every pass for ONNX on random graphs: what it requires and guarantees, in ONNX Runtime on random inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from edgemem.errors import ModelError, TilingError, UnsupportedError
from edgemem.formats import Bindings, load_model
from edgemem.passes.order_pass import OrderOperators
from edgemem.passes.protocol import PassContext, apply_pass
from edgemem.passes.recompute.recompute_pass import RecomputeOperators
from edgemem.passes.tiling.choice import find_stages
from edgemem.passes.tiling.stage import TileStage
from edgemem.runtime.onnxruntime.baked_file import LEVELS, session_options_for
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.runtime.onnxruntime.tile_pass import TileOperators
from edgemem.schedule.peak import peak_of
from edgemem.targets import BUILT_IN
from tests.random_onnx import random_feeds, random_model
from tests.runs_again import RunsAgain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from onnx import ModelProto

    from edgemem.formats import Model
    from edgemem.passes.protocol import Pass

ort = pytest.importorskip("onnxruntime")

Results = list[list["NDArray[Any]"]]
RULES = BUILT_IN["onnxruntime"]
RUNS: Final = 3
# What tiles may differ by, as a part of an output's largest element: sums of up to some hundred numbers in another
# order. Where that moves a number across a step of quantisation, ONNX Runtime's levels differ by as much.
ROUNDING: Final = 4e-6
TILED: Final = "extended"  # the highest level whose graph can be cut
QUICK: Final = ("depth_first", "greedy")
SLOW: Final = ("auto", "beam", "neighbourhood")


def run(content: bytes, requests: Sequence[dict[str, NDArray[Any]]], level: str = "all") -> Results:
    """The outputs of a file in a session as it says itself, or at a level of optimisation."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    session_options_for(content, options)
    session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return [session.run(None, request) for request in requests]


def apart(here: Results, there: Results) -> float:
    """The largest difference of an element, as a part of the largest element of its output; 0 for the same bits."""
    largest = 0.0
    for a, b in zip(chain(*here), chain(*there), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if a.tobytes() != b.tobytes():
            scale = max(float(np.abs(a).max(initial=0)), float(np.abs(b).max(initial=0)))
            largest = max(largest, float(np.abs(a.astype(float) - b.astype(float)).max()) / (scale or 1.0), 1e-12)
    return largest


@dataclass
class Subject:
    """A random model, and what ONNX Runtime makes of it at each level."""

    proto: ModelProto
    path: Path
    folder: Path
    levels: dict[str, Results] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.path.write_bytes(self.proto.SerializeToString())
        self.model = load_model(self.path)
        self.requests = [random_feeds(self.proto, seed) for seed in range(RUNS)]
        self.levels = {level: run(self.model.content(), self.requests, level) for level in LEVELS}
        self.error = max(apart(a, b) for a, b in combinations(self.levels.values(), 2))

    def apply(self, step: Pass, model: Model, *applied: str) -> Model:
        context = PassContext(self.path, self.folder, Bindings(), RULES, None, frozenset(applied))
        return apply_pass(step, model, context)

    def ends(self, content: bytes) -> list[tuple[str, str, list[int]]]:
        session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
        return [(e.name, e.type, e.shape) for e in (*session.get_inputs(), *session.get_outputs())]

    def results(self, model: Model) -> Results:
        return run(model.content(), self.requests)


def stages_for(count: int, rng: np.random.Generator) -> tuple[TileStage, ...]:
    first = int(rng.integers(0, count))
    last = int(rng.integers(first, min(count, first + 8)))
    stages = [TileStage(first, last, int(rng.integers(1, 6)), int(rng.integers(1, 3)))]
    if last + 1 < count and rng.random() < 0.4:
        begin = int(rng.integers(last + 1, count))
        stages.append(TileStage(begin, int(rng.integers(begin, min(count, begin + 6))), int(rng.integers(2, 6))))
    return tuple(stages)


def check(seed: int, folder: Path) -> dict[str, int]:
    """Apply every pass to a random model, and run what comes of it; how many passes changed it, by name."""
    subject = Subject(random_model(seed), folder / f"random{seed}.onnx", folder)
    rng = np.random.default_rng((2, seed))
    changed: dict[str, int] = {}

    def note(step: Pass, before: Model, after: Model, wanted: Results, most: float) -> None:
        if after is before:
            return
        changed[step.name] = changed.get(step.name, 0) + 1
        found = apart(subject.results(after), wanted)
        assert found <= most, f"seed {seed}: {step} differs by {found:.3g}, {most:.3g} are promised"
        assert subject.ends(after.content()) == subject.ends(subject.model.content()), f"seed {seed}: {step}"

    for step in (RecomputeOperators(), TileOperators((TileStage(0, 0, 2),))):
        assert step.requires[".onnx"] == OptimiseGraph.name
        with pytest.raises(ModelError, match="put optimize before it"):
            subject.apply(step, subject.model)
    methods = SLOW if seed % 5 == 0 else QUICK
    order = OrderOperators(str(rng.choice(methods)))
    plain = subject.apply(order, subject.model)
    note(order, subject.model, plain, subject.levels["all"], max(ROUNDING, subject.error))
    assert apart(run(plain.content(), subject.requests, "none"), subject.levels["none"]) == 0
    bases: dict[str, Model] = {}
    for level in LEVELS:
        optimise = OptimiseGraph(level)
        bases[level] = subject.apply(optimise, subject.model)
        note(optimise, subject.model, bases[level], subject.levels[level], 0)
    for level in ("all", str(rng.choice(list(LEVELS)))):
        wanted = subject.levels[level]
        order = OrderOperators(str(rng.choice(methods)))
        ordered = subject.apply(order, bases[level], "optimize")
        note(order, bases[level], ordered, wanted, 0)
        again: Pass = RunsAgain(seed, RULES)
        if methods is SLOW:
            again = RecomputeOperators(int(peak_of(ordered.graph(), RULES) * rng.uniform(0.3, 0.95)), 2.0)
        note(again, ordered, subject.apply(again, ordered, "optimize"), wanted, 0)
    base = bases[TILED]
    graph = base.graph()
    try:
        found = find_stages(graph, RULES, max_macs=1.5, threads=((1,), ())[seed % 2]).stages
    except UnsupportedError:
        found = ()
    for stages in filter(None, (found, *(stages_for(len(graph.ops), rng) for _ in range(3)))):
        tiles = TileOperators(stages, str(rng.choice(("", "all", "extended"))))
        try:
            tiled = subject.apply(tiles, base, "optimize")
        except TilingError:
            assert stages is not found
            continue
        note(tiles, base, tiled, subject.levels[TILED], max(ROUNDING, 2 * subject.error))
        wanted = subject.results(tiled)
        for more in (OrderOperators("greedy"), RunsAgain(seed, RULES)):
            note(more, tiled, subject.apply(more, tiled, "optimize"), wanted, 0)
    return changed


@pytest.mark.parametrize("seed", range(12))
def test_passes_keep_their_promises(seed: int, tmp_path: Path) -> None:
    assert check(seed, tmp_path)["optimize"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(1000, 1250, 10))
def test_passes_keep_their_promises_on_many_graphs(first: int, tmp_path: Path) -> None:
    totals: dict[str, int] = {}
    for seed in range(first, first + 10):
        for name, count in check(seed, tmp_path).items():
            totals[name] = totals.get(name, 0) + count
    assert totals.keys() == {"optimize", "order", "recompute", "tile"}
