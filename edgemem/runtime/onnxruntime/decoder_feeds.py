"""What a caller feeds a decoder for several tokens: checked before the first run, and cut for each.

rows in the caches      tokens of a step, in runs of at most `chunk`
├───────────────────┤├──────────────┤├──────────────┤
mask, of all rows   └ to here for run 1             └ to here for run 2
positions, types     ├─ for run 1 ──┤├─ for run 2 ──┤
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from edgemem.errors import RuntimeBindError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["MASK", "PAST_ROWS", "POSITIONS", "Given", "InputAxes", "Written", "converted", "take_last"]

Counts: TypeAlias = Literal["tokens", "rows"]  # what an axis counts: tokens of a run, or rows of the caches after it

MASK: Final = "attention_mask"
POSITIONS: Final = ("position_ids", "cache_position")
PAST_ROWS: Final = "past_rows"  # [t, 0]: its length alone counts
_PER_TOKEN: Final = (*POSITIONS, "token_type_ids")  # by their last axis
_WHOLE_NUMBERS: Final = ("tensor(int64)", "tensor(int32)", "tensor(bool)")


@dataclass(frozen=True, slots=True)
class Written:
    """What the caches of a decoder hold. It is replaced as a whole, so that no exception leaves half of a change.

    Attributes:
        rows: tokens in the caches.
        turn: which buffer they are in.
        mask: [batch, n] for the first n of them, False for those that are masked; the others are not. None: no one is.
        uneven: the caller has said that sequences have different numbers of tokens.
    """

    rows: int = 0
    turn: int = 0
    mask: NDArray[np.bool_] | None = None
    uneven: bool = False

    def mask_of(self, count: int) -> NDArray[np.bool_] | None:
        """The mask with `count` tokens more that are not masked; None if no one is."""
        if self.mask is None:
            return None
        behind = np.ones((len(self.mask), self.rows + count - self.mask.shape[1]), np.bool_)
        return np.concatenate((self.mask, behind), axis=1)


@dataclass(frozen=True, slots=True)
class Given:
    """What holds for the tokens of one call.

    Attributes:
        values: of inputs, for all tokens of the call.
        mask: [batch, rows after the call]; None: nothing is masked.
        uneven: as `Written.uneven`, after the call.
    """

    values: Mapping[str, NDArray[Any]]
    mask: NDArray[np.bool_] | None
    uneven: bool

    def positions(self, rows: int) -> NDArray[np.int64]:
        """The positions [batch, rows] of the first rows, as transformers counts them: 0 for what is masked."""
        mask = np.ones((1, rows), np.bool_) if self.mask is None else self.mask[:, :rows]
        made: NDArray[np.int64] = (np.cumsum(mask, axis=1) - 1) * mask
        return made

    def last_tokens(self, count: int) -> NDArray[np.int64] | None:
        """The last new token of each sequence that is not masked, or the last one; None if that is true of all."""
        if self.mask is None or self.mask[:, -1].all():
            return None
        new = self.mask[:, -count:]
        behind = new[:, ::-1].argmax(axis=1)
        made: NDArray[np.int64] = count - 1 - np.where(new.any(axis=1), behind, 0)
        return made


def converted(name: str, value: Any, dtype: Any) -> NDArray[Any]:
    """A value as an array of the input's type. Raises RuntimeBindError for numbers that this type does not have."""
    given = np.asarray(value)
    made = np.ascontiguousarray(given, dtype=dtype)
    if made.dtype.kind in "iub" and not np.array_equal(made, given):
        raise RuntimeBindError(f"{name!r} takes {made.dtype}, and some of its numbers are none; convert them")
    return made.reshape(given.shape)  # `ascontiguousarray` makes a scalar [1]


def take_last(made: NDArray[Any], last: NDArray[np.int64], count: int, before: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The logits [batch, vocabulary] of each sequence's token `last` of this run, or as they were before it.

    Raises RuntimeBindError for a model that gives logits of the last token of a run alone.
    """
    result = before[-1] if before else made[:, -1].copy()
    rows = np.flatnonzero((last >= 0) & (last < count))
    if made.shape[1] != count and (last[rows] != count - 1).any():
        raise RuntimeBindError(
            "the model gives logits of the last token alone, which the mask hides in one sequence or more; pad on the "
            "left, or give the sequences one by one"
        )
    result[rows] = made[rows, last[rows] if made.shape[1] == count else -1]
    return result


class InputAxes:
    """Which axes of a decoder's inputs count the tokens of a run, or the rows of its caches after it.

    Args:
        inputs: that are no caches, by name.
        tokens: the name of the one for tokens.
        ends: how the model calls the length of its caches after a run.
        buffers: how it calls the length of buffers that it writes in place.
    """

    def __init__(
        self,
        inputs: Mapping[str, Any],
        tokens: str,
        *,
        ends: Collection[object],
        buffers: Collection[object],
    ) -> None:
        self._inputs = inputs
        form = inputs[tokens].shape
        self._batch_dim = form[0] if form else None
        self._tokens_dim = form[1] if len(form) > 1 and isinstance(form[1], str) and form[1] != form[0] else None
        symbols = {d for d in ends if isinstance(d, str)}
        if MASK in inputs:
            symbols |= {d for d in inputs[MASK].shape[-1:] if isinstance(d, str)}
        self._rows_dims = symbols - {self._tokens_dim, self._batch_dim, *buffers}
        # A file of `plan --state` without the two counts its rows by a mask of another name.
        may_be_mask = bool(buffers) and MASK not in inputs and PAST_ROWS not in inputs
        self._axes: dict[str, dict[int, Counts]] = {}
        for name, value in inputs.items():
            axes: dict[int, Counts] = {}
            if name == MASK and value.shape:
                axes = {-1: "rows"} if len(value.shape) < 3 else {-2: "tokens", -1: "rows"}
            elif name == tokens and len(value.shape) > 1:
                axes = {1: "tokens"}
            elif name in _PER_TOKEN and value.shape:
                axes = {-1: "tokens"}
            else:
                axes = self._by_symbols(value, may_be_mask=may_be_mask)
            fixed = {a for a in axes if isinstance(value.shape[a], int) or value.shape[a] in buffers}
            self._axes[name] = {axis: counts for axis, counts in axes.items() if axis not in fixed}

    def _by_symbols(self, value: Any, *, may_be_mask: bool) -> dict[int, Counts]:
        axes: dict[int, Counts] = {}
        for axis, dim in enumerate(value.shape):
            if isinstance(dim, str) and dim == self._tokens_dim:
                axes[axis] = "tokens"
            elif isinstance(dim, str) and dim in self._rows_dims:
                axes[axis] = "rows"
        if may_be_mask and not axes and len(value.shape) == 2 and value.type in _WHOLE_NUMBERS:
            axes[1] = "rows"
        return axes

    def has_any(self, name: str) -> bool:
        """Whether a value of this input is for certain tokens."""
        return bool(self._axes[name])

    def check(self, values: Mapping[str, NDArray[Any]], count: int, length: int, chunk: int) -> None:
        """Raise RuntimeBindError for values that are not for `count` tokens behind `length`, or that nobody can cut."""
        for name, value in values.items():
            form = self._inputs[name].shape
            if form and value.ndim != len(form):
                raise RuntimeBindError(f"{name!r} is {list(form)}, and {list(value.shape)} was given")
            for axis, counts in self._axes[name].items():
                size = count if counts == "tokens" else length + count
                if value.shape[axis] != size:
                    known = "" if counts == "tokens" else f"{length} in the caches and "
                    raise RuntimeBindError(
                        f"{name!r}, {list(value.shape)}, is for {value.shape[axis]} tokens, and there are {known}"
                        f"{count} new ones; give it for {size}"
                    )
            if count > chunk and not self._axes[name] and self._may_count(name, value, (count, length + count)):
                raise RuntimeBindError(
                    f"{name!r}, {list(value.shape)}, cannot be cut for runs of {chunk} tokens, as nothing tells how; "
                    f"give at most {chunk} tokens with it, or make the state with a larger chunk"
                )

    def _may_count(self, name: str, value: NDArray[Any], sizes: Collection[int]) -> bool:
        form = self._inputs[name].shape or [None] * value.ndim
        fixed = name == MASK  # as long as the caches' buffers: it says which rows a run may read
        return fixed or any(
            size in sizes and not isinstance(dim, int) and not (isinstance(dim, str) and dim == self._batch_dim)
            for dim, size in zip(form, value.shape, strict=True)
        )

    def cut(self, name: str, value: NDArray[Any], begin: int, count: int, length: int) -> NDArray[Any]:
        """The part for a run of `count` tokens from `begin` on, behind `length` rows."""
        parts = [slice(None)] * value.ndim
        for axis, counts in self._axes[name].items():
            parts[axis] = slice(begin, begin + count) if counts == "tokens" else slice(length + count)
        return np.ascontiguousarray(value[tuple(parts)]).reshape(value[tuple(parts)].shape)
