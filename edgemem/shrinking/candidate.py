"""A way to run a model in less memory, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, log, log2
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from edgemem.shrinking.steps import steps_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.formats import Model
    from edgemem.passes.protocol import Pass
    from edgemem.targets import Target

__all__ = [
    "IDENTICAL",
    "SESSIONS",
    "Candidate",
    "CandidateLimits",
    "OutputRule",
    "TailCheck",
    "describe_outputs",
    "front_of",
    "knee_of",
    "thinned",
]

OutputRule: TypeAlias = Literal["as-runtime", "identical", "close"]

IDENTICAL: Final = "identical"  # `Candidate.outputs` where every bit is the same
# What a changed model's outputs are compared with, by the target that counts its memory.
_COMPARED: Final = {
    **dict.fromkeys(("generic", "onnxruntime"), "a default session of the model as it was"),
    "litert": "the model as it was, in LiteRT's builtin kernels",
    "tflm": "the model as it was, in TensorFlow Lite Micro",
}
_NEAR: Final = 0.03  # how far a prediction of the tail may be off
SESSIONS: Final = frozenset({"generic", "onnxruntime"})  # targets whose arena is that of a session of ONNX Runtime
# Bytes that a session of ONNX Runtime takes for a node, outside the arena: measured on MobileNet v2 with 57, 282, 649
# and 1,687 nodes, ONNX Runtime 1.31.1, x86-64.
_NODE: Final = 10_752
_OPERATOR: Final = 0.02  # of a model's arithmetic: what twice as many operators cost, for choosing alone


@dataclass(frozen=True, slots=True)
class CandidateLimits:
    """What a candidate may take and cost.

    Attributes:
        budget: bytes of memory; None for the least.
        max_macs: multiply-accumulate operations, as a multiple of the model's.
        max_latency: processor time of a run, as a multiple of what the runtime takes for the model today.
        max_operators: of the changed model.
        max_file: bytes of the changed model without its plan.
        outputs: how near they must be to those of the model: `identical` in every bit; `as-runtime` (ONNX Runtime's
            own levels of optimisation differ in the last bits: no further than they do from each other); `close`,
            whatever the difference is.
    """

    budget: int | None = None
    max_macs: float = 1.15
    max_latency: float | None = None
    max_operators: int | None = None
    max_file: int | None = None
    outputs: OutputRule = "as-runtime"


@dataclass(frozen=True, slots=True)
class TailCheck:
    """TensorFlow Lite Micro's tail on this computer, in bytes, as it was measured and as it was predicted for it.

    Attributes:
        measured: of the installed build, which has 64-bit pointers.
        predicted: for that build.
    """

    measured: int
    predicted: int

    @property
    def is_near(self) -> bool:
        """Whether the prediction holds, and with it most likely that for the device."""
        return abs(self.predicted - self.measured) <= _NEAR * self.measured


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to run a model.

    Attributes:
        steps: the passes that make it, in order.
        kernels: the library for whose kernels alone it holds, because results overlap inputs; "none" for any.
        target: whose rules count its memory.
        arena: bytes (texels for textures) of intermediate tensors: of its plan, or a lower bound (`is_planned`).
        tail: bytes of TensorFlow Lite Micro's arena besides, as predicted for the device that the target describes.
        macs: multiply-accumulate operations / those of the model.
        whole: bytes of all of TensorFlow Lite Micro's arena with the plan, as predicted: also what it takes to prepare
            the model, which it is without a plan, and rounding; 0 for other runtimes.
        operators: of the graph that runs.
        added: operators / those of the graph that it was made from; for choosing between candidates.
        file: bytes without the plan; None where it is not planned.
        is_made: its model is there; else it is made when it is wanted.
        is_planned: a proved plan has this size.
        is_measured: the runtime said so of `arena`.
        tail_check: how the tail was predicted and measured on this computer; None where it was not measured.
        latency: processor time of a run / that of the model in its runtime as it is today; None if it was not measured.
        outputs: how they compare with the model's: `identical`, `close` with the difference, or why they were not
            compared; "" while they were not.
        runtime: what compared them, with its version; "" while nothing did.
        model: makes it.
    """

    steps: tuple[Pass, ...]
    kernels: str
    target: Target = field(repr=False)
    arena: int
    tail: int
    macs: float
    operators: int
    added: float
    model: Callable[[], Model] = field(repr=False, compare=False)
    whole: int = 0
    file: int | None = None
    is_made: bool = True
    is_planned: bool = False
    is_measured: bool = False
    tail_check: TailCheck | None = None
    latency: float | None = None
    outputs: str = ""
    runtime: str = ""

    @property
    def is_tried(self) -> bool:
        """Whether its command makes it: its runtime was asked, or it is the model as it is."""
        return bool(self.outputs) or not self.steps

    @property
    def memory(self) -> int:
        """Bytes that the runtime needs: arena and tail, or what it takes to prepare the model."""
        return max(self.arena + self.tail, self.whole)

    @property
    def process(self) -> int:
        """Bytes of the process that depend on it: its memory, and what a session keeps for each operator."""
        return self.memory + (_NODE * self.operators if self.target.name in SESSIONS else 0)

    @property
    def price(self) -> float:
        """What candidates are compared by where no time was measured: arithmetic, and a little for each operator."""
        return self.macs + _OPERATOR * log2(max(self.added, 1.0))

    @property
    def text(self) -> str:
        """Its steps as `edgemem shrink --steps` takes them; "" for the model as it is."""
        return steps_text(self.steps, self.kernels)

    def breaks(self, limits: CandidateLimits) -> str:
        """The first limit that it breaks, apart from the budget, or ""."""
        known: tuple[tuple[str, float | None, float | None], ...] = (
            ("max_macs", self.macs, limits.max_macs),
            ("max_operators", self.operators, limits.max_operators),
            ("max_file", self.file, limits.max_file),
            ("max_latency", self.latency, limits.max_latency),
        )
        return next((n for n, own, most in known if own is not None and most is not None and own > most), "")


def describe_outputs(outputs: str, target: str) -> str:
    """How outputs compare with those of what, for people; arguments are `Candidate.outputs` and the target's name."""
    if outputs != IDENTICAL:
        return f"outputs {outputs or 'not compared'}"
    return f"outputs identical to those of {_COMPARED.get(target, 'the model as it was')}"


def front_of(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Those that no other one beats in memory and price, the cheapest first."""
    front: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (c.price, c.memory, len(c.steps))):
        if not front or candidate.memory < front[-1].memory:
            front.append(candidate)
    return tuple(front)


def thinned(front: Sequence[Candidate], most: int, *kept: Candidate | None) -> tuple[Candidate, ...]:
    """At most so many candidates of a front, both ends and those that are to be kept among them, evenly spread."""
    places = {n for n, c in enumerate(front) if any(c is k for k in kept)} | {0, len(front) - 1}
    for place in (round(k * (len(front) - 1) / (most - 1)) for k in range(most)):
        if len(places) < most:
            places.add(place)
    return tuple(front[n] for n in sorted(places)) if len(front) > most else tuple(front)


def knee_of(front: Sequence[Candidate]) -> Candidate | None:
    """The candidate of a front behind which memory gets dear: the farthest from the line between the ends.

    Memory counts by its logarithm. None for a front of fewer than three.
    """
    if len(front) < 3:
        return None
    first, last = front[0], front[-1]
    wide = last.price - first.price or inf
    high = log(max(first.memory, 1)) - log(max(last.memory, 1)) or inf

    def height(c: Candidate) -> float:
        return (log(max(first.memory, 1)) - log(max(c.memory, 1))) / high - (c.price - first.price) / wide

    return max(front, key=height)
