"""What a decoder is fed besides its caches: tokens, the mask, positions, and counts of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import RuntimeBindError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["DTYPES", "KnownInputs"]

DTYPES: Final[Mapping[str, Any]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}
_TOKENS: Final = ("input_ids", "inputs_embeds", "decoder_input_ids", "tokens")
_MASK: Final = "attention_mask"
_POSITIONS: Final = ("position_ids", "cache_position")
_PAST_ROWS: Final = "past_rows"  # [t, 0]: its length alone counts


class KnownInputs:
    """The inputs of a decoder that are no caches, and how their values are made.

    Attributes:
        tokens: the name of the input for tokens.
        tokens_dtype: its type.
        tokens_dim: how the model calls its second dimension.

    Raises RuntimeBindError if no input is for tokens.
    """

    def __init__(self, inputs: Mapping[str, Any], capacity: int, batch: int) -> None:
        self._inputs = dict(inputs)
        self._batch = batch
        candidates = [n for n in _TOKENS if n in inputs] or [n for n in inputs if n not in _made_here()]
        if not candidates:
            raise RuntimeBindError(f"no input is for tokens; there are {', '.join(map(repr, inputs)) or 'none'}")
        self.tokens = candidates[0]
        self.tokens_dtype = DTYPES.get(inputs[self.tokens].type, np.int64)
        self.tokens_dim = inputs[self.tokens].shape[1] if len(inputs[self.tokens].shape) > 1 else None
        mask = inputs.get(_MASK)
        self._ones = np.ones(batch * capacity, DTYPES[mask.type]) if mask is not None else None
        self._numbers = {n: np.arange(capacity, dtype=DTYPES[inputs[n].type]) for n in _POSITIONS if n in inputs}

    def is_last_only(self, logits: Any) -> bool:
        """Whether the model gives logits of the last token alone."""
        return len(logits.shape) == 3 and logits.shape[1] == 1 and self.tokens_dim != 1

    def values(self, ids: NDArray[Any], length: int, feeds: Mapping[str, Any] | None) -> dict[str, NDArray[Any]]:
        """The value of every input for tokens behind `length` others.

        Raises RuntimeBindError for inputs without a value, and for values of inputs that there are not.
        """
        given = feeds or {}
        if unknown := given.keys() - self._inputs.keys():
            raise RuntimeBindError(f"the model has no input {min(unknown)!r}; there are {', '.join(self._inputs)}")
        values = {}
        for name in self._inputs:
            if name in given:
                value = np.ascontiguousarray(given[name], dtype=DTYPES.get(self._inputs[name].type))
            elif name == self.tokens:
                value = ids
            else:
                value = self._made(name, ids.shape[1], length)
            values[name] = value
        return values

    def _made(self, name: str, count: int, length: int) -> NDArray[Any]:
        after, batch = length + count, self._batch
        if name == _MASK and self._ones is not None:
            return self._ones[: batch * after].reshape(batch, after)
        if name in self._numbers:
            numbers = self._numbers[name][length:after]
            if len(self._inputs[name].shape) == 1:
                return numbers
            return numbers.reshape(1, count) if batch == 1 else np.tile(numbers, (batch, 1))
        if name == _PAST_ROWS:
            return np.empty((length, 0), np.float32)
        if name == "seqlens_k":
            return np.full(batch, after - 1, np.int32)
        if name == "total_sequence_length":
            return np.full((1,) * len(self._inputs[name].shape), after, np.int32)
        raise RuntimeBindError(f"the model has an input {name!r}; give its value in `feeds`")


def _made_here() -> frozenset[str]:
    return frozenset((_MASK, *_POSITIONS, _PAST_ROWS, "seqlens_k", "total_sequence_length"))
