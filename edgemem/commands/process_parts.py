"""The parts of a process that serves a model: what `size` says it will take, and what `measure` finds."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from edgemem.runtime.feeds import Feeds

__all__ = ["ARENA", "INPUTS", "OUTPUTS", "MemoryPart", "check_installed", "opened_parts", "save_requests"]

INPUTS: Final = "inputs"
ARENA: Final = "arena, workspace"
OUTPUTS: Final = "outputs, in the pool"


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A part of the resident memory of a process.

    Attributes:
        name: what it is for.
        size: bytes; below 0 only where it corrects another part that was not touched as a whole.
        shared: those of the bytes that all processes of the model share: pages of files.
        known: how it is known.
    """

    name: str
    size: int
    known: str
    shared: int = 0


def check_installed() -> None:
    """Raise MissingDependencyError if onnxruntime is not installed.

    It is not imported: what this process has of its pages would count as shared with those that are measured.
    """
    if find_spec("onnxruntime") is None:
        raise MissingDependencyError("onnxruntime", purpose="running an ONNX model")


def opened_parts(opened: Mapping[str, Any], weights: int) -> list[MemoryPart]:
    """What a process takes with its session open and nothing run.

    Args:
        opened: what `measure_child` says of a session that it opened.
        weights: bytes of the model's constants, as its file has them.
    """
    mapped, grown = opened["weights_mapped"], max(opened["anonymous"] - opened["before"], 0)
    inside = min(max(weights - mapped, 0), grown)
    measured = "measured here"
    return [
        MemoryPart("libraries", opened["before"] + opened["code"], measured, opened["code"]),
        MemoryPart("weights, mapped", mapped, measured, mapped),
        MemoryPart("weights, anonymous", inside, "from the file"),
        MemoryPart("packed copies, graph", grown - inside, measured),
    ]


def save_requests(requests: Iterable[Feeds], folder: Path) -> list[dict[str, tuple[str, str, tuple[int, ...], int]]]:
    """A file for each array, and its dtype, shape and bytes, by request and input, as `measure_child` reads them."""
    saved: list[dict[str, tuple[str, str, tuple[int, ...], int]]] = []
    for k, request in enumerate(requests):
        saved.append({})
        for place, (name, value) in enumerate(request.items()):
            file = folder / f"{k}-{place}"
            file.write_bytes(value.tobytes())
            saved[-1][name] = (str(file), value.dtype.str, value.shape, value.nbytes)
    return saved
