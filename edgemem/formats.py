"""What a file format has to offer. Formats live outside this package and are found by their entry point."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, runtime_checkable

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet
    from edgemem.records.problem import Problem

__all__ = ["Bindings", "Foldable", "Model", "OfflinePlanned", "RecordFile", "load"]


@dataclass(frozen=True, slots=True)
class Bindings:
    """What the user says about unknown sizes: symbols by name, whole shapes by graph input."""

    dims: Mapping[str, int] = field(default_factory=dict)
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@runtime_checkable
class Model(Protocol):
    """A model file that can carry a plan. Immutable: the `with_` methods give a new one.

    Attributes:
        suffixes: file name endings of the format.
        default_target: the target a plan is made for when none is named.
        bindings: as given to `open`.
    """

    suffixes: ClassVar[tuple[str, ...]]
    default_target: ClassVar[str]
    bindings: Bindings

    @classmethod
    def open(cls, path: Path, bindings: Bindings) -> Self:
        """Read a file. Raises ModelError if it is not one of this format."""

    def graph(self) -> Graph:
        """Its graph with every size known. Raises UnknownShapeError naming what is missing."""

    def content(self) -> bytes:
        """The file as it would be saved, without separate weight files."""

    def with_order(self, order: tuple[int, ...]) -> Self:
        """The model running its operators in another topological order."""

    def with_plan(self, plan: bytes, planset: PlanSet) -> Self:
        """The model carrying an encoded plan (and what runtimes of this format read of it), replacing an older one."""

    def plan(self) -> bytes | None:
        """The encoded plan it carries, or None."""

    def save(self, path: Path) -> None:
        """Write the file atomically: an existing file is replaced whole or stays as it is."""


@runtime_checkable
class Foldable(Protocol):
    """A model whose compressed constants can be stored plain, for runtimes that cannot decompress them."""

    def folded(self) -> Model:
        """The model with plain constants, and without the plan it had."""


@runtime_checkable
class OfflinePlanned(Protocol):
    """A model whose format has a place for offsets that TFLite Micro obeys."""

    def offline_metadata(self) -> bytes | None:
        """They as they stand in the file, or None."""


@runtime_checkable
class RecordFile(Protocol):
    """A file of usage records, without a graph."""

    suffixes: ClassVar[tuple[str, ...]]

    @classmethod
    def open(cls, path: Path, bindings: Bindings) -> Self:
        """Read a file. Raises ModelError if it is not one of this format."""

    def problem(self) -> Problem:
        """Its usage records."""


def load(path: str | Path, bindings: Bindings | None = None) -> Model | RecordFile:
    """Open a file with the converter for its suffix. Raises ModelError if there is none, or it cannot be read."""
    path = Path(path)
    known: list[str] = []
    for entry in entry_points(group="edgemem.converters"):
        converter = entry.load()
        if path.suffix.lower() in converter.suffixes:
            if not path.is_file():
                raise ModelError(f"no file {path}")
            opened: Model | RecordFile = converter.open(path, bindings or Bindings())
            return opened
        known += converter.suffixes
    raise ModelError(
        f"{path.name}: no converter for {path.suffix or 'a name without suffix'}; there are {sorted(known)}"
    )
