"""What TensorFlow Lite Micro makes of the offsets in a .tflite file."""

from __future__ import annotations

from edgemem.targets import BUILT_IN
from tests.oracle.memory_plans.checker import Checker
from tests.oracle.memory_plans.tflite_file import offline_offsets, read_tflite

__all__ = ["wrongs_of_offsets"]

_ALIGNMENT = 16  # of TensorFlow Lite Micro's arena


def wrongs_of_offsets(data: bytes) -> list[str]:
    """What is wrong with the offsets that TensorFlow Lite Micro takes from a file; it chooses where there is none."""
    offsets = offline_offsets(data)
    if offsets is None:
        return []
    program = read_tflite(data)
    stage = Checker(program).stage(BUILT_IN["tflm"])
    timeline, placed = stage.timeline, {}
    for name, value in program.values.items():
        assert value.place is not None
        offset, i = offsets[value.place], timeline.ids[name]
        if offset == -1 or value.role == "constant" or not timeline.units[i] or i not in timeline.used:
            continue
        if offset < 0 or offset % _ALIGNMENT:
            return [f"{name!r} is at {offset}"]
        placed[i] = (offset, offset + timeline.units[i])
    difference = stage.difference(placed)
    return [f"{difference.tensor!r}, {difference.why}, is wrong"] if difference else []
