"""PyTorch's snapshots of CUDA memory: the shape that `torch.cuda.memory._snapshot` documents (PyTorch 2.13).

A snapshot has the segments that the caching allocator holds, with the blocks in them, and for each device the last
events that it noted (`torch.cuda.memory._record_memory_history`). A block may be used again when its free is completed,
so that is where a request ends. Blocks that were in use before the first event are found by their frees, or among the
segments; they stand in front of the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from edgemem.errors import ModelError
from edgemem.system.regular_files import read_bounded
from edgemem.trace.budget import MOST_BYTES, ReadingBudget
from edgemem_converters.snapshot.annotations import Annotations
from edgemem_converters.snapshot.device import device_history
from edgemem_converters.snapshot.fields import integer, mapping, rows
from edgemem_converters.snapshot.places import Places
from edgemem_converters.snapshot.plain_pickle import read_plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from edgemem.trace.history import MemoryHistory

__all__ = ["SnapshotConverter"]

_MOST_DEVICES: Final = 1024
_ADDRESSES: Final = 2**64 - 1


class SnapshotConverter:
    """A snapshot as `torch.cuda.memory._dump_snapshot` writes it."""

    suffixes: ClassVar[tuple[str, ...]] = (".pickle", ".pkl")

    def __init__(self, histories: tuple[MemoryHistory, ...]) -> None:
        self._histories = histories

    def histories(self) -> tuple[MemoryHistory, ...]:
        """What each device was asked for, by number; only devices with segments or events."""
        return self._histories

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read a file, and run nothing that is in it.

        Raises ModelError if it is no snapshot, holds anything but plain data, or is beyond a `ReadingBudget`.
        """
        try:
            data = read_bounded(path, MOST_BYTES)
        except OSError as e:
            raise ModelError(f"cannot read {path.name}: {e}; record fewer events (max_entries)") from None
        try:
            return cls(_histories(mapping(read_plain(data), "the top"), ReadingBudget()))
        except ModelError as e:
            raise ModelError(f"{path.name}: {e}") from None


def _histories(snapshot: Mapping[str | int, Any], budget: ReadingBudget) -> tuple[MemoryHistory, ...]:
    traces = [rows(trace, "a device's trace") for trace in rows(snapshot.get("device_traces", []), "device_traces")]
    segments = [mapping(segment, "a segment") for segment in rows(snapshot.get("segments"), "segments")]
    annotations = rows(snapshot.get("external_annotations", []), "external_annotations")
    if len(traces) > _MOST_DEVICES:
        raise ModelError(f"it has more than {_MOST_DEVICES:,} devices")
    # Lists may be shared, so that the number of all lists says nothing about what they come to.
    budget.make(sum(map(len, traces)) + sum(len(rows(segment.get("blocks"), "blocks")) for segment in segments))
    noted = {number: [mapping(entry, "an event") for entry in trace] for number, trace in enumerate(traces) if trace}
    held: dict[int, list[Mapping[str | int, Any]]] = {number: [] for number in noted}
    # Segments of snapshots before PyTorch 2.2 do not name their device.
    default = next(iter(noted)) if len(noted) == 1 else 0
    for segment in segments:
        held.setdefault(integer(segment, "device", default, most=_MOST_DEVICES - 1), []).append(segment)
    budget.make(len(annotations) * len(held))
    places, settings = Places(), _settings(snapshot)
    return tuple(
        device_history(
            device,
            noted.get(device, []),
            held[device],
            places=places,
            annotations=Annotations(annotations, device),
            settings=settings,
        )
        for device in sorted(held)
    )


def _settings(snapshot: Mapping[str | int, Any]) -> str:
    """The text of PYTORCH_CUDA_ALLOC_CONF, if the snapshot has it."""
    given = mapping(snapshot.get("allocator_settings", {}), "allocator_settings")
    found = given.get("PYTORCH_ALLOC_CONF", given.get("PYTORCH_CUDA_ALLOC_CONF", ""))
    return found if type(found) is str else ""
