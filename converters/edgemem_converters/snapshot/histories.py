"""What a snapshot of PyTorch's memory holds: the shape that `torch.cuda.memory._snapshot` documents (PyTorch 2.13).

A snapshot has the segments that the caching allocator holds, with the blocks in them, and for each device the last
events that it noted (`torch.cuda.memory._record_memory_history`). A block may be used again when its free is completed,
so that is where a request ends. Blocks that were in use before the first event are found by their frees, or among the
segments; they stand in front of the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError
from edgemem.trace.budget import ReadingBudget
from edgemem_converters.snapshot.annotations import Annotations
from edgemem_converters.snapshot.device import device_history
from edgemem_converters.snapshot.fields import integer, mapping, rows
from edgemem_converters.snapshot.places import Places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.trace.history import MemoryHistory

__all__ = ["histories_of"]

_MOST_DEVICES: Final = 1024


def histories_of(content: object) -> tuple[MemoryHistory, ...]:
    """What each device was asked for, by number; only devices with segments or events.

    Raises ModelError if the content is no snapshot, or beyond a `ReadingBudget`.
    """
    snapshot, budget = mapping(content, "the top"), ReadingBudget()
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
