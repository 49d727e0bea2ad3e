"""Compares a changed model with what it was made from: are the outputs the same bit for bit, and what does a run cost?

A kernel may add up a part in another order than the whole, so that this is tested for each file, on made-up inputs.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError
from edgemem.formats import Bindings, onnx_editor
from edgemem.model.ranges import samples_of
from edgemem.runtime.differences import compare_values
from edgemem.runtime.feeds import can_make, complete_feeds, make_feeds
from edgemem.runtime.onnxruntime.baked_file import (
    LEVELS,
    bind_dimensions,
    check_name,
    onnxruntime,
    quiet_options,
    runtime_errors,
    session_options_for,
)
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import Model

    Requests = list[dict[str, NDArray[Any]]]
    _Outputs = list[list[NDArray[Any]]]  # of each run

__all__ = ["OriginalRuns", "OutputComparison", "requests_of"]

_RUNS: Final = 3
_DEFAULT: Final = "all"  # the level of a session whose options say nothing
_ROUNDS: Final = (5, 20)  # timed runs of each session: at least, at most
_ENOUGH_S: Final = 2.0  # seconds of timed runs, after which the least number is enough


@dataclass(frozen=True, slots=True)
class OutputComparison:
    """The result of a comparison.

    Attributes:
        runs: on different inputs, for each number of threads.
        largest: the largest difference of an output's element, relative to the largest element of that output; 0 where
            all are the same bit for bit.
        output: the name of the output that differs most; "" if none does.
        threads: of the run that it differs most in.
        is_identical: every bit of every output is the same in all runs.
        levels: what ONNX Runtime's own levels of optimisation differ by from each other on these inputs, as `largest`;
            0 where all bits are the same, so that it was not needed.
    """

    runs: int
    largest: float
    output: str
    threads: int
    is_identical: bool
    levels: float = 0.0

    def __str__(self) -> str:
        if self.is_identical:
            return f"the outputs of {self.runs} runs are the same bit for bit"
        threads = (
            "1 thread" if self.threads == 1 else f"{self.threads} threads" if self.threads else "a session's threads"
        )
        return f"output {self.output!r} differs by up to {self.largest:.2g} of its largest element with {threads}"


class OriginalRuns:
    """Runs of a file in ONNX Runtime on a few inputs, which models that were made from it are compared with.

    Where dimensions have ranges, the inputs are of the ends of the ranges and of the middle. What ran stays known, so
    that several models are compared for the runs of one.

    Args:
        path: an .onnx file.
        bindings: values for open dimensions and shapes.
        feeds: inputs of the first run; the others are made up.
        threads: numbers of threads to run with; 0 is as many as a session has by default.

    All methods raise ModelError where ONNX Runtime cannot load or run a model.
    """

    def __init__(
        self,
        path: Path,
        *,
        bindings: Bindings | None = None,
        feeds: Mapping[str, NDArray[Any]] | None = None,
        threads: Sequence[int] = (1, 0),
    ) -> None:
        check_name(path)
        self._path, self._bindings, self._threads = path, bindings, tuple(dict.fromkeys(threads))
        self._requests = requests_of(path.read_bytes(), path.parent, bindings, feeds)
        self._known: dict[tuple[str | None, int], tuple[list[str], _Outputs]] = {}

    def compare(self, changed: Model, *, level: str | None = None) -> OutputComparison:
        """A model that was made from the file, as its own file runs, beside a session of the file.

        Both sessions are as users open them: with default options, and dimensions that are open in a file stay so. With
        a level, both know the values of these dimensions, and the session of the file is at that level. Where a bit
        differs the result says, too, what ONNX Runtime's own levels of optimisation differ by (`levels`).
        """
        found = OutputComparison(len(self._requests), 0.0, "", self._threads[0], is_identical=True)
        with temporary_folder() as folder, _told():
            file = folder / "changed.onnx"
            changed.save(file)
            for count in self._threads:
                names, wanted = self._outputs(level, count)
                session = _session(file, level, count, self._bindings)
                for request, values in zip(self._requests, wanted, strict=True):
                    for name, here, there in zip(names, values, session.run(None, request), strict=True):
                        is_same, difference = compare_values(here, there)
                        if not is_same and (found.is_identical or difference > found.largest):
                            found = OutputComparison(len(self._requests), difference, name, count, is_identical=False)
        return found if found.is_identical else replace(found, levels=self.levels)

    @cached_property
    def can_run(self) -> bool:
        """Whether a default session runs the file."""
        try:
            with _told():
                self._outputs(None, self._threads[0])
        except ModelError:
            return False
        return True

    @cached_property
    def levels(self) -> float:
        """What ONNX Runtime's own sessions of the file differ by from each other on these inputs, at most.

        Those are a default one, and one at each level of optimisation that knows the values of open dimensions.
        """
        with _told():
            apart = (
                compare_values(here, there)[1]
                for count in self._threads
                for one, other in combinations([self._outputs(name, count)[1] for name in (None, *LEVELS)], 2)
                for values, others in zip(one, other, strict=True)
                for here, there in zip(values, others, strict=True)
            )
            return max(apart, default=0.0)

    def latency_ratio(self, changed: Model) -> float:
        """Processor time of a run of a changed model as its file runs / that of the default session of the file.

        Both run in turn in one process on one thread; of each the quickest of several runs counts.
        """
        request = self._requests[0]
        with temporary_folder() as folder, _told():
            file = folder / "changed.onnx"
            changed.save(file)
            sessions = [_session(each, _DEFAULT, 1, self._bindings) for each in (self._path, file)]
            taken: tuple[list[float], list[float]] = ([], [])
            for session in sessions:
                session.run(None, request)
            least, most = _ROUNDS
            while len(taken[0]) < least or (len(taken[0]) < most and sum(map(sum, taken)) < _ENOUGH_S):
                for session, times in zip(sessions, taken, strict=True):
                    begun = time.process_time()
                    session.run(None, request)
                    times.append(time.process_time() - begun)
        return min(taken[1]) / max(min(taken[0]), 1e-9)

    def _outputs(self, level: str | None, threads: int) -> tuple[list[str], _Outputs]:
        """The names of the outputs, and their values in each run of a session of the file; arguments as `_session`."""
        key = level, threads
        if key not in self._known:
            session = _session(self._path, level, threads, self._bindings)
            names = [o.name for o in session.get_outputs()]
            self._known[key] = names, [session.run(None, request) for request in self._requests]
        return self._known[key]


def requests_of(
    content: bytes, folder: Path, bindings: Bindings | None, feeds: Mapping[str, NDArray[Any]] | None
) -> Requests:
    """Inputs of the runs that compare models: those given, and made-up ones. Raises UnknownShapeError.

    An input for which no values can be made, such as strings, has the given ones in each run; over a range of sizes
    the given ones are then all.
    """
    forms = onnx_editor().parts(content, folder).input_forms()
    given = [complete_feeds(forms, feeds, bindings)] if feeds else []
    kept = {name: value for name, value in (feeds or {}).items() if name in forms and not can_make(forms[name][0])}
    if bindings is None or not bindings.ranges:
        return given + [complete_feeds(forms, kept, bindings, seed=seed) for seed in range(_RUNS - len(given))]
    if kept:
        return given
    points = samples_of(bindings.dims, bindings.ranges)
    made = [make_feeds(forms, Bindings(dims, bindings.input_shapes), seed=k) for k, dims in enumerate(points)]
    return [*made, *given]


@contextmanager
def _told() -> Iterator[None]:
    """Raises ModelError instead of what ONNX Runtime raises."""
    try:
        yield
    except runtime_errors() as e:
        raise ModelError(f"ONNX Runtime cannot run the changed model: {str(e).splitlines()[0]}") from None


def _session(file: Path, level: str | None, threads: int, bindings: Bindings | None) -> Any:
    """A session of a file at a level, which knows the values of open dimensions; None: as users open it."""
    ort = onnxruntime()
    options = bind_dimensions(quiet_options(), bindings.fixed if bindings and level is not None else {})
    options.intra_op_num_threads = threads
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level or _DEFAULT])
    session_options_for(file.read_bytes(), options)
    return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
