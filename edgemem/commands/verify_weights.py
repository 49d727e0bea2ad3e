"""What `edgemem verify` says of the packed weights beside an ONNX file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgemem.commands.verify import Leg
from edgemem.errors import PlanFileError
from edgemem.proof import Cause, Violation
from edgemem.report.sizes import size_text
from edgemem.runtime.onnxruntime.baked_file import onnxruntime
from edgemem.runtime.onnxruntime.file import opened
from edgemem.runtime.onnxruntime.file_options import options_for_file
from edgemem.runtime.onnxruntime.weights.checking import UnusableError, check, checks_folder
from edgemem.runtime.onnxruntime.weights.note import CPU, note_in, place_here

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["ExaminedWeights", "examine_weights"]


@dataclass(frozen=True, slots=True)
class ExaminedWeights:
    """What came of the packed weights of a file.

    Attributes:
        legs: the comparison that was made; () without packed weights, and where none could be made.
        not_checked: why they were not compared.
        violations: why they are wrong. Sessions use the plain weights then, so results are right in any case.
    """

    legs: tuple[Leg, ...] = ()
    not_checked: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()


def examine_weights(path: Path) -> ExaminedWeights:
    """Pack the weights of a model again, and compare, whatever was remembered of them.

    Raises MissingDependencyError where the model has packed weights and onnxruntime is not installed.
    """
    try:
        with opened(path) as (data, _):
            note = note_in(data)
            if note is None:
                return ExaminedWeights()
            ort = onnxruntime()
            options = ort.SessionOptions()
            with options_for_file(data, options):
                here = place_here(ort.__version__, options.graph_optimization_level.name, [CPU])
        if different := note.place.difference(here):
            return ExaminedWeights(not_checked=(f"the packed weights: {different}; sessions here use the plain ones",))
        check(path, note, checks_folder(), afresh=True)
    except (UnusableError, PlanFileError) as e:
        return ExaminedWeights(violations=(Violation(Cause.DIFFERENT_WEIGHTS, f"packed weights: {e}"),))
    size = sum(file.stat().st_size for file in note.files(path))
    text = f"{size_text(size)} beside the model are what packing it gives here (onnxruntime"
    return ExaminedWeights((Leg("weights", f"{text} {here.onnxruntime}, {here.level})"),))
