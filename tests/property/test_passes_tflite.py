"""Every pass for TFLite on random graphs: the same bits in TensorFlow Lite Micro's dirty memory."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from edgemem import planfile
from edgemem.errors import ModelError, TilingError
from edgemem.formats import Bindings
from edgemem.passes.fold_pass import FoldConstants
from edgemem.passes.order_pass import OrderOperators
from edgemem.passes.protocol import PassContext, apply_pass
from edgemem.passes.recompute.recompute_pass import RecomputeOperators
from edgemem.passes.streaming.region import StripeStage
from edgemem.passes.streaming.stages import find_front
from edgemem.passes.streaming.stream_pass import StreamOperators
from edgemem.planning.model_plan import plan_model
from edgemem.plans import Settings
from edgemem.runtime.onnxruntime.optimise_pass import OptimiseGraph
from edgemem.schedule.peak import peak_of
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite import TfliteConverter
from tests.runs_again import RunsAgain
from tests.tflite_models import up16

runtime = pytest.importorskip("tflite_micro").runtime
litert = pytest.importorskip("ai_edge_litert.interpreter")

from tests.random_tflite import random_model  # noqa: E402 - needs LiteRT's schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import Model
    from edgemem.passes.protocol import Pass
    from edgemem.targets import Target

RULES = BUILT_IN["tflm"]
OVERLAP = RULES.changed(kernels="tflm-reference", slots=True)
RUNS: Final = 3
QUICK: Final = ("depth_first", "greedy")
SLOW: Final = ("auto", "beam", "neighbourhood")
FAST: Final = Settings(effort="fast")
ARENA: Final = 4 << 20
DIRT: Final = 0xA5
_M_PERTURB: Final = -6  # of glibc's mallopt: what new memory is filled with


@pytest.fixture(autouse=True)
def _dirty_memory() -> Iterator[None]:
    if sys.platform == "linux":
        ctypes.CDLL(None).mallopt(_M_PERTURB, DIRT)
    yield
    if sys.platform == "linux":
        ctypes.CDLL(None).mallopt(_M_PERTURB, 0)


def in_micro(content: bytes, requests: Sequence[Sequence[NDArray[Any]]], outputs: int) -> tuple[list[bytes], int]:
    """The outputs of runs in one interpreter, and its head."""
    with tempfile.TemporaryFile() as log:
        stderr = os.dup(2)
        os.dup2(log.fileno(), 2)  # where it prints its allocations
        try:
            interpreter = runtime.Interpreter.from_bytes(content, arena_size=ARENA)
            found = []
            for request in requests:
                for k, value in enumerate(request):
                    interpreter.set_input(value, k)
                interpreter.invoke()
                found += [interpreter.get_output(k).tobytes() for k in range(outputs)]
            interpreter.print_allocations()
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
        log.seek(0)
        text = log.read().decode(errors="replace")
    return found, int(re.findall(r"Arena allocation head (\d+)", text)[0])


def ends(content: bytes) -> list[tuple[str, str, list[int]]]:
    """Name, dtype and shape of every input and output, as LiteRT has them."""
    interpreter = litert.Interpreter(model_content=content)
    details = (*interpreter.get_input_details(), *interpreter.get_output_details())
    return [(d["name"], np.dtype(d["dtype"]).name, d["shape"].tolist()) for d in details]


@dataclass
class Subject:
    """A random model, and what TensorFlow Lite Micro makes of it."""

    seed: int
    folder: Path

    def __post_init__(self) -> None:
        self.content = random_model(self.seed)
        self.model: Model = TfliteConverter.from_bytes(self.content)
        self.graph = self.model.graph()
        rng = np.random.default_rng((1, self.seed))
        forms = [self.graph.tensors[i] for i in self.graph.inputs]
        self.requests = [[_drawn(t.dtype, t.shape, rng) for t in forms] for _ in range(RUNS)]
        self.wanted: list[bytes] = []
        self.ends = ends(self.content)
        self.changed: Counter[str] = Counter()

    def apply(self, step: Pass, model: Model, target: Target = RULES) -> Model:
        return apply_pass(step, model, PassContext(self.folder / "m.tflite", self.folder, Bindings(), target))

    def check(self, what: str, model: Model, target: Target = RULES) -> None:
        """Plan a model and run it: outputs, and the head that was planned."""
        planset = plan_model(model, target, FAST, families=("offsets",))
        best = planset.best_offsets
        assert best is not None
        content = model.with_plan(planfile.encode_all((planset,)), planset).content()
        found, head = in_micro(content, self.requests, len(self.graph.outputs))
        assert found == self.wanted, f"seed {self.seed}: {what} gives other bits"
        assert head == up16(best.size), f"seed {self.seed}: {what} takes {head:,} bytes, {best.size:,} were planned"
        assert ends(content) == self.ends, f"seed {self.seed}: {what} changes names, dtypes or shapes"
        self.changed[what] += 1


def _drawn(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[Any]:
    if dtype == "int8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    return rng.standard_normal(shape).astype(np.float32)


def stages_for(count: int, rng: np.random.Generator) -> tuple[StripeStage, ...]:
    first = int(rng.integers(0, count))
    last = int(rng.integers(first, count))
    stages = [StripeStage(first, last, int(rng.integers(1, 14)))]
    if last + 1 < count and rng.random() < 0.4:
        begin = int(rng.integers(last + 1, count))
        stages.append(StripeStage(begin, int(rng.integers(begin, count)), int(rng.integers(2, 9))))
    return tuple(stages)


def check(seed: int, folder: Path) -> Counter[str]:
    """Apply every pass to a random model, and run what comes of it; how many results were run, by pass."""
    subject, rng = Subject(seed, folder), np.random.default_rng((2, seed))
    with pytest.raises(ModelError, match=r"optimize is for \.onnx files"):
        subject.apply(OptimiseGraph(), subject.model)
    folded = subject.apply(FoldConstants(), subject.model)
    # It cannot decompress constants itself: the other library's reference kernels compare the two.
    subject.wanted = in_micro(folded.content(), subject.requests, len(subject.graph.outputs))[0]
    if folded is not subject.model:
        assert _in_litert(subject, folded.content()) == _in_litert(subject, subject.content)
        subject.check("fold", folded)
    subject.check("overlap", folded, OVERLAP)
    methods = SLOW if seed % 5 == 0 else QUICK
    ordered = subject.apply(OrderOperators(str(rng.choice(methods))), folded)
    if ordered is not folded:
        subject.check("order", ordered)
    again: Pass = RunsAgain(seed, RULES)
    if methods is SLOW:
        again = RecomputeOperators(int(peak_of(ordered.graph(), RULES) * rng.uniform(0.3, 0.95)), 2.0)
    repeated = subject.apply(again, ordered)
    if repeated is not ordered:
        subject.check("recompute", repeated, (RULES, OVERLAP)[seed % 2])
    base = (folded, ordered, repeated)[int(rng.integers(0, 3))]
    rules = (RULES.changed(slots=True), OVERLAP, RULES)[int(rng.integers(0, 3))]
    graph = base.graph()
    front = [choice.stages for choice in find_front(graph, rules) if choice.stages]
    picked = [front[int(rng.integers(0, len(front)))]] if front else []
    for stages in (*picked, *(stages_for(len(graph.ops), rng) for _ in range(2))):
        try:
            striped = subject.apply(StreamOperators(stages), base, rules)
        except TilingError:
            assert stages not in picked
            continue
        subject.check("stream", striped, rules)
    return subject.changed


def _in_litert(subject: Subject, content: bytes) -> list[bytes]:
    interpreter = litert.Interpreter(
        model_content=content, num_threads=1, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    found = []
    for request in subject.requests:
        for details, value in zip(interpreter.get_input_details(), request, strict=True):
            interpreter.set_tensor(details["index"], value)
        interpreter.invoke()
        found += [interpreter.get_tensor(details["index"]).tobytes() for details in interpreter.get_output_details()]
    return found


@pytest.mark.parametrize("seed", range(12))
def test_passes_keep_every_bit(seed: int, tmp_path: Path) -> None:
    assert check(seed, tmp_path)["overlap"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", range(1000, 1250, 10))
def test_passes_keep_every_bit_of_many_graphs(first: int, tmp_path: Path) -> None:
    totals: Counter[str] = Counter()
    for seed in range(first, first + 10):
        totals += check(seed, tmp_path)
    assert totals.keys() >= {"order", "overlap", "recompute", "stream"}
