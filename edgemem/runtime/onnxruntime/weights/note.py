"""The note in a model that has packed weights beside it: which files they are, and for what they were packed."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from edgemem.errors import PlanFileError
from edgemem.runtime.onnxruntime.file import WEIGHTS_KEY, metadata_of
from edgemem.system.processor import processor_features

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.planfile.protobuf import Content

__all__ = ["CPU", "Note", "PackedFor", "file_name", "note_in", "place_here", "stem_of"]

CPU: Final = "CPUExecutionProvider"
_NAME: Final = re.compile(r"[^/\\:\x00.][^/\\:\x00]*\.[0-9a-f]{16}")  # of a file in the model's folder
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class PackedFor:
    """What packed weights depend on besides the model.

    Attributes:
        onnxruntime: its version.
        level: the name of its optimisation level.
        providers: the execution providers that run the model, in their order.
        processor: the machine, and those of its instructions that ONNX Runtime chooses kernels by.
    """

    onnxruntime: str
    level: str
    providers: str
    processor: str

    def difference(self, here: PackedFor) -> str:
        """Why weights for this place are not for another one, or ""; what no session can change comes first."""
        for name, what in (("onnxruntime", "onnxruntime "), ("processor", ""), ("level", ""), ("providers", "")):
            made, found = getattr(self, name), getattr(here, name)
            if made != found:
                return f"they were packed for {what}{made[:200]}, and this is {what}{found}"
        return ""

    def is_elsewhere(self, here: PackedFor) -> bool:
        """Whether the weights are for another machine or installation, whatever a session asks for."""
        return (self.onnxruntime, self.processor) != (here.onnxruntime, here.processor)


@dataclass(frozen=True, slots=True)
class Note:
    """What a model says of its packed weights. It is a claim until `checking` has compared it.

    Attributes:
        name: of the two files without their suffixes.
        place: what they were packed for.
        graph: the digest of the graph file, as `model_digest` has it.
        weights: the SHA-256 of the weights file.
    """

    name: str
    place: PackedFor
    graph: str
    weights: str

    def files(self, model: Path) -> tuple[Path, Path]:
        """The graph and the weights that belong to a model's file."""
        return model.parent / file_name(self.name, "graph"), model.parent / file_name(self.name, "weights")

    def encode(self) -> bytes:
        """As it stands in the model's metadata."""
        return json.dumps(asdict(self)).encode()


def file_name(name: str, kind: str) -> str:
    """The name of a file: `kind` is graph or weights."""
    return f"{name}.{kind}"


def stem_of(model: Path) -> str:
    """The first part of the name of a model's packed files, with _ for what a note's name must not have."""
    return re.sub(r"^\.|[\\:]", "_", model.stem)


def note_in(data: Content) -> Note | None:
    """The note in a model's bytes; None without one. Raises PlanFileError for one that is damaged."""
    text = metadata_of(data, (WEIGHTS_KEY,)).get(WEIGHTS_KEY)
    if text is None:
        return None
    try:
        entry = json.loads(text)
        note = Note(**{**entry, "place": PackedFor(**entry["place"])})
    except (ValueError, TypeError, KeyError, RecursionError):
        raise PlanFileError(f"the note {WEIGHTS_KEY} in the model is damaged; plan the model again") from None
    values = (note.name, note.graph, note.weights, *asdict(note.place).values())
    if not all(isinstance(value, str) for value in values):
        raise PlanFileError(f"the note {WEIGHTS_KEY} in the model is damaged; plan the model again")
    if not (_NAME.fullmatch(note.name) and _DIGEST.fullmatch(note.graph) and _DIGEST.fullmatch(note.weights)):
        raise PlanFileError(f"the note {WEIGHTS_KEY} in the model names no files beside it; plan the model again")
    return note


def place_here(version: str, level: str, providers: Sequence[str]) -> PackedFor:
    """The place that a session on this machine has."""
    return PackedFor(version, level, ", ".join(providers), processor_features())
