"""`edgemem shrink` against every combination of changes: memory at equal limits, and the time of both.

    python tests/bench/below/exhaustive.py [MODEL...] [--max-macs 1.15] [--page PAGE.md]

Every combination is made: orders of all quick methods, all fronts of stripes or tiles for twelve amounts of
arithmetic, parts for eight budgets and recomputation for eight, each at every level. Those whose lower bound is below
the least memory so far are planned with `edgemem.plan`. Nothing of the search of `edgemem.shrink` is used. A ratio
above 1 is memory that the search missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem import api
from edgemem.errors import EdgememError
from edgemem.formats import Bindings, Foldable, Model
from edgemem.formats.workspace import graph_under
from edgemem.model.macs import count_macs
from edgemem.passes.fold_pass import FoldConstants
from edgemem.passes.order_pass import OrderOperators
from edgemem.passes.protocol import PassContext, apply_pass
from edgemem.passes.recompute.recompute_pass import RecomputeOperators
from edgemem.passes.splitting.choice import find_splits
from edgemem.passes.streaming.stages import find_front
from edgemem.passes.streaming.stream_pass import StreamOperators
from edgemem.passes.tiling.choice import TileSearch
from edgemem.records.micro_builds import build_of
from edgemem.records.micro_tail import predicted_tail
from edgemem.runtime.onnxruntime.baked_file import LEVELS
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.runtime.onnxruntime.tile_pass import TileOperators
from edgemem.runtime.split_pass import SplitOperators
from edgemem.schedule.peak import peak_of
from edgemem.shrinking.candidate import CandidateLimits
from edgemem.shrinking.search import Search
from edgemem.targets import BUILT_IN, Target
from tests.bench.below.page import measured_with, put, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

METHODS = ("auto", "depth_first", "greedy")
SHARES = tuple(k / 12 for k in range(1, 13))
PARTS = tuple(k / 9 for k in range(1, 9))
COLUMNS = ("model", "as it is", "shrink", "exhaustive", "ratio", "seconds", "exhaustive, seconds", "combinations")


class _Combinations:
    """All combinations of changes of one model, as models."""

    def __init__(self, path: Path, folder: Path, max_macs: float) -> None:
        opened = api.load(path)
        assert isinstance(opened, Model)
        self.model, self._path, self._folder, self._most = opened, path, folder, max_macs
        self.rules = BUILT_IN[opened.default_target]
        self.is_micro = opened.default_target == "tflm"

    def apply(self, model: Model, step: object, target: Target, *applied: str) -> Model:
        context = PassContext(self._path, self._folder, Bindings(), target, None, frozenset(applied))
        try:
            return apply_pass(step, model, context)  # type: ignore[arg-type]
        except EdgememError:
            return model

    def models(self) -> Iterator[tuple[Model, Target]]:
        for base, target in self._bases():
            yield base, target
            for method in METHODS:
                ordered = self.apply(base, OrderOperators(method), target, "optimize")
                if method != METHODS[0] and ordered is base:
                    continue
                yield ordered, target
                yield from self._cut(ordered, target)
                yield from self._again(ordered, target)

    def _bases(self) -> Iterator[tuple[Model, Target]]:
        if self.is_micro:
            yield self.model, self.rules
            if isinstance(self.model, Foldable):
                yield self.apply(self.model, FoldConstants(), self.rules), self.rules
            return
        for level in LEVELS:
            yield self.apply(self.model, OptimiseGraph(level), self.rules), self.rules

    def _cut(self, model: Model, target: Target) -> Iterator[tuple[Model, Target]]:
        if self.is_micro:
            rules = target.changed(slots=True)
            try:
                front = find_front(model.graph(), rules)
            except EdgememError:
                return
            for choice in front[:: max(len(front) // 24, 1)]:
                yield self.apply(model, StreamOperators(choice.stages), rules), rules
            return
        graph, tried = model.graph(), set()
        for threads in ((1,), ()):
            search = TileSearch(graph, target, threads)
            for share in SHARES:
                found = search.find(max_macs=1 + (self._most - 1) * share)
                for level in ("all", "") if found.stages not in tried else ():
                    yield self.apply(model, TileOperators(found.stages, level), target, "optimize"), target
                tried.add(found.stages)

    def _again(self, model: Model, target: Target) -> Iterator[tuple[Model, Target]]:
        peak = peak_of(graph_under(model, target), target)
        tried = set()
        for part in PARTS:
            yield self.apply(model, RecomputeOperators(int(peak * part), self._most), target, "optimize"), target
            found = find_splits(model.graph(), target, budget=int(peak * part))
            for level in ("",) if self.is_micro else ("all", ""):
                if found.stages not in tried:
                    yield self.apply(model, SplitOperators(found.stages, level), target, "optimize"), target
            tried.add(found.stages)

    def memory(self, model: Model, target: Target, enough: int) -> int:
        """Of a plan, or of the lower bound where that is enough to tell that no plan is smaller."""
        graph = model.graph()
        tail = predicted_tail(graph, build_of(target)) if self.is_micro else 0
        bound = peak_of(graph_under(model, target), target) + tail
        if bound >= enough:
            return bound
        best = api.plan(model, target=target, strategy="offsets/search", effort="fast").best_offsets
        assert best is not None
        return best.size + tail


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compares edgemem shrink with every combination of changes.")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--max-macs", type=float, default=1.15)
    parser.add_argument("--page", help="put the table into this page")
    args = parser.parse_args(arguments)
    rows = []
    for path in args.models:
        begun = time.perf_counter()
        found = Search(path, CandidateLimits(max_macs=args.max_macs, outputs="close")).found(runs=False)
        seconds = time.perf_counter() - begun
        least = found.front[-1]  # the least arena or head and tail, whatever its operators take besides
        plan = api.plan(least.model(), target=least.target).best_offsets
        assert plan is not None
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            all_ = _Combinations(path, Path(folder), args.max_macs)
            macs = count_macs(all_.model.graph())
            tried: list[int] = []
            for model, target in all_.models():
                if count_macs(model.graph()) <= args.max_macs * max(macs, 1):
                    tried.append(all_.memory(model, target, min(tried, default=1 << 62)))
        whole = time.perf_counter() - begun
        sizes = found.candidates[0].memory, plan.size + least.tail, min(tried)
        ratio = f"{sizes[1] / max(sizes[2], 1):.3f}"
        rows.append([path.stem, *(f"{s:,}" for s in sizes), ratio, f"{seconds:.1f}", f"{whole:.1f}", str(len(tried))])
        print(" | ".join(rows[-1]), flush=True)
    put(args.page, "exhaustive", f"{measured_with()}\n\n{table(COLUMNS, rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
