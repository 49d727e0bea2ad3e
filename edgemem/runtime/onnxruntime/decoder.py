"""A decoder whose caches lie in buffers of fixed capacity, so that no step allocates or copies them.

in place   past and present are bound to one buffer; a step writes the new rows into it
in turn    past is bound to one buffer and present to another; after the step the two change roles
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.report.sizes import size_text
from edgemem.runtime.onnxruntime.cache_memory import Cache, CacheBudget, lay_out, page_spans, page_total
from edgemem.runtime.onnxruntime.decoder_feeds import Written, take_last
from edgemem.runtime.onnxruntime.decoder_inputs import KnownInputs, dtype_of
from edgemem.runtime.onnxruntime.decoder_states import pairs_of, shape_of, width_of
from edgemem.runtime.onnxruntime.session_arguments import checked_max_bytes
from edgemem.runtime.reserved_memory import FrozenMemory, ReservedMemory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from edgemem.model.states import StatePair
    from edgemem.runtime.onnxruntime.decoder_feeds import Given

__all__ = ["DecoderState", "StateReport"]

_WARM_ROUNDS: Final = 2  # the second runs inside the plan that the first has made
_WARM_STEPS: Final = 2


@dataclass(frozen=True, slots=True)
class StateReport:
    """How a decoder's caches are kept. Sizes are bytes.

    Attributes:
        mode: `in place` or `in turn`.
        reason: why, in one sentence.
        states: how many caches there are.
        capacity: tokens that they hold at most.
        length: tokens that are in them now.
        reserved: address space of their buffers.
        used: bytes of the buffers that have been written; the rest takes no memory.
        shared: of these, bytes that were there when the state was forked, which it shares with others.
    """

    mode: Literal["in place", "in turn"]
    reason: str
    states: int
    capacity: int
    length: int
    reserved: int
    used: int
    shared: int

    def __str__(self) -> str:
        buffers = "one buffer each" if self.mode == "in place" else "two buffers each"
        shared = f", {size_text(self.shared)} of it shared" if self.shared else ""
        return (
            f"{self.states} caches {self.mode} ({buffers}): {self.length} of {self.capacity} tokens, "
            f"{size_text(self.used)} used of {size_text(self.reserved)} reserved{shared}; {self.reason}"
        )


class DecoderState:
    """One sequence, or one batch of sequences of equal length, that a session decodes.

    The caches are written in place where the model says that it can be done (`edgemem plan --state` writes that into
    the file), and otherwise take turns in two buffers. `report` says which and why. Several sequences may share one
    session; each has a DecoderState of its own, which one thread uses at a time.

    Args:
        session: an `edgemem.InferenceSession` or `onnxruntime.InferenceSession` of a decoder with caches as inputs and
            outputs.
        capacity: tokens that the caches hold at most. The memory is reserved, and taken as tokens come.
        batch: sequences that are decoded together.
        chunk: the most tokens of one run; longer prompts take several runs.
        states: the caches, instead of those in the file's note: pairs, or a mapping input -> output by name.
        sizes: values of other symbolic dimensions of the caches, by name.
        max_bytes: the most memory of the caches of this state and all its forks together: bytes, or "64MiB".

    Raises:
        RuntimeBindError: there are no caches, or one has a dimension that is not known.
        ModelError: the file's note of its states is damaged.
    """

    def __init__(
        self,
        session: Any,
        capacity: int,
        *,
        batch: int = 1,
        chunk: int = 512,
        states: Sequence[StatePair] | Mapping[str, str] | None = None,
        sizes: Mapping[str, int] | None = None,
        max_bytes: int | str | None = None,
    ) -> None:
        if capacity < 1 or batch < 1 or chunk < 1:
            raise RuntimeBindError("capacity, batch and chunk are 1 or more")
        self._session = session
        self._capacity, self._batch, self._chunk = capacity, batch, min(chunk, capacity)
        inputs, outputs = ({v.name: v for v in values} for values in (session.get_inputs(), session.get_outputs()))
        pairs, self._reason = pairs_of(session, states, inputs, outputs)
        known = {**(sizes or {}), "batch": batch, "batch_size": batch}
        self._caches = [Cache(p, dtype_of(inputs[p.past]), shape_of(inputs[p.past], p, known, batch)) for p in pairs]
        self._in_place = all(pair.growth == "in_place" for pair in pairs)
        self._size = lay_out(self._caches, capacity)
        self._budget = CacheBudget(checked_max_bytes(max_bytes))
        self._frozen: list[FrozenMemory | None] | None = None  # what the buffers began with
        self._frozen_rows = 0
        self._inputs = KnownInputs(inputs, outputs, pairs, capacity, batch)
        others = [o for o in outputs.values() if o.name not in {p.present for p in pairs}]
        if not others:
            raise RuntimeBindError("the model has no output besides its caches, so there are no logits")
        self._logits = next((o for o in others if o.name == "logits"), others[0])
        self._others = [o.name for o in others if o is not self._logits]
        self._width = width_of(self._logits, self._inputs.tokens_dim)
        rows = self._batch * self._chunk * (self._width or 0)
        self._results = ReservedMemory(rows * np.dtype(dtype_of(self._logits)).itemsize)
        self._binding = session.io_binding()
        self._written = Written()
        self._closed = False
        self._take_buffers()

    @property
    def length(self) -> int:
        """Tokens in the caches."""
        return self._written.rows

    @property
    def report(self) -> StateReport:
        """How the caches are kept now."""
        written = self.length if self._in_place else 2 * self.length
        return StateReport(
            mode="in place" if self._in_place else "in turn",
            reason=self._reason,
            states=len(self._caches),
            capacity=self._capacity,
            length=self.length,
            reserved=sum(memory.size for memory in self._memory),
            used=sum(cache.bytes_of(written) for cache in self._caches),
            shared=sum(cache.bytes_of(self._frozen_rows) for cache in self._caches),
        )

    def step(self, tokens: ArrayLike, feeds: Mapping[str, Any] | None = None) -> NDArray[Any]:
        """Decode tokens behind those in the caches.

        Args:
            tokens: [batch, n] or [n]; in runs of at most `chunk`.
            feeds: values of inputs that are neither caches, tokens, masks nor positions; or of these, instead of those
                made here. They are for all these tokens, and are cut where they take several runs.
                `attention_mask`, [batch, tokens in the caches and these] of 0 and 1, holds for later steps, too;
                without `position_ids` beside it, positions count what it does not mask, as in transformers.

        Returns: the logits of the last token, [batch, vocabulary], which are the caller's; of a sequence that is padded
        on the right, those of its last token that the mask does not hide.

        Raises RuntimeBindError if the caches have no room for the tokens, or `feeds` do not fit them, and
        BudgetExceededError if the caches would take more than `max_bytes`. Whatever is raised, also in the middle of
        several runs, the caches hold the tokens that they held before.
        """
        return self._decode(tokens, feeds, whole=False)

    def logits(self, tokens: ArrayLike, feeds: Mapping[str, Any] | None = None) -> NDArray[Any]:
        """As `step`, with the logits of all these tokens, [batch, n, vocabulary]."""
        return self._decode(tokens, feeds, whole=True)

    def generate(self, tokens: ArrayLike, count: int, feeds: Mapping[str, Any] | None = None) -> NDArray[np.int64]:
        """Decode a prompt, then `count` tokens, each the most likely one; those, as int64 [batch, count].

        A mask in `feeds` is the prompt's; the tokens behind it are not masked. Values for each token of the prompt,
        such as `position_ids`, are refused: nobody has given those of the tokens behind it.

        Raises RuntimeBindError as `step`, and for a negative count.
        """
        if count < 0:
            raise RuntimeBindError(f"there are 0 tokens or more to decode, not {count}; give another count")
        made = np.zeros((self._batch, count), np.int64)
        following: ArrayLike = tokens
        later = self._inputs.following(feeds) if count > 1 else {}
        prompt = np.shape(tokens)[-1] if np.ndim(tokens) else 0
        self._refuse_beyond(prompt + count - 1 if count else 0)
        with self._or_as_before():
            for number in range(count):
                made[:, number] = self.step(following, later if number else feeds).argmax(axis=-1)
                following = made[:, number : number + 1]
            return made

    def warm_up(self, feeds: Mapping[str, Any] | None = None) -> None:
        """Run the largest shapes, a chunk and single tokens that each end where full caches do, and forget them.

        An `edgemem.InferenceSession` then has one plan that every later run fits into, so that prefill and decode share
        one arena, as large as the larger of them needs. With another session it changes nothing.

        Raises RuntimeBindError if there are tokens in the caches.
        """
        if self.length:
            raise RuntimeBindError("there are tokens in the caches; warm up first, or reset the state")
        places = [self._capacity - count for count in (self._chunk, *range(min(_WARM_STEPS, self._capacity), 0, -1))]
        self._budget.claim(self, self._private(min(places) if self._in_place else 0, self._capacity), "warming up")
        learning = getattr(self._session, "learning", nullcontext)
        try:
            with learning():
                for _ in range(_WARM_ROUNDS):
                    for count, place in zip((self._chunk, *[1] * _WARM_STEPS), places, strict=False):
                        self._written = Written(place)
                        ids = np.ones((self._batch, count), self._inputs.tokens_dtype)
                        self._run(ids, self._inputs.given(feeds, count, self._written, self._chunk), 0)
                    self.reset()
        finally:
            self.reset()

    def fork(self) -> DecoderState:
        """A second state of the same session with the same tokens, for another continuation of them.

        Both share the memory of these tokens; a page of it is copied when one of them writes to it (copy-on-write). To
        use the tokens of a common prompt again, decode it once and fork that state for every request. What `max_bytes`
        said holds for all together.

        Raises RuntimeBindError if the state is closed, and BudgetExceededError if the first fork at these tokens, which
        copies their pages once, takes more than `max_bytes`.
        """
        self._refuse_closed()
        if self.length and (self._frozen is None or self._frozen_rows != self.length):
            self._freeze()
        made = copy(self)
        made._become_another()  # noqa: SLF001 - of this class
        return made

    def reset(self) -> None:
        """Forget all tokens, and give the memory of the caches back."""
        self._written = Written()
        for memory in (*self._memory, self._results):
            memory.release()
        if self._frozen is not None:
            self._frozen, self._frozen_rows = None, 0
            self._take_buffers()
        self._budget.claim(self, 0, "")

    def skip(self, tokens: int) -> None:
        """Go on as if so many tokens had been decoded, with whatever is in their rows: for measurements."""
        if not 0 <= tokens <= self._capacity - self.length:
            raise RuntimeBindError(f"there is no room for {tokens} tokens more")
        self._written = replace(self._written, rows=self.length + tokens)

    def fill(self, byte: int) -> None:
        """Fill the buffers with a byte, to prove that nothing reads rows without a token. Takes all their memory."""
        for memory in self._memory:
            memory.array((memory.size,), np.uint8)[:] = byte

    def close(self) -> None:
        """Give the buffers back. A second call does nothing; later steps raise RuntimeBindError."""
        if not self._closed:
            self.reset()
            self._closed = True
            self._binding.clear_binding_inputs()
            self._binding.clear_binding_outputs()

    def __enter__(self) -> DecoderState:  # noqa: PYI034 - subclassing is not meant
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _become_another(self) -> None:
        """Take memory of its own, after all has been copied from another state."""
        self._caches = [replace(cache) for cache in self._caches]
        self._results = ReservedMemory(self._results.size)
        self._binding = self._session.io_binding()
        self._take_buffers()

    def _take_buffers(self) -> None:
        """Take buffers that begin with what is frozen."""
        begin = self._frozen or [None] * (1 if self._in_place else 2)
        self._memory = [ReservedMemory(self._size, frozen) for frozen in begin]
        for cache in self._caches:
            cache.places = tuple(memory.address + cache.offset for memory in self._memory)
            if self._in_place:
                self._bind(cache, 0, self._capacity, 0, self._capacity)

    def _freeze(self) -> None:
        """Put the tokens so far into memory that forks share, and go on with that."""
        length = self._capacity if self._in_place else self.length
        rows = [cache.spans(0, self.length, length) for cache in self._caches]
        frozen = FrozenMemory(self._size)
        self._budget.claim(frozen, page_total(rows), "sharing the tokens of a state")
        frozen.copy(self._memory[self._written.turn], page_spans(rows))
        self._frozen = [frozen if k == self._written.turn else None for k in range(len(self._memory))]
        self._frozen_rows = self.length
        self._take_buffers()
        self._budget.claim(self, 0, "")

    def _private(self, begin: int, end: int) -> int:
        """Bytes of the pages in which rows `begin` to `end` are, those of the second buffer included."""
        if self._in_place:
            return page_total([cache.spans(begin, end, self._capacity) for cache in self._caches])
        return 2 * page_total([cache.spans(0, end, end) for cache in self._caches])

    def _refuse_closed(self) -> None:
        if self._closed:
            raise RuntimeBindError("the state is closed; make another one")

    def _bind(self, cache: Cache, source: int, rows: int, target: int, rows_after: int) -> None:
        pair = cache.pair
        self._binding.bind_input(pair.past, "cpu", 0, cache.dtype, cache.form(rows), cache.places[source])
        self._binding.bind_output(pair.present, "cpu", 0, cache.dtype, cache.form(rows_after), cache.places[target])

    def _decode(self, tokens: ArrayLike, feeds: Mapping[str, Any] | None, *, whole: bool) -> NDArray[Any]:
        self._refuse_closed()
        ids = np.asarray(tokens)
        self._inputs.refuse_tokens(ids, feeds)
        ids = np.broadcast_to(ids, (self._batch, len(ids))) if ids.ndim == 1 else ids
        if ids.ndim != 2 or ids.shape[0] != self._batch or not ids.shape[1]:
            raise RuntimeBindError(f"tokens are [{self._batch}, n] with one token or more, not {list(ids.shape)}")
        count = ids.shape[1]
        self._refuse_beyond(count)
        given = self._inputs.given(feeds, count, self._written, self._chunk)
        if self._budget.most is not None:
            need = self._private(self._frozen_rows, self.length + count)
            self._budget.claim(self, need, f"a state of {self.length + count} tokens")
        last = given.last_tokens(count)
        parts: list[NDArray[Any]] = []
        with self._or_as_before():
            for begin in range(0, count, self._chunk):
                part = np.ascontiguousarray(ids[:, begin : begin + self._chunk], dtype=self._inputs.tokens_dtype)
                made = self._run(part, given, begin)
                if whole:
                    parts.append(made.copy())
                elif last is not None:
                    parts = [take_last(made, last - begin, part.shape[1], parts)]
                elif begin + part.shape[1] == count:
                    parts = [made[:, -1].copy()]
                del made
            if count > 1:
                self._results.release(self._batch * (self._width or 0) * np.dtype(dtype_of(self._logits)).itemsize)
            return np.concatenate(parts, axis=1) if whole else parts[-1]

    def _refuse_beyond(self, count: int) -> None:
        """Raise RuntimeBindError if the caches have no room for so many tokens more."""
        if self.length + count > self._capacity:
            raise RuntimeBindError(
                f"the caches hold {self._capacity} tokens, {self.length} of them are taken, and {count} more do not "
                "fit; make a state of a larger capacity, or reset this one"
            )

    @contextmanager
    def _or_as_before(self) -> Iterator[None]:
        """The caches hold what they held before if what is done within raises."""
        before = self._written
        try:
            yield
        except BaseException:
            now = self._written
            if not self._in_place and now.rows != before.rows:
                # `present` begins with the rows of `past`: they are still there, between those behind them.
                for cache in self._caches:
                    rows = cache.view(self._memory[now.turn], now.rows)
                    cache.view(self._memory[before.turn], before.rows)[:] = rows[:, : before.rows].copy()
            self._written = before
            raise

    def _run(self, ids: NDArray[Any], given: Given, begin: int) -> NDArray[Any]:
        """One run, of the tokens from `begin` on that `given` is for; its logits, which the next run overwrites."""
        count, written, binding = ids.shape[1], self._written, self._binding
        after = written.rows + count
        if not self._in_place:
            for cache in self._caches:
                self._bind(cache, written.turn, written.rows, 1 - written.turn, after)
        values = self._inputs.values(ids, begin, given, written.rows)  # kept until the run has ended
        for name, value in values.items():
            binding.bind_input(name, "cpu", 0, value.dtype.type, value.shape, value.ctypes.data)
        shape = (self._batch, 1 if self._inputs.is_last_only(self._logits) else count, self._width or 0)
        dtype = dtype_of(self._logits)
        if self._width is None:
            binding.bind_output(self._logits.name, "cpu")
        else:
            binding.bind_output(self._logits.name, "cpu", 0, dtype, shape, self._results.address)
        for name in self._others:
            binding.bind_output(name, "cpu")
        self._session.run_with_iobinding(binding)
        turn = written.turn if self._in_place else 1 - written.turn
        self._written = Written(after, turn, None if given.mask is None else given.mask[:, :after], given.uneven)
        if self._width is None:
            names = [*(c.pair.present for c in self._caches), self._logits.name, *self._others]
            return np.asarray(binding.get_outputs()[names.index(self._logits.name)].numpy())
        return self._results.array(shape, dtype)
