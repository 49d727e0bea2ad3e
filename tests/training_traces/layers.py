"""What one transformer layer asks of an allocator: half precision, dropout, as PyTorch runs it.

Tensors are named; sizes in bytes follow from tokens t, width h, feed-forward width f and tensor parallelism p:

    norm, residual   2 t h / p     mean, deviation  4 t / p        mask        t h / p
    qkv              6 t h / p     context          2 t h / p      statistics  4 t heads / p (flash attention)
    before, after    2 t f / p     softmax, dropped 2 t sequence heads / p (attention with scores), their mask half

What is kept adds up to the 34 t h + 5 t sequence heads bytes of Korthikanti et al. 2022 (Reducing Activation
Recomputation in Large Transformer Models, §4.1), and the statistics. All else is freed as soon as the next operator has
read it: gradients of weights once they are added to those of earlier microbatches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.training_traces.recorder import Recorder
    from tests.training_traces.setup import TrainingSetup

__all__ = ["LayerRequests", "Saved"]


@dataclass(slots=True)
class Saved:
    """What a layer's backward pass needs: requests by name, in the order in which they were made."""

    tensors: dict[str, int] = field(default_factory=dict)
    tokens: tuple[int, ...] = ()  # of each expert
    on_host: dict[str, int] = field(default_factory=dict)  # sizes of what was copied to the host


@dataclass(frozen=True, slots=True)
class LayerRequests:
    """The requests of a layer's passes, written to a recorder."""

    setup: TrainingSetup
    recorder: Recorder

    @property
    def wide(self) -> int:
        """Bytes of activations of the model's width, of all tokens."""
        return 2 * self.setup.tokens * self.setup.hidden

    @property
    def narrow(self) -> int:
        """The same, of this rank's part of the tokens."""
        return self.wide // self.setup.tensor

    @property
    def pairs(self) -> int:
        """Bytes of a number for each pair of tokens and each head."""
        setup = self.setup
        return 2 * setup.micro_batch * setup.sequence**2 * setup.heads // setup.tensor

    def forward(
        self, name: str, phase: int, given: int, *, tokens: Sequence[int], keeps: bool, is_backward: bool
    ) -> tuple[int, Saved]:
        """The output, and what is kept; the input is kept by the caller unless `keeps`."""
        saved = Saved(tokens=tuple(tokens))
        if keeps:
            saved.tensors["input"] = given
        with self.recorder.within(f"{name} {_kind(is_backward)}", phase, is_backward=is_backward):
            middle = self._attention(saved, keeps=keeps)
            self._norm(saved, "second", keeps=keeps)
            if not tokens:
                return self._feed_forward(saved, middle, keeps=keeps), saved
            normed = saved.tensors["second norm"]
            self._route(saved, keeps=keeps)
        with self.recorder.within(
            f"{name}.experts {_kind(is_backward)}", phase, is_backward=is_backward, is_dynamic=True
        ):
            joined = self._experts(saved, keeps=keeps)
        with self.recorder.within(f"{name} {_kind(is_backward)}", phase, is_backward=is_backward):
            return self._combine(saved, normed, middle, joined, keeps=keeps), saved

    def backward(self, name: str, phase: int, saved: Saved, gradient: int) -> int:
        """The gradient of the layer's input; frees what was kept."""
        with self.recorder.within(f"{name} backward", phase, is_backward=True):
            if not saved.tokens:
                middle = self._feed_forward_backward(saved, gradient)
                return self._attention_backward(saved, middle)
            returned = self._combine_backward(saved, gradient)
        with self.recorder.within(f"{name}.experts backward", phase, is_backward=True, is_dynamic=True):
            normed = self._experts_backward(saved, returned)
        with self.recorder.within(f"{name} backward", phase, is_backward=True):
            middle = self._route_backward(saved, gradient, normed)
            return self._attention_backward(saved, middle)

    # --- forward ---

    def _norm(self, saved: Saved, which: str, *, keeps: bool) -> None:
        take, setup = self.recorder.take, self.setup
        saved.tensors[f"{which} norm"] = take(self.narrow)
        statistics = [take(4 * setup.tokens // setup.tensor) for _ in range(2)]
        if keeps:
            saved.tensors[f"{which} mean"], saved.tensors[f"{which} deviation"] = statistics
        else:
            self.recorder.free(*reversed(statistics))

    def _attention(self, saved: Saved, *, keeps: bool) -> int:
        take, free, setup = self.recorder.take, self.recorder.free, self.setup
        self._norm(saved, "first", keeps=keeps)
        gathered = self._gathered()
        qkv = take(3 * self.narrow)
        free(*gathered)
        self._keep(saved, {"qkv": qkv}, keeps=keeps, read=("first norm",))
        if setup.attention == "flash":
            self._attend_fused(saved, keeps=keeps)
        else:
            self._attend(saved, keeps=keeps)
        projected = self._scattered(take(self.wide))
        if not keeps:
            free(saved.tensors.pop("context"))
        return self._residual(saved, "middle", projected, keeps=keeps)

    def _attend_fused(self, saved: Saved, *, keeps: bool) -> None:
        take, setup = self.recorder.take, self.setup
        context = take(self.narrow)
        statistics, seed = take(4 * setup.tokens * setup.heads // setup.tensor), take(16)
        if keeps:
            saved.tensors |= {"statistics": statistics, "seed": seed}
        else:
            self.recorder.free(seed, statistics)
        self._keep(saved, {"context": context}, keeps=keeps, read=("qkv",))

    def _attend(self, saved: Saved, *, keeps: bool) -> None:
        """Scores, softmax, dropout: three matrices of all pairs of tokens, two of which are kept, and a mask."""
        take, free, pairs = self.recorder.take, self.recorder.free, self.pairs
        scores = take(pairs)
        saved.tensors["softmax"] = take(pairs)
        free(scores)
        mask = take(pairs // 2)
        self._keep(saved, {"dropped": take(pairs)}, keeps=keeps, read=("softmax",))
        if keeps:
            saved.tensors["pairs mask"] = mask
        else:
            free(mask)
        by_head = take(self.narrow)
        self._keep(saved, {"context": take(self.narrow)}, keeps=keeps, read=("dropped", "qkv"))
        free(by_head)

    def _feed_forward(self, saved: Saved, middle: int, *, keeps: bool) -> int:
        take, free, setup = self.recorder.take, self.recorder.free, self.setup
        inner = 2 * setup.tokens * setup.ffn // setup.tensor
        gathered = self._gathered()
        before = take(inner)
        free(*gathered)
        self._keep(saved, {"before": before}, keeps=keeps, read=("second norm",))
        self._keep(saved, {"after": take(inner)}, keeps=keeps, read=("before",))
        made = self._scattered(take(self.wide))
        if not keeps:
            free(saved.tensors.pop("after"))
        output = self._residual(saved, "output", made, keeps=keeps)
        self._pass_on(saved, middle, keeps=keeps)
        return output

    def _route(self, saved: Saved, *, keeps: bool) -> None:
        take, setup = self.recorder.take, self.setup
        everywhere = 8 * setup.experts  # on eight ranks
        scores = {
            "logits": take(4 * setup.tokens * everywhere),
            "chances": take(4 * setup.tokens * everywhere),
            "chosen": take(8 * setup.tokens * setup.top_k),
            "weights": take(4 * setup.tokens * setup.top_k),
        }
        self._keep(saved, scores, keeps=True, read=())
        if not keeps:
            self.recorder.free(saved.tensors.pop("logits"), saved.tensors.pop("chances"))

    def _experts(self, saved: Saved, *, keeps: bool) -> int:
        """Tokens from all ranks, expert by expert: no two of these sizes need be equal."""
        take, free, setup = self.recorder.take, self.recorder.free, self.setup
        all_tokens = 2 * sum(saved.tokens) * setup.hidden
        received = take(all_tokens)
        saved.tensors["rows"] = take(8 * sum(saved.tokens))
        saved.tensors["sorted"] = take(all_tokens)
        free(received)
        outputs = []
        for expert, tokens in enumerate(saved.tokens):
            before = take(4 * tokens * setup.ffn)
            after = take(2 * tokens * setup.ffn)
            self._keep(saved, {f"before {expert}": before, f"after {expert}": after}, keeps=True, read=())
            outputs.append(take(2 * tokens * setup.hidden))
            if not keeps:
                free(saved.tensors.pop(f"before {expert}"), saved.tensors.pop(f"after {expert}"))
        joined = take(all_tokens)
        free(*outputs)
        if not keeps:
            free(saved.tensors.pop("sorted"), saved.tensors.pop("rows"))
        return joined

    def _combine(self, saved: Saved, normed: int, middle: int, joined: int, *, keeps: bool) -> int:
        take, free = self.recorder.take, self.recorder.free
        saved.tensors["returned"] = take(self.wide * self.setup.top_k)
        free(joined)
        summed = take(self.wide)
        if not keeps:
            names = ("returned", "weights", "chosen")
            free(*(saved.tensors.pop(name) for name in names))
            free(normed)
            del saved.tensors["second norm"]
        output = self._residual(saved, "output", summed, keeps=keeps)
        self._pass_on(saved, middle, keeps=keeps)
        return output

    def _residual(self, saved: Saved, which: str, added: int, *, keeps: bool) -> int:
        """Dropout and addition in one kernel; the sum."""
        mask = self.recorder.take(self.narrow // 2)
        total = self.recorder.take(self.narrow)
        self.recorder.free(added)
        if keeps:
            saved.tensors[f"{which} mask"] = mask
        else:
            self.recorder.free(mask)
        return total

    def _pass_on(self, saved: Saved, middle: int, *, keeps: bool) -> None:
        if keeps:
            saved.tensors["middle"] = middle
        else:
            self.recorder.free(middle)

    def _keep(self, saved: Saved, made: dict[str, int], *, keeps: bool, read: Sequence[str]) -> None:
        """Notes what an operator made, and frees what it has read unless the backward pass needs it."""
        saved.tensors |= made
        if not keeps:
            self.recorder.free(*(saved.tensors.pop(name) for name in read))

    def _gathered(self) -> list[int]:
        """All tokens, from the ranks that share the layer."""
        return [self.recorder.take(self.wide)] if self.setup.tensor > 1 else []

    def _scattered(self, full: int) -> int:
        """This rank's part of a sum over those ranks."""
        if self.setup.tensor == 1:
            return full
        part = self.recorder.take(self.narrow)
        self.recorder.free(full)
        return part

    # --- backward; each operator frees what it has read ---

    def _pop(self, saved: Saved, *names: str) -> None:
        self.recorder.free(*(saved.tensors.pop(name) for name in names))

    def _weights(self, rows: int, columns: int) -> None:
        """Gradients of a matrix and its bias, added to those of earlier microbatches."""
        self.recorder.temporary(2 * rows * columns)
        self.recorder.temporary(2 * columns)

    def _norm_backward(self, saved: Saved, which: str, gradient: int, normed: int, *read: str) -> int:
        """Gradient of the residual stream: of the norm's input, and what went past it."""
        take, free, hidden = self.recorder.take, self.recorder.free, self.setup.hidden
        made = take(self.narrow)
        self.recorder.temporary(4 * 128 * hidden, 4 * 128 * hidden)  # sums of parts
        self.recorder.temporary(2 * hidden, 2 * hidden)
        free(normed)
        self._pop(saved, f"{which} mean", f"{which} deviation", *read)
        total = take(self.narrow)
        free(made, gradient)
        return total

    def _feed_forward_backward(self, saved: Saved, gradient: int) -> int:
        take, free, setup = self.recorder.take, self.recorder.free, self.setup
        inner = 2 * setup.tokens * setup.ffn // setup.tensor
        dropped = take(self.narrow)
        self._pop(saved, "output mask")
        gathered = self._gathered()
        after = take(inner)
        self._weights(setup.ffn // setup.tensor, setup.hidden)
        free(dropped, *gathered)
        self._pop(saved, "after")
        before = take(inner)
        free(after)
        self._pop(saved, "before")
        gathered = self._gathered()
        normed = self._scattered(take(self.wide))
        self._weights(setup.hidden, setup.ffn // setup.tensor)
        free(before, *gathered)
        self._pop(saved, "second norm")
        return self._norm_backward(saved, "second", gradient, normed, "middle")

    def _attention_backward(self, saved: Saved, gradient: int) -> int:
        take, free, setup = self.recorder.take, self.recorder.free, self.setup
        dropped = take(self.narrow)
        self._pop(saved, "middle mask")
        gathered = self._gathered()
        context = take(self.narrow)
        self._weights(setup.hidden // setup.tensor, setup.hidden)
        free(dropped, *gathered)
        if setup.attention == "flash":
            qkv = self._attend_fused_backward(saved, context)
        else:
            qkv = self._attend_backward(saved, context)
        gathered = self._gathered()
        normed = self._scattered(take(self.wide))
        self._weights(setup.hidden, 3 * setup.hidden // setup.tensor)
        free(qkv, *gathered)
        self._pop(saved, "first norm")
        return self._norm_backward(saved, "first", gradient, normed, "input")

    def _attend_fused_backward(self, saved: Saved, context: int) -> int:
        take, setup = self.recorder.take, self.setup
        delta = take(4 * setup.tokens * setup.heads // setup.tensor)
        queries = take(2 * self.narrow)  # summed in single precision
        qkv = take(3 * self.narrow)
        self.recorder.free(queries, delta, context)
        self._pop(saved, "context", "statistics", "seed", "qkv")
        return qkv

    def _attend_backward(self, saved: Saved, context: int) -> int:
        take, free, pairs = self.recorder.take, self.recorder.free, self.pairs
        self._pop(saved, "context")
        dropped, values = take(pairs), take(self.narrow)
        free(context)
        self._pop(saved, "dropped")
        softmax = take(pairs)
        free(dropped)
        self._pop(saved, "pairs mask")
        scores = take(pairs)
        free(softmax)
        self._pop(saved, "softmax")
        queries, keys = take(self.narrow), take(self.narrow)
        free(scores)
        qkv = take(3 * self.narrow)
        free(queries, keys, values)
        self._pop(saved, "qkv")
        return qkv

    def _combine_backward(self, saved: Saved, gradient: int) -> int:
        del gradient  # read, and freed where the residual is added
        take, free = self.recorder.take, self.recorder.free
        dropped = take(self.wide)
        self._pop(saved, "output mask")
        returned = take(self.wide * self.setup.top_k)
        weights = take(4 * self.setup.tokens * self.setup.top_k)
        free(dropped, saved.tensors.pop("weights"))
        self._pop(saved, "returned")
        saved.tensors["weights"] = weights
        return returned

    def _experts_backward(self, saved: Saved, returned: int) -> int:
        take, free, setup = self.recorder.take, self.recorder.free, self.setup
        all_tokens = 2 * sum(saved.tokens) * setup.hidden
        joined = take(all_tokens)
        free(returned)
        inputs = []
        for expert, tokens in reversed(list(enumerate(saved.tokens))):
            after = take(2 * tokens * setup.ffn)
            self._weights(setup.ffn, setup.hidden)
            self._pop(saved, f"after {expert}")
            before = take(4 * tokens * setup.ffn)
            free(after)
            self._pop(saved, f"before {expert}")
            inputs.append(take(2 * tokens * setup.hidden))
            self._weights(setup.hidden, 2 * setup.ffn)
            free(before)
        free(joined)
        collected = take(all_tokens)
        free(*inputs)
        self._pop(saved, "sorted")
        sent = take(self.wide * setup.top_k)
        free(collected)
        self._pop(saved, "rows")
        return sent

    def _route_backward(self, saved: Saved, gradient: int, sent: int) -> int:
        take, free, setup = self.recorder.take, self.recorder.free, self.setup
        normed = take(self.wide)
        free(sent)
        scores = take(4 * setup.tokens * 8 * setup.experts)
        self._pop(saved, "weights", "chosen", "chances", "logits")
        routed = take(self.wide)
        self._weights(setup.hidden, 8 * setup.experts)
        free(scores)
        total = take(self.wide)
        free(routed, normed)
        self._pop(saved, "second norm")
        return self._norm_backward(saved, "second", gradient, total, "middle")


def _kind(is_backward: bool) -> str:
    return "recompute" if is_backward else "forward"
