"""Compares a changed model with what it was made from: are the outputs the same bit for bit, and what does a run cost?

A kernel may add up a part in another order than the whole, so that this is tested for each file, on made-up inputs.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError
from edgemem.formats import Bindings, onnx_editor
from edgemem.model.ranges import samples_of
from edgemem.runtime.differences import compare_values
from edgemem.runtime.feeds import make_feeds
from edgemem.runtime.onnxruntime.baked_file import (
    LEVELS,
    bind_dimensions,
    metadata_for,
    onnxruntime,
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

__all__ = ["OutputComparison", "compare_with_session", "latency_ratio"]

_RUNS: Final = 3
_ERRORS_ONLY: Final = 4  # log severity
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


def compare_with_session(
    path: Path,
    changed: Model,
    *,
    bindings: Bindings | None = None,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    threads: Sequence[int] = (1, 0),
    level: str = _DEFAULT,
) -> OutputComparison:
    """Run a file in ONNX Runtime, and a model that was made from it as its own file runs.

    Where dimensions have ranges, the inputs are of the ends of the ranges and of the middle.

    The result says, too, what ONNX Runtime's own levels of optimisation differ by (`levels`), where a bit differs.

    Args:
        path: an .onnx file.
        changed: made from it.
        bindings: values for open dimensions and shapes.
        feeds: inputs of the first run; the others are made up.
        threads: numbers of threads to run with; 0 is as many as a session has by default.
        level: of the session that the file runs in.

    Raises ModelError where ONNX Runtime cannot load or run one of them.
    """
    requests = _requests(path.read_bytes(), path.parent, bindings, feeds)
    with temporary_folder() as folder, _told():
        file = folder / "changed.onnx"
        changed.save(file)
        found = _compared(path, file, requests, level, threads, bindings)
        if found.is_identical:
            return found
        apart = (
            compare_values(here, there)[1]
            for count in threads
            for sessions in [[_session(path, name, count, bindings) for name in LEVELS]]
            for request in requests
            for one, other in combinations([session.run(None, request) for session in sessions], 2)
            for here, there in zip(one, other, strict=True)
        )
        return replace(found, levels=max(apart, default=0.0))


def latency_ratio(
    path: Path,
    changed: Model,
    *,
    bindings: Bindings | None = None,
    feeds: Mapping[str, NDArray[Any]] | None = None,
) -> float:
    """Processor time of a run of a changed model as its file runs / that of the default session of its original.

    Both run in turn in one process on one thread; of each the quickest of several runs counts. Arguments and errors are
    those of `compare_with_session`.
    """
    request = _requests(path.read_bytes(), path.parent, bindings, feeds)[0]
    with temporary_folder() as folder, _told():
        file = folder / "changed.onnx"
        changed.save(file)
        sessions = [_session(path, _DEFAULT, 1, bindings), _session(file, _DEFAULT, 1, bindings)]
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


def _compared(
    original: Path,
    changed: Path,
    requests: Requests,
    level: str,
    threads: Sequence[int],
    bindings: Bindings | None,
) -> OutputComparison:
    found = OutputComparison(len(requests), 0.0, "", threads[0], is_identical=True)
    for count in threads:
        sessions = [_session(file, level, count, bindings) for file in (original, changed)]
        names = [o.name for o in sessions[0].get_outputs()]
        for request in requests:
            for name, here, there in zip(names, *(s.run(None, request) for s in sessions), strict=True):
                is_same, difference = compare_values(here, there)
                if not is_same and (found.is_identical or difference > found.largest):
                    found = OutputComparison(len(requests), difference, name, count, is_identical=False)
    return found


def _requests(
    content: bytes, folder: Path, bindings: Bindings | None, feeds: Mapping[str, NDArray[Any]] | None
) -> Requests:
    forms = onnx_editor().parts(content, folder).input_forms()
    given = [dict(feeds)] if feeds else []
    if bindings is None or not bindings.ranges:
        return given + [make_feeds(forms, bindings, seed=seed) for seed in range(_RUNS - len(given))]
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


def _session(file: Path, level: str, threads: int, bindings: Bindings | None) -> Any:
    ort = onnxruntime()
    options = bind_dimensions(ort.SessionOptions(), bindings.fixed if bindings else {})
    options.log_severity_level = _ERRORS_ONLY
    options.intra_op_num_threads = threads
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    session_options_for(metadata_for(file.read_bytes()), options)
    return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
