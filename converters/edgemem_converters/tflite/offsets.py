"""The offsets in a .tflite file that TensorFlow Lite Micro obeys: the metadata entry `OfflineMemoryAllocation`.

It is int32 [1, 0, n, offsets...] for the tensors of all subgraphs in file order, -1 for those that it places itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from edgemem.errors import InvalidPlanError, ModelError, UnsupportedError
from edgemem.formats.offline_allocation import MICRO_ALIGNMENT, micro_offsets
from edgemem.model.dtypes import is_sub_byte
from edgemem_converters.tflite.names import DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.plans import PlanSet
    from edgemem_converters.tflite.graph import Place
    from edgemem_converters.tflite.reader import FileModel

__all__ = ["OFFLINE", "decode_offsets", "encode_offsets"]

OFFLINE: Final = "OfflineMemoryAllocation"


def encode_offsets(planset: PlanSet, file: FileModel, places: Mapping[str, Place]) -> bytes:
    """The entry for the offsets of a plan.

    Args:
        planset: of the file's graph.
        file: the file.
        places: subgraph and tensor of every name in the graph.

    Raises:
        InvalidPlanError: offsets that are no multiple of 16, or beyond int32; tensors that the file does not have, or
            that are packed in the plan.
        UnsupportedError: a tensor has two places, or TensorFlow Lite Micro would give a variable none.
    """
    starts = _starts(file)
    vector = [-1] * starts[-1]
    is_packed = planset.target is not None and planset.target.sub_byte == "packed"
    for name, offset in micro_offsets(planset).items():
        if offset % MICRO_ALIGNMENT or not 0 <= offset < 2**31:
            raise InvalidPlanError(
                f"{name!r} is at offset {offset}; TensorFlow Lite Micro takes multiples of {MICRO_ALIGNMENT} "
                "below 2 GiB: plan with --alignment 16 or more"
            )
        if name not in places:
            raise InvalidPlanError(f"the plan places {name!r}, a tensor that the model does not have")
        number, tensor = places[name]
        kind = file.subgraphs[number].tensors[tensor].type
        if is_packed and 0 <= kind < len(DTYPES) and is_sub_byte(DTYPES[kind]):
            raise InvalidPlanError(
                f"{name!r} of {DTYPES[kind]} is packed in the plan, and TensorFlow Lite Micro gives each element a "
                'byte: plan with --target tflm, or with sub_byte = "unpacked" in the target'
            )
        index = starts[number] + tensor
        if vector[index] not in (-1, offset):
            raise UnsupportedError(
                f"the plan has two places for {name!r}, because two operators run subgraph {number}; TensorFlow Lite "
                "Micro knows one: plan again"
            )
        vector[index] = offset
    _refuse_lost_variables(file, vector)
    return np.array([1, 0, len(vector), *vector], dtype="<i4").tobytes()


def decode_offsets(data: bytes, file: FileModel, places: Mapping[str, Place]) -> dict[str, int]:
    """The offsets in an entry by name; tensors without one are absent. "" is an entry without offsets.

    The first two numbers differ between the tools that write it (edgemem, Vela, others) and have no meaning. Raises
    ModelError if the number of offsets is not that of the tensors, or an offset is below -1.
    """
    if not data:
        return {}
    starts = _starts(file)
    numbers = np.frombuffer(data[: len(data) // 4 * 4], dtype="<i4").tolist()
    if len(numbers) != 3 + starts[-1] or numbers[2] != starts[-1]:
        raise ModelError(f"the {OFFLINE} of the file has not one offset for each of the {starts[-1]} tensors")
    offsets = {name: numbers[3 + starts[number] + tensor] for name, (number, tensor) in places.items()}
    negative = next((name for name, offset in offsets.items() if offset < -1), None)
    if negative is not None:
        raise ModelError(
            f"the {OFFLINE} of the file places {negative!r} at {offsets[negative]}, before the arena: "
            "plan the file again"
        )
    return {name: offset for name, offset in offsets.items() if offset >= 0}


def _starts(file: FileModel) -> list[int]:
    """How many tensors the subgraphs before each have, and all."""
    starts: list[int] = np.cumsum([0, *(len(s.tensors) for s in file.subgraphs)]).tolist()
    return starts


def _refuse_lost_variables(file: FileModel, vector: list[int]) -> None:
    """Raise UnsupportedError where TensorFlow Lite Micro would have no memory for a variable, and crash.

    It looks up the offset of a variable under its number in its own subgraph, as if that were the first.
    """
    for number, subgraph in enumerate(file.subgraphs[1:], 1):
        for index, tensor in enumerate(subgraph.tensors):
            if tensor.variable and index < len(vector) and vector[index] >= 0:
                raise UnsupportedError(
                    f"TensorFlow Lite Micro would give the variable {tensor.name!r} of subgraph {number} no memory, "
                    f"because tensor {index} of the main subgraph has a place: keep variables in the main subgraph, or "
                    "plan for LiteRT (--target litert)"
                )
