"""The largest context and prefill chunk of a decoder that fit a budget of process memory.

    memory = open session + caches at the context + arena of the larger of prefill and decode + logits of a chunk + rest

The caches' bytes are exact. The arena is planned from the graph at several sizes. What an open session takes, with
its weights as ONNX Runtime keeps them, is measured; and so is the answer, in a fresh process, whose difference from the
other terms is the rest. The search goes on from what that process took until an answer is measured to be within the
budget, less a margin, because equal processes differ. The peak while the session is opened has to be within it, too.
All of it is of edgemem's own session, warmed up; other runners take more.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from edgemem.commands.stateful_model import placed_if_possible
from edgemem.errors import BudgetExceededError, ModelError
from edgemem.formats import Bindings, Stateful, load_model, open_bytes
from edgemem.model.dtypes import byte_size
from edgemem.report.sizes import size_text
from edgemem.system.child_call import ChildError, Message, call_child
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from edgemem.formats import Model

__all__ = ["CHUNKS", "HOLDS_FOR", "Fit", "FitRow", "fit"]

HOLDS_FOR: Final = "edgemem.DecoderState on an edgemem.InferenceSession, after warm_up()"
CHUNKS: Final = (1, 16, 64, 128, 256, 512, 1024)
MOST_CONTEXT: Final = 1 << 15
_STEP: Final = 8  # tokens between contexts that are tried
_LEAST: Final = 16
_ROUNDS: Final = 6
_CLOSE_RATIO: Final = 0.02  # of the budget: an answer this near to it is good enough
_MARGIN_RATIO: Final = 0.03  # of the budget, which stays free
_WORTH_RATIO: Final = 0.9  # of the longest context: a larger chunk may cost the rest
_TOKENS: Final = ("input_ids", "inputs_embeds", "decoder_input_ids", "tokens")
_TIMEOUT_S: Final = 1800.0


@dataclass(frozen=True, slots=True)
class FitRow:
    """A prefill chunk with the longest context that fits with it. Sizes are bytes.

    Attributes:
        chunk: tokens of one run of the prompt.
        context: tokens that the caches hold.
        caches: of all states at that context.
        arena: the planned tensors of the larger of prefill and decode.
        logits: the results of a chunk.
        rest: what a process takes beyond these, as those that were measured did; below 0 if it takes less.
        total: all of them and the open session.
    """

    chunk: int
    context: int
    caches: int
    arena: int
    logits: int
    rest: int
    total: int


@dataclass(frozen=True, slots=True)
class Fit:
    """The answer.

    Attributes:
        best: the chosen row.
        rows: the longest context of every chunk that fits at all.
        budget: bytes of resident memory of the process.
        margin: bytes of the budget that stay free.
        opened: resident bytes of a process with the session open: the interpreter, libraries and weights.
        loading: peak of resident memory while the session was opened.
        measured: peak of resident memory in a process that ran `best` with full caches, loading included; None without
            a run.
        most_context: tokens: what was given, else the most with which ONNX Runtime ran the model.
        mode: how the caches are kept, `in place` or `in turn`.
        reason: why.
        changed: the figures are for the file that `edgemem plan --state auto` writes.
    """

    best: FitRow
    rows: tuple[FitRow, ...]
    budget: int
    margin: int
    opened: int
    loading: int
    measured: int | None
    most_context: int
    mode: str
    reason: str
    changed: bool


def fit(
    path: Path,
    budget: int,
    *,
    plan: Callable[[Model, Mapping[str, str]], int],
    bindings: Bindings | None = None,
    batch: int = 1,
    threads: int = 1,
    most_context: int | None = None,
    check: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> Fit:
    """The largest context, and the largest chunk that leaves at least nine tenths of it.

    Args:
        path: an .onnx file of a decoder with caches.
        budget: bytes of resident memory of the process; a part of it stays free.
        plan: the arena of a model in bytes, without its states, which are input -> output.
        bindings: values of dimensions that are neither batch, tokens nor the caches' length.
        batch: sequences that are decoded together.
        threads: of one operator.
        most_context: tokens that the model was made for. If it is not said, the most with which ONNX Runtime runs it,
            up to 32,768.
        check: run the answer in a fresh process, and search on with what that takes.
        progress: called with what is done now.

    Raises:
        BudgetExceededError: not even a short context fits.
        ModelError: the model has no caches, or does not run.
    """
    source = load_model(path)
    if not isinstance(source, Stateful):
        raise ModelError(f"{path.name}: its format has no states; this needs an .onnx decoder")
    known = bindings or Bindings()
    margin = int(budget * _MARGIN_RATIO)
    target = budget - margin
    with temporary_folder() as folder:
        model, file, changed = placed_if_possible(source, path, folder, {**known.dims, "batch": batch})
        search = _Search(model, target, plan, known.dims, batch, most_context or MOST_CONTEXT, progress)
        run = _Run(file, [asdict(p) for p in search.pairs], dict(known.dims), batch, threads)
        progress("opening the model in a fresh process")
        small = search.row(1, _LEAST)
        first = run.measured(small)
        search.open(small, first["loaded"], first["peak"])
        loading = first["loading"]
        if most_context is None and loading <= target:
            progress("finding the longest context that the model runs")
            search.limit(run.longest(search.affordable()))
        best: list[Fit] = []
        tried: set[tuple[int, int]] = set()

        def fit_of(chosen: FitRow, rows: tuple[FitRow, ...], measured: int | None) -> Fit:
            return Fit(
                best=chosen,
                rows=rows,
                budget=budget,
                margin=margin,
                opened=search.opened,
                loading=loading,
                measured=measured,
                most_context=search.most,
                mode=first["mode"],
                reason=first["reason"],
                changed=changed,
            )

        if check and max(first["peak"], loading) <= target:
            small = search.row(1, _LEAST)
            best.append(fit_of(small, (small,), max(first["peak"], loading)))
        for number in range(_ROUNDS if loading <= target else 0):
            rows = search.rows()
            chosen = _chosen(rows) if rows else small
            if not rows or (chosen.chunk, chosen.context) in tried:
                break
            if not check:
                return fit_of(chosen, rows, None)
            tried.add((chosen.chunk, chosen.context))
            progress(f"running context {chosen.context}, chunk {chosen.chunk} in a fresh process, round {number + 1}")
            answer = run.measured(chosen)
            search.learn(chosen, answer["peak"])
            measured = max(answer["peak"], answer["loading"])
            if measured <= target:
                rows = tuple(search.row(row.chunk, row.context) for row in rows)  # as that process took
                best.append(fit_of(search.row(chosen.chunk, chosen.context), rows, measured))
                if measured >= target * (1 - _CLOSE_RATIO) or _is_largest(chosen, search):
                    break
        if best:
            return max(best, key=lambda f: (f.best.context, f.best.chunk))
    required = int(max(small.total, first["peak"], loading) / (1 - _MARGIN_RATIO)) + 1
    raise BudgetExceededError(
        f"{path.name} takes {size_text(loading)} while its session is opened, {size_text(first['loaded'])} with it "
        f"open and {size_text(max(small.total, first['peak']))} at a context of {_LEAST}, {size_text(budget)} are "
        f"available, of which {size_text(margin)} stay free; quantise the weights, or give it more",
        required=required,
        available=budget,
    )


def _is_largest(row: FitRow, search: _Search) -> bool:
    return row.context == search.most and row.chunk == search.chunks[-1]


def _chosen(rows: Sequence[FitRow]) -> FitRow:
    longest = max(row.context for row in rows)
    return max((row for row in rows if row.context >= longest * _WORTH_RATIO), key=lambda row: (row.chunk, row.context))


@dataclass(slots=True)
class _Run:
    """The model in fresh processes."""

    file: Path
    states: Sequence[Mapping[str, Any]]
    sizes: Mapping[str, int]
    batch: int
    threads: int

    def measured(self, row: FitRow) -> dict[str, Any]:
        """What `fit_child.measure` says of a chunk at a context. Raises ModelError if it does not run."""
        return self._answer("measure", row.context, row.chunk)

    def longest(self, most: int) -> int:
        """The most tokens of context, up to `most`, with which the model runs. Raises ModelError as `measured`."""
        return int(self._answer("longest", most, 1)["context"])

    def _answer(self, what: str, context: int, chunk: int) -> dict[str, Any]:
        task = {
            "what": what,
            "model": str(self.file),
            "states": self.states,
            "sizes": self.sizes,
            "batch": self.batch,
            "threads": self.threads,
            "context": context,
            "chunk": chunk,
            "least": _LEAST,
            "step": _STEP,
        }
        try:
            made = call_child("edgemem.runtime.onnxruntime.fit_child", Message(task), timeout_s=_TIMEOUT_S)
        except ChildError as e:
            remedy = (
                "give the context that it was made for (--context)"
                if context > _LEAST
                else "fit is for models that edgemem.DecoderState runs"
            )
            raise ModelError(
                f"the model does not run with a context of {context} and a chunk of {chunk}: {str(e)[:300]}; {remedy}"
            ) from None
        return dict(made.data)


class _Search:
    """Memory by chunk and context, planned as it is asked for."""

    def __init__(
        self,
        model: Any,
        budget: int,
        plan: Callable[[Model, Mapping[str, str]], int],
        sizes: Mapping[str, int],
        batch: int,
        most: int,
        progress: Callable[[str], None],
    ) -> None:
        self.pairs = model.noted_states() or model.states({})
        self.opened = 0
        # GroupQueryAttention takes several tokens behind others only for one sequence.
        self._is_single = batch > 1 and any(p.operator.endswith("GroupQueryAttention") for p in self.pairs)
        self.limit(max(most // _STEP * _STEP, _STEP))
        self._outline: bytes = model.outline()
        forms = model.declared()
        self._declared: dict[str, tuple[int | str | None, ...]] = {name: dims for name, (_, dims) in forms.items()}
        self._dtypes: dict[str, str] = {name: dtype for name, (dtype, _) in forms.items()}
        self._budget, self._plan, self._sizes, self._batch = budget, plan, sizes, batch
        self._progress = progress
        self._planned: dict[tuple[int, int], int] = {}
        self._base = 0  # bytes that any run takes beyond what is planned
        self._ratio: dict[int, float] = {}  # measured / planned, by chunk

    def rows(self) -> tuple[FitRow, ...]:
        """The longest context of every chunk that fits, by chunk."""
        found = (self._longest(chunk) for chunk in self.chunks)
        return tuple(row for row in found if row is not None)

    def row(self, chunk: int, context: int) -> FitRow:
        """The memory of a chunk at a context."""
        arena = max(self._arena(min(chunk, context), context), self._arena(1, context))
        caches, logits = self._caches(context), self._logits(chunk)
        rest = self._base + int((arena + logits) * (self._ratio.get(chunk, 1.0) - 1))
        return FitRow(chunk, context, caches, arena, logits, rest, self.opened + caches + arena + logits + rest)

    def affordable(self) -> int:
        """The most tokens whose caches are within the budget."""
        return max(min(self.most, self._budget // max(self._caches(_STEP) // _STEP, 1)) // _STEP * _STEP, _LEAST)

    def limit(self, most: int) -> None:
        """Look for contexts of at most so many tokens from now on."""
        self.most = most
        self.chunks = [c for c in CHUNKS if c <= most and (c == 1 or not self._is_single)]

    def open(self, row: FitRow, opened: int, peak: int) -> None:
        """Count what a process takes with its session open, and what running the smallest row adds to that."""
        self.opened = opened
        self._base = max(peak - opened - row.caches - row.arena - row.logits, 0)

    def learn(self, row: FitRow, measured: int) -> None:
        """Scale what is planned for runs of this chunk by what a process took."""
        took = measured - self.opened - row.caches - self._base
        self._ratio[row.chunk] = max(took / max(row.arena + row.logits, 1), 0.0)

    def _longest(self, chunk: int) -> FitRow | None:
        """By interpolation: memory grows about evenly with the context."""
        low = self.row(chunk, max(_LEAST, -(-chunk // _STEP) * _STEP))
        if low.total > self._budget or low.context > self.most:
            return None
        high = self.row(chunk, self.most)
        while high.total > self._budget and high.context - low.context > _STEP:
            share = (self._budget - low.total) / (high.total - low.total)
            guess = low.context + int(share * (high.context - low.context)) // _STEP * _STEP
            middle = self.row(chunk, min(max(guess, low.context + _STEP), high.context - _STEP))
            if middle.total > self._budget:
                high = middle
            else:
                low = middle
                # The next context fits or not: the search ends beside the line.
                beside = self.row(chunk, low.context + _STEP)
                if beside.total > self._budget:
                    return low
                low = beside
        return high if high.total <= self._budget else low

    def _caches(self, context: int) -> int:
        total = 0
        for pair in self.pairs:
            dims = list(self._declared[pair.past])
            dims[pair.axis] = context
            sizes = [self._size(d, k) for k, d in enumerate(dims)]
            buffers = 1 if pair.growth == "in_place" else 2
            total += byte_size(self._dtypes[pair.past], prod(sizes)) * buffers
        return total

    def _size(self, dim: int | str | None, axis: int) -> int:
        if isinstance(dim, int):
            return dim
        known = self._sizes.get(dim or "", self._batch if axis == 0 else None)
        if known is None:
            raise ModelError(f"dimension {dim!r} of the caches is not known: give --dim {quote(f'{dim}=VALUE')}")
        return known

    def _logits(self, chunk: int) -> int:
        dims = self._declared.get("logits", ())
        width = dims[-1] if dims else 0
        return byte_size(self._dtypes["logits"], self._batch * chunk * width) if isinstance(width, int) and width else 0

    def _arena(self, chunk: int, context: int) -> int:
        key = (chunk, context)
        if key not in self._planned:
            self._progress(f"planning context {context}, chunk {chunk}")
            states = {pair.past: pair.present for pair in self.pairs if pair.growth == "in_place"}
            model = open_bytes(self._outline, ".onnx", Bindings(self._dims(chunk, context)))
            self._planned[key] = self._plan(model, states)
        return self._planned[key]

    def _dims(self, chunk: int, context: int) -> dict[str, int]:
        """Every symbol that the sizes of a run follow from."""
        dims: dict[str | int | None, int] = {}
        tokens: Sequence[int | str | None] = next((self._declared[n] for n in _TOKENS if n in self._declared), ())
        for pair in self.pairs:
            past, present = self._declared[pair.past], self._declared[pair.present]
            dims[past[0]] = self._batch
            dims[past[pair.axis]] = context if pair.growth == "in_place" else context - chunk
            if pair.axis < len(present):
                dims[present[pair.axis]] = context
        mask: Sequence[int | str | None] = self._declared.get("attention_mask", ())
        if len(mask) > 1:
            dims[mask[1]] = context
        if "past_rows" in self._declared:
            dims[self._declared["past_rows"][0]] = context - chunk
        if len(tokens) > 1:
            dims[tokens[0]], dims[tokens[1]] = self._batch, chunk
        return {**{k: v for k, v in dims.items() if isinstance(k, str)}, **self._sizes}
