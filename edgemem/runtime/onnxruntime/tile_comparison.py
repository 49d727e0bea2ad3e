"""Compares a tiled model with what it was made from: are the outputs the same bit for bit, and what does a run cost?

A kernel may add up a part in another order than the whole, so that this is tested for each file, on made-up inputs.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError
from edgemem.formats import onnx_editor
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

    from edgemem.formats import Bindings, Model

    Requests = list[dict[str, NDArray[Any]]]

__all__ = ["SessionPrice", "TiledComparison", "compare_tiled", "compare_with_session", "measure_price"]

_RUNS: Final = 3
_ERRORS_ONLY: Final = 4  # log severity
_DEFAULT: Final = "all"  # the level of a session whose options say nothing
_OTHER_LEVELS: Final = ("none", "extended")
_ROUNDS: Final = (5, 20)  # timed runs of each session: at least, at most
_ENOUGH_S: Final = 2.0  # seconds of timed runs, after which the least number is enough


@dataclass(frozen=True, slots=True)
class TiledComparison:
    """The result of a comparison.

    Attributes:
        runs: on different inputs, for each number of threads.
        largest: the largest difference of an output's element, relative to the largest element of that output; 0 where
            all are the same bit for bit.
        output: the name of the output that differs most; "" if none does.
        threads: of the run that it differs most in.
        is_identical: every bit of every output is the same in all runs.
        levels: what ONNX Runtime's other levels of optimisation differ by from its default session on these inputs, as
            `largest`; 0 where that was not asked for.
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


@dataclass(frozen=True, slots=True)
class SessionPrice:
    """What a changed model costs in ONNX Runtime beside the default session of the file that it was made from.

    Attributes:
        seconds: processor time of a run on one thread, the least of several: of the default session, and of the changed
            model as its file runs. Both ran in turn in one process.
        outputs: how far the outputs are from those of the default session.
    """

    seconds: tuple[float, float]
    outputs: TiledComparison


def compare_tiled(
    original: Model,
    tiled: Model,
    folder: Path,
    *,
    bindings: Bindings | None = None,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    threads: Sequence[int] = (1, 0),
) -> TiledComparison:
    """Run a model and its tiled form in ONNX Runtime as they are on the same inputs, and compare all outputs.

    Args:
        original: an ONNX model.
        tiled: made from it.
        folder: where both are written for the runtime, with their weights.
        bindings: values for open dimensions and shapes.
        feeds: inputs of the first run; the others are made up.
        threads: numbers of threads to run with; 0 is as many as a session has by default.

    Raises ModelError where ONNX Runtime cannot load or run one of them.
    """
    files = {"original": folder / "original.onnx", "tiled": folder / "tiled.onnx"}
    original.save(files["original"])
    tiled.save(files["tiled"])
    requests = _requests(original.content(), folder, bindings, feeds)
    with _told():
        return _compared(files["original"], files["tiled"], requests, "none", threads, bindings)


def compare_with_session(
    path: Path,
    changed: Model,
    *,
    bindings: Bindings | None = None,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    threads: Sequence[int] = (1, 0),
) -> TiledComparison:
    """Run a file in ONNX Runtime's default session, and a model that was made from it as its own file runs.

    The result says, too, what ONNX Runtime's own levels of optimisation differ by (`levels`), where a bit differs.

    Args:
        path: an .onnx file.
        changed: made from it.
        bindings: values for open dimensions and shapes.
        feeds: inputs of the first run; the others are made up.
        threads: numbers of threads to run with; 0 is as many as a session has by default.

    Raises ModelError where ONNX Runtime cannot load or run one of them.
    """
    requests = _requests(path.read_bytes(), path.parent, bindings, feeds)
    with temporary_folder() as folder, _told():
        file = folder / "changed.onnx"
        changed.save(file)
        found = _compared(path, file, requests, _DEFAULT, threads, bindings)
        if found.is_identical:
            return found
        default = _session(path, _DEFAULT, 1, bindings)
        others = [_session(path, level, 1, bindings) for level in _OTHER_LEVELS]
        apart = (
            compare_values(here, there)[1]
            for request in requests
            for known in [default.run(None, request)]
            for other in others
            for here, there in zip(known, other.run(None, request), strict=True)
        )
        return replace(found, levels=max(apart, default=0.0))


def measure_price(
    path: Path,
    changed: Model,
    *,
    bindings: Bindings | None = None,
    feeds: Mapping[str, NDArray[Any]] | None = None,
) -> SessionPrice:
    """What a model costs that was made from a file, in time and in bits.

    Arguments and errors are those of `compare_with_session`.
    """
    outputs = compare_with_session(path, changed, bindings=bindings, feeds=feeds, threads=(1,))
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
    return SessionPrice((min(taken[0]), min(taken[1])), outputs)


def _compared(
    original: Path,
    changed: Path,
    requests: Requests,
    level: str,
    threads: Sequence[int],
    bindings: Bindings | None,
) -> TiledComparison:
    found = TiledComparison(len(requests), 0.0, "", threads[0], is_identical=True)
    for count in threads:
        sessions = [_session(file, level, count, bindings) for file in (original, changed)]
        names = [o.name for o in sessions[0].get_outputs()]
        for request in requests:
            for name, here, there in zip(names, *(s.run(None, request) for s in sessions), strict=True):
                is_same, difference = compare_values(here, there)
                if not is_same and (found.is_identical or difference > found.largest):
                    found = TiledComparison(len(requests), difference, name, count, is_identical=False)
    return found


def _requests(
    content: bytes, folder: Path, bindings: Bindings | None, feeds: Mapping[str, NDArray[Any]] | None
) -> Requests:
    forms = onnx_editor().parts(content, folder).input_forms()
    given = [dict(feeds)] if feeds else []
    return given + [make_feeds(forms, bindings, seed=seed) for seed in range(_RUNS - len(given))]


@contextmanager
def _told() -> Iterator[None]:
    """Raises ModelError instead of what ONNX Runtime raises."""
    try:
        yield
    except runtime_errors() as e:
        raise ModelError(f"ONNX Runtime cannot run the tiled model: {str(e).splitlines()[0]}") from None


def _session(file: Path, level: str, threads: int, bindings: Bindings | None) -> Any:
    ort = onnxruntime()
    options = bind_dimensions(ort.SessionOptions(), bindings.dims if bindings else {})
    options.log_severity_level = _ERRORS_ONLY
    options.intra_op_num_threads = threads
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    session_options_for(metadata_for(file.read_bytes()), options)
    return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
