"""What a decoder is fed besides its caches: tokens, the mask, positions, and counts of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.runtime.onnxruntime.decoder_feeds import MASK, PAST_ROWS, POSITIONS, Given, InputAxes, Written, converted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.model.states import StatePair

__all__ = ["MADE_HERE", "KnownInputs", "dtype_of"]

_DTYPES: Final[Mapping[str, Any]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}
_TOKENS: Final[tuple[str, ...]] = ("input_ids", "inputs_embeds", "decoder_input_ids", "tokens")
_TOTAL: Final = "total_sequence_length"
_LAST: Final = "seqlens_k"
MADE_HERE: Final = frozenset((MASK, *POSITIONS, PAST_ROWS, _LAST, _TOTAL))  # inputs whose values follow from tokens


def dtype_of(value: Any) -> Any:
    """The element type of an input or output. Raises RuntimeBindError for what cannot be bound."""
    if value.type not in _DTYPES:
        raise RuntimeBindError(f"{value.name!r} is a {value.type}, which cannot be bound to a buffer")
    return _DTYPES[value.type]


class KnownInputs:
    """The inputs of a decoder that are no caches, and how their values are made.

    Args:
        inputs: all inputs of the session, by name.
        outputs: all outputs, by name.
        pairs: the caches.
        capacity: rows of the caches' buffers.
        batch: sequences that are decoded together.

    Attributes:
        tokens: the name of the input for tokens.
        tokens_dtype: its type.
        tokens_dim: how the model calls its second dimension.

    Raises RuntimeBindError if no input is for tokens.
    """

    def __init__(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        pairs: Sequence[StatePair],
        capacity: int,
        batch: int,
    ) -> None:
        states = {pair.past for pair in pairs}
        others = self._inputs = {n: v for n, v in inputs.items() if n not in states}
        self._batch = batch
        candidates = [n for n in _TOKENS if n in others] or [n for n in others if n not in MADE_HERE]
        if not candidates:
            raise RuntimeBindError(f"no input is for tokens; there are {', '.join(map(repr, others)) or 'none'}")
        self.tokens = candidates[0]
        self.tokens_dtype = _DTYPES.get(others[self.tokens].type, np.int64)
        self._takes_embeddings = np.issubdtype(self.tokens_dtype, np.floating)
        self.tokens_dim = others[self.tokens].shape[1] if len(others[self.tokens].shape) > 1 else None
        self._counts_tokens = any(p.operator.endswith("GroupQueryAttention") for p in pairs)
        in_place = [p for p in pairs if p.growth == "in_place" and not self._counts_tokens]
        buffers = {inputs[p.past].shape[p.axis] for p in in_place} - {None}
        mask = others.get(MASK)
        # Another mask has a value for every pair of tokens, or for every row of the buffers.
        self._masks_rows = (
            mask is not None
            and len(mask.shape) == 2
            and not isinstance(mask.shape[1], int)
            and mask.shape[1] not in buffers
        )
        self._ones = np.ones(batch * capacity, dtype_of(mask)) if mask is not None and self._masks_rows else None
        self._numbers = {n: np.arange(capacity, dtype=dtype_of(others[n])) for n in POSITIONS if n in others}
        ends = {outputs[p.present].shape[p.axis] for p in pairs if p.axis < len(outputs[p.present].shape)}
        self._axes = InputAxes(others, self.tokens, ends=ends, buffers=buffers)

    def is_last_only(self, logits: Any) -> bool:
        """Whether the model gives logits of the last token alone."""
        return len(logits.shape) == 3 and logits.shape[1] == 1 and self.tokens_dim != 1

    def refuse_tokens(self, ids: NDArray[Any], feeds: Mapping[str, Any] | None) -> None:
        """Raise RuntimeBindError for what is no token, and for tokens where the model takes their embeddings."""
        if self._takes_embeddings and self.tokens not in (feeds or {}):
            raise RuntimeBindError(
                f"the model takes no tokens but {self.tokens!r}, {list(self._inputs[self.tokens].shape)}: give these "
                "in `feeds`, and as many zeros as tokens"
            )
        if ids.dtype.kind not in "iu":
            raise RuntimeBindError(f"tokens are whole numbers, not {ids.dtype}; convert them")

    def given(self, feeds: Mapping[str, Any] | None, count: int, written: Written, chunk: int) -> Given:
        """What a caller gave for `count` tokens behind those that are written, in runs of at most `chunk` tokens.

        Raises RuntimeBindError for inputs that there are not, and for values that do not fit the tokens.
        """
        values = dict(feeds or {})
        if unknown := values.keys() - self._inputs.keys():
            raise RuntimeBindError(f"the model has no input {min(unknown)!r}; there are {', '.join(self._inputs)}")
        mask = written.mask_of(count)
        if self._masks_rows and MASK in values:
            mask = self._row_mask(values.pop(MASK), written.rows + count)
        elif MASK in values and "position_ids" in self._inputs and "position_ids" not in values:
            raise RuntimeBindError(f"{MASK!r} does not tell the positions of tokens; give 'position_ids' with it")
        if mask is not None and self._counts_tokens:
            _refuse_gaps(mask, written, count, chunk)
        if self._counts_tokens and self._batch > 1 and chunk > 1 and (count > chunk or (written.rows and count > 1)):
            raise RuntimeBindError(
                "GroupQueryAttention takes several tokens behind others for a batch of 1 alone; make the state with "
                "chunk=1"
            )
        made = {n: converted(n, v, _DTYPES.get(self._inputs[n].type)) for n, v in values.items()}
        uneven = self._counts(made, count, written, chunk)
        self._axes.check(made, count, written.rows, chunk)
        return Given(made, mask, uneven)

    def following(self, feeds: Mapping[str, Any] | None) -> dict[str, Any]:
        """Of what a caller gave for a prompt, what holds for tokens behind it, too.

        Raises RuntimeBindError for values of each token, which nobody has given for those.
        """
        kept = {n: v for n, v in (feeds or {}).items() if not (n == MASK and self._masks_rows)}
        single = next((n for n in kept if n in MADE_HERE or n == self.tokens or self._axes.has_any(n)), None)
        if single is not None:
            raise RuntimeBindError(
                f"{single!r} in `feeds` is for the prompt alone; decode with `step`, and give its value for every token"
            )
        return kept

    def values(self, ids: NDArray[Any], begin: int, given: Given, length: int) -> dict[str, NDArray[Any]]:
        """The value of every input for a run: tokens `begin` and on of those that were given, behind `length` rows.

        Raises RuntimeBindError for inputs without a value.
        """
        count = ids.shape[1]
        values = {}
        for name in self._inputs:
            if name in given.values:
                value = self._axes.cut(name, given.values[name], begin, count, length)
            elif name == self.tokens:
                value = ids
            else:
                value = self._made(name, count, length, given)
            values[name] = value
        return values

    def _row_mask(self, value: Any, rows: int) -> NDArray[np.bool_] | None:
        """A mask [batch, rows] as a caller gave it; None if it masks nothing. Raises RuntimeBindError for another."""
        given = np.asarray(value)
        if given.shape not in ((rows,), (1, rows), (self._batch, rows)):
            raise RuntimeBindError(
                f"{MASK!r} is for {rows} tokens, those in the caches and the new ones: give [{self._batch}, {rows}], "
                f"not {list(given.shape)}"
            )
        made = given != 0
        if not np.array_equal(made, given):
            raise RuntimeBindError(f"{MASK!r} has other values than 0 and 1; give 0 for what is masked, and 1")
        return None if made.all() else np.array(np.broadcast_to(made, (self._batch, rows)))

    def _counts(self, made: dict[str, NDArray[Any]], count: int, written: Written, chunk: int) -> bool:
        """Take counts of tokens out of what was given where they are as made here; whether sequences have unequal ones.

        Raises RuntimeBindError for others.
        """
        after = written.rows + count
        if _TOTAL in made and (made.pop(_TOTAL) != after).any():
            raise RuntimeBindError(f"{_TOTAL!r} is {after} after this step; leave it out")
        if PAST_ROWS in made and made.pop(PAST_ROWS).shape[:1] != (written.rows,):
            raise RuntimeBindError(f"{PAST_ROWS!r} has {written.rows} rows before this step; leave it out")
        if _LAST not in made:
            return written.uneven
        last = made[_LAST]
        if last.size != self._batch or (last < 0).any() or (last >= after).any():
            raise RuntimeBindError(f"{_LAST!r} has {self._batch} numbers from 0 to {after - 1}, one a sequence")
        if not written.uneven and (last == after - 1).all():
            del made[_LAST]
            return False
        if count > chunk:
            raise RuntimeBindError(f"{_LAST!r} is for one run; give at most {chunk} tokens with it")
        return True

    def _made(self, name: str, count: int, length: int, given: Given) -> NDArray[Any]:
        after, batch = length + count, self._batch
        if name == MASK and self._ones is not None:
            if given.mask is not None:
                return np.ascontiguousarray(given.mask[:, :after], dtype=self._ones.dtype)
            return self._ones[: batch * after].reshape(batch, after)
        rank = len(self._inputs[name].shape)
        if name in self._numbers and rank <= 2:
            numbers = self._numbers[name][length:after]
            if rank == 1:
                return numbers
            if given.mask is not None and name == "position_ids":
                return np.ascontiguousarray(given.positions(after)[:, length:], dtype=numbers.dtype)
            return numbers.reshape(1, count) if batch == 1 else np.tile(numbers, (batch, 1))
        if name == PAST_ROWS:
            return np.empty((length, 0), np.float32)
        if name == _LAST and not given.uneven:
            return np.full(batch, after - 1, np.int32)
        if name == _TOTAL:
            return np.full((1,) * rank, after, np.int32)
        raise RuntimeBindError(f"the model has an input {name!r}; give its value in `feeds`, at every step")


def _refuse_gaps(mask: NDArray[np.bool_], written: Written, count: int, chunk: int) -> None:
    """Raise RuntimeBindError for a mask that GroupQueryAttention does not follow.

    It takes from the mask only how many tokens a sequence has, writes a new one behind these, and reads all before it.
    """
    before = written.mask_of(0)
    if not written.rows:
        fits = (mask[:, 1:] <= mask[:, :-1]).all() and mask[:, 0].all() and count <= chunk
    else:
        known = np.ones_like(mask[:, : written.rows]) if before is None else before
        fits = np.array_equal(mask[:, : written.rows], known) and mask[:, written.rows :].all() and count == 1
    if not fits:
        raise RuntimeBindError(
            "GroupQueryAttention counts the tokens of a sequence and has no gaps: pad a prompt on the right, decode it "
            f"in one run (of at most {chunk} tokens), and then one token at a time, with the same mask and a 1 for each"
        )
