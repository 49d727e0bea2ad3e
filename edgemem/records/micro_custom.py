"""What the kernels of TensorFlow Lite Micro's custom operators keep in the tail: signal processing and decompression.

Read in tflite-micro 90b983c2b3f1 (signal/micro/kernels, tensorflow/lite/micro/kernels/decode*), with kissfft v130. The
sizes of what they keep follow from their tensors, except where the options of the operator decide them, which only the
kernel can read: `is_counted` tells.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.model.graph import Graph, Op, Tensor

__all__ = ["CUSTOM", "custom_sizes", "is_counted"]

_WIDTH: Final[Mapping[str, int]] = {"int16": 2, "int32": 4, "float32": 4}
_FFT: Final = 264  # of a complex transform, without its factors
_FACTORS: Final = 3  # of a real transform, in pointers: what it has beside the complex one of half the length


def custom_sizes(graph: Graph, op: Op, pointer: int) -> tuple[int, ...] | None:
    """Bytes of each piece that the kernel of a custom operator allocates for good; None where they are not known.

    `pointer` is bytes of a pointer of the device.
    """
    rule = _RULES.get(op.type)
    ends = [*op.inputs[:1], *op.outputs[:1]]
    if rule is None or len(ends) < 2 or min(ends) < 0:
        return None
    read, made = (graph.tensors[index] for index in ends)
    if op.type == _DECODE:
        return _decoded([graph.tensors[index] for index in op.outputs if index >= 0], pointer)
    return rule(read, made, pointer)


def is_counted(kind: str) -> bool:
    """Whether what an operator's kernel keeps is known, as it is of all that are not custom."""
    return kind not in CUSTOM or kind in _RULES


def _last(tensor: Tensor) -> int:
    return tensor.shape[-1] if tensor.shape else 1


def _two_numbers(_read: Tensor, _made: Tensor, _pointer: int) -> tuple[int, ...]:
    return (8,)


def _one_number(_read: Tensor, _made: Tensor, _pointer: int) -> tuple[int, ...]:
    return (4,)


def _detected(_read: Tensor, _made: Tensor, _pointer: int) -> tuple[int, ...]:
    return (112,)


def _nothing(_read: Tensor, _made: Tensor, _pointer: int) -> tuple[int, ...]:
    return ()


def _filter_bank(_read: Tensor, made: Tensor, pointer: int) -> tuple[int, ...]:
    """Its options, and a sum of 64 bits for each channel and one more."""
    return 36 if pointer == 4 else 64, 8 * (prod(made.shape) + 1)


def _subtraction(read: Tensor, _made: Tensor, pointer: int) -> tuple[int, ...]:
    """Its options, and an estimate of the noise for each channel."""
    return 44 if pointer == 4 else 56, 4 * prod(read.shape)


def _transform(read: Tensor, made: Tensor, pointer: int) -> tuple[int, ...]:
    """Its options, and the factors of a transform whose results are length / 2 + 1 complex numbers."""
    return 32 if pointer == 4 else 48, _factors(_last(made) - 2, _WIDTH.get(read.dtype, 4), pointer)


def _inverse(read: Tensor, made: Tensor, pointer: int) -> tuple[int, ...]:
    return 24 if pointer == 4 else 32, _factors(_last(read) - 2, _WIDTH.get(made.dtype, 4), pointer)


def _factors(length: int, width: int, pointer: int) -> int:
    half = max(length, 0) // 2
    return _FACTORS * pointer + _FFT + 2 * width * half + 2 * width * (half * 3 // 2)


def _decoded(made: list[Tensor], pointer: int) -> tuple[int, ...]:
    """A pointer and a state for each result, of the largest kind, and zero points of channels.

    Models with such operators took 16 bytes more, however many they had; they are counted with each.
    """
    state = 40 if pointer == 4 else 80
    points = (tensor.scales for tensor in made if tensor.scales > 1)
    return (pointer * len(made), *(state for _ in made), *points, 16)


_DECODE: Final = "TFLM_DECODE"
_RULES: Final[Mapping[str, Callable[[Tensor, Tensor, int], tuple[int, ...]]]] = {
    "SignalEnergy": _two_numbers,
    "SignalFftAutoScale": _nothing,
    "SignalFilterBank": _filter_bank,
    "SignalFilterBankLog": _two_numbers,
    "SignalFilterBankSpectralSubtraction": _subtraction,
    "SignalFilterBankSquareRoot": _nothing,
    "SignalIrfft": _inverse,
    "SignalPCAN": _one_number,
    "SignalRfft": _transform,
    "SignalWindow": _two_numbers,
    "TFLite_Detection_PostProcess": _detected,
    _DECODE: _nothing,
}
CUSTOM: Final = frozenset(
    (
        *_RULES,
        *("CIRCULAR_BUFFER", "SignalDelay", "SignalFramer", "SignalOverlapAdd", "SignalStacker"),
    )
)
