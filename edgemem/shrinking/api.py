"""`shrink`: the cheapest way to run a model within a budget, or the one with the least memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.formats import Bindings
from edgemem.shrinking.candidate import CandidateLimits
from edgemem.shrinking.search import Search
from edgemem.targets.units import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.shrinking.candidate import OutputRule
    from edgemem.shrinking.result import Progress, Shrunk
    from edgemem.targets import Target

__all__ = ["shrink"]


def shrink(
    model: str | Path,
    *,
    budget: int | str | None = None,
    target: str | Target | None = None,
    kernels: str | None = None,
    allow: Iterable[str] | None = None,
    steps: str | None = None,
    max_macs: float = 1.15,
    max_latency: float | None = None,
    max_operators: int | None = None,
    max_file: int | None = None,
    outputs: OutputRule = "as-runtime",
    dims: Mapping[str, int | str] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    time_limit: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Shrunk:
    """Change a model so that it runs in less memory, with the same outputs, and plan it.

    The cheapest candidate within the budget is taken: the one with the least arithmetic, and among equals with the
    fewest operators. Without a budget it is the one with the least memory. Without a time limit the same input gives
    the same model, except that `max_latency` is a limit of measured times.

    Args:
        model: an .onnx or .tflite file.
        budget: bytes that the runtime may take: the head and tail of TensorFlow Lite Micro's arena, LiteRT's arena, or
            that of an ONNX Runtime session. Text such as "64MiB" will do.
        target: as for `edgemem.plan`.
        kernels: the kernel library of the device (`edgemem.model.profiles.PROFILES`); results then overlap inputs as
            far as it allows, and the plan holds for that library alone.
        allow: names of the changes to choose from (`edgemem.shrinking.steps.CHANGES`); all by default.
        steps: the changes to apply as they are, such as "fold,order,stream=0:5:56", instead of a search.
        max_macs: the most multiply-accumulate operations, as a multiple of the model's.
        max_latency: the most processor time of a run, as a multiple of what the runtime takes for the model today.
        max_operators: the most operators of the changed model.
        max_file: the most bytes of the changed model, without its plan.
        outputs: how near they must be to those of the model: "identical" in every bit; "as-runtime", which for ONNX
            allows what its own levels of optimisation differ by on the same inputs; "close" for whatever comes of it.
        dims: as for `edgemem.load`.
        input_shapes: as for `edgemem.load`.
        feeds: inputs of the first of the runs that compare outputs; the others are made up.
        time_limit: seconds after which no other candidate is looked for; the result then depends on the machine.
        progress: called with what is done next, and what was found so far.

    Raises:
        ModelError: the file cannot be read, or holds usage records; a step is none.
        BudgetExceededError: nothing is within the budget and the limits; it says how near the candidates come, and
            what is in the way.
        NumericDifferenceError: the outputs of all that fits differ by more than `outputs` allows.
        PassError: a pass broke its guarantee: a defect of edgemem.
    """
    size = None if budget is None else size_of("budget", budget)
    search = Search(
        Path(model),
        CandidateLimits(size, max_macs, max_latency, max_operators, max_file, outputs),
        bindings=Bindings.of(dims, input_shapes),
        target=target,
        kernels=kernels,
        allow=allow,
        feeds=feeds,
        time_limit=time_limit,
        progress=progress,
    )
    return search.by_hand(steps) if steps is not None else search.shrunk()
