"""Compares a tiled model with the one it was made from: are the outputs the same bit for bit?

A kernel may add up a part in another order than the whole, so that this is tested for each file, on made-up inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError
from edgemem.formats import onnx_editor
from edgemem.runtime.differences import compare_values
from edgemem.runtime.feeds import make_feeds
from edgemem.runtime.onnxruntime.optimise import LEVELS, metadata_for, onnxruntime, runtime_errors, session_options_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import Bindings, Model

__all__ = ["TiledComparison", "compare_tiled"]

_RUNS: Final = 3
_ERRORS_ONLY: Final = 4  # log severity


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
    """

    runs: int
    largest: float
    output: str
    threads: int
    is_identical: bool

    def __str__(self) -> str:
        if self.is_identical:
            return f"the outputs of {self.runs} runs are the same bit for bit"
        threads = (
            "1 thread" if self.threads == 1 else f"{self.threads} threads" if self.threads else "a session's threads"
        )
        return f"output {self.output!r} differs by up to {self.largest:.2g} of its largest element with {threads}"


def compare_tiled(
    original: Model,
    tiled: Model,
    folder: Path,
    *,
    bindings: Bindings | None = None,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    level: str = "none",
    threads: Sequence[int] = (1, 0),
) -> TiledComparison:
    """Run a model and its tiled form in ONNX Runtime on the same inputs, and compare all outputs.

    Args:
        original: an ONNX model.
        tiled: made from it.
        folder: where both are written for the runtime, with their weights.
        bindings: values for open dimensions and shapes.
        feeds: inputs of the first run; the others are made up.
        level: how far ONNX Runtime optimises files that are not baked; baked ones run as they are.
        threads: numbers of threads to run with; 0 is as many as a session has by default.

    Raises ModelError where ONNX Runtime cannot load or run one of them.
    """
    ort = onnxruntime()
    files = {"original": folder / "original.onnx", "tiled": folder / "tiled.onnx"}
    original.save(files["original"])
    tiled.save(files["tiled"])
    forms = onnx_editor().parts(original.content(), folder).input_forms()
    given = [dict(feeds)] if feeds else []
    requests = given + [make_feeds(forms, bindings, seed=seed) for seed in range(_RUNS - len(given))]
    found = TiledComparison(len(requests), 0.0, "", threads[0], is_identical=True)
    try:
        for count in threads:
            sessions = [_session(ort, file, level, count) for file in files.values()]
            names = [o.name for o in sessions[0].get_outputs()]
            for request in requests:
                for name, here, there in zip(names, *(s.run(None, request) for s in sessions), strict=True):
                    is_same, difference = compare_values(here, there)
                    if not is_same and (found.is_identical or difference > found.largest):
                        found = TiledComparison(len(requests), difference, name, count, is_identical=False)
    except runtime_errors() as e:
        raise ModelError(f"ONNX Runtime cannot run the tiled model: {str(e).splitlines()[0]}") from None
    return found


def _session(ort: Any, file: Path, level: str, threads: int) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = _ERRORS_ONLY
    options.intra_op_num_threads = threads
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[level])
    session_options_for(metadata_for(file.read_bytes()), options)
    return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
