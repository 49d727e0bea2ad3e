"""What several models take together: in TensorFlow Lite Micro's one arena, or on a computer or phone.

There .onnx models share an `edgemem.Arena`, and each .tflite model has an arena of LiteRT's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from edgemem.commands.process_parts import ARENA, check_budget
from edgemem.commands.process_size import process_size
from edgemem.commands.size import size_of
from edgemem.records.micro_arena import shared_arena
from edgemem.records.micro_builds import INSTALLED, build_of
from edgemem.runtime.tflite_file import open_model
from edgemem.runtime.tflm.size import planned_micro
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["ArenaModel", "Share", "SharedSize", "check_shared", "shared_size"]

Share: TypeAlias = Literal["sequential", "interleaved"]

_DEVICE: Final = build_of(BUILT_IN["tflm"])


@dataclass(frozen=True, slots=True)
class ArenaModel:
    """A model; sizes are bytes.

    Attributes:
        name: of the file.
        arena: which it needs alone.
        head, tail: its parts in TensorFlow Lite Micro; None elsewhere.
    """

    name: str
    arena: int
    head: int | None = None
    tail: int | None = None


@dataclass(frozen=True, slots=True)
class SharedSize:
    """What the models take together; sizes are bytes.

    Attributes:
        share: `sequential`: one runs after the other, and nothing of a run is needed once another begins.
            `interleaved`: outputs of one are kept while another runs, so that each has an arena of its own. In LiteRT
            each has one in any case.
        models: in the order in which their tensors are allocated.
        arena: of all of them. In TensorFlow Lite Micro with 32-bit pointers, as predicted.
        computer: in TensorFlow Lite Micro the same with 64-bit pointers; None elsewhere.
        head, tail: parts of `arena` in TensorFlow Lite Micro; None where each model has an arena of its own.
    """

    share: Share
    models: tuple[ArenaModel, ...]
    arena: int
    computer: int | None = None
    head: int | None = None
    tail: int | None = None


def shared_size(
    paths: Sequence[Path], share: Share, *, in_tflm: bool = True, timeout_s: float | None = None
) -> SharedSize:
    """The arena of several models.

    Args:
        paths: of .tflite files for TensorFlow Lite Micro; of .tflite and .onnx files elsewhere.
        share: how they run.
        in_tflm: whether TensorFlow Lite Micro runs them, with one `MicroAllocator`.
        timeout_s: seconds until each process that runs a model is ended; None for ten minutes.

    Raises as `size_of` and `process_size` do.
    """
    if not in_tflm:
        models = tuple(ArenaModel(path.name, _arena_of(path, timeout_s)) for path in paths)
        own = sum(model.arena for model, path in zip(models, paths, strict=True) if _is_tflite(path))
        common = [model.arena for model, path in zip(models, paths, strict=True) if not _is_tflite(path)]
        return SharedSize(share, models, own + (max(common, default=0) if share == "sequential" else sum(common)))
    micro = [planned_micro(open_model(path))[1] for path in paths]
    alone, here = ([shared_arena([model], build) for model in micro] for build in (_DEVICE, INSTALLED))
    models = tuple(
        ArenaModel(path.name, one.total, one.head.total, one.tail) for path, one in zip(paths, alone, strict=True)
    )
    if share == "interleaved":
        return SharedSize(share, models, *(sum(one.total for one in each) for each in (alone, here)))
    one = shared_arena(micro, _DEVICE)
    return SharedSize(share, models, one.total, shared_arena(micro, INSTALLED).total, one.head.total, one.tail)


def check_shared(size: SharedSize, budget: int | None) -> None:
    """Raise BudgetExceededError if the models need more than `budget` bytes."""
    check_budget(size.arena, budget, "{required:,} bytes required, {available:,} available; the models are above")


def _is_tflite(path: Path) -> bool:
    return path.suffix.lower() == ".tflite"


def _arena_of(path: Path, timeout_s: float | None) -> int:
    """What an interpreter has for itself, or a session needs of an `edgemem.Arena`."""
    if _is_tflite(path):
        return size_of(path, "litert", timeout_s=timeout_s).arena or 0
    parts = process_size(path, timeout_s=timeout_s).points[0].parts
    return next(part.size for part in parts if part.name == ARENA)
