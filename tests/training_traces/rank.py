"""What one rank asks of an allocator in a whole run: weights, passes in the order of the schedule, optimizer."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tests.training_traces.ends import EndRequests
from tests.training_traces.layers import LayerRequests, Saved
from tests.training_traces.recorder import GATHER, TRANSFER, Recorder
from tests.training_traces.schedule import Pass, schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.trace.trace import Trace
    from tests.training_traces.setup import TrainingSetup

__all__ = ["Rank"]

_WORKSPACE = 8_519_680  # of cuBLAS
_WORTH_OFFLOADING = 1 << 20


@dataclass(slots=True)
class _Kept:
    """What a pass leaves for its backward pass."""

    data: list[int]
    layers: list[Saved] = field(default_factory=list)
    embedding: list[int] = field(default_factory=list)
    loss: list[int] = field(default_factory=list)


class Rank:
    """Writes the requests of a run to a recorder."""

    def __init__(self, setup: TrainingSetup) -> None:
        self.setup = setup
        self.recorder = Recorder()
        self.layer = LayerRequests(setup, self.recorder)
        self.ends = EndRequests(setup, self.recorder)
        self.rng = np.random.default_rng(setup.seed)
        count = setup.layers_of_chunk * setup.chunks
        shares = self.rng.gamma(setup.skew, size=(count, 8 * setup.experts))
        self.popularity = shares / shares.sum(axis=1, keepdims=True) if setup.experts else shares
        self.kept: dict[tuple[int, int], _Kept] = {}
        self.sent: deque[int] = deque()  # outputs that are still on their way to another stage
        self.data: deque[list[int]] = deque()
        self.gradients: list[int] = []
        self.has_states = False

    # --- the whole run ---

    def run(self) -> Trace:
        for chunk in range(self.setup.chunks):
            weights = self.parameters(chunk)
            for count in weights:
                self.recorder.take(2 * count // self.shards(3))
            if self.setup.zero_stage < 3:
                self.recorder.take(4 * sum(weights))  # one buffer of gradients
            for count in weights:
                self.recorder.take(4 * count // self.shards(1))  # in single precision
        self.load()
        order = schedule(self.setup)
        for iteration in range(self.setup.iterations):
            self.recorder.iteration_now = iteration
            if iteration == 0:
                self.recorder.take(_WORKSPACE)
            coming = self.receive(order[0], 0)
            for phase, (step, following) in enumerate(zip(order, [*order[1:], None], strict=True)):
                # With chunks, what the next pass needs is received while this one is computed.
                later = self.receive(following, phase) if self.setup.chunks > 1 else None
                (self.forward if step.is_forward else self.backward)(step, phase, coming)
                coming = self.receive(following, phase) if self.setup.chunks == 1 else later
            self.settle(0)
            self.step(len(order))
        return self.recorder.trace()

    def shards(self, stage: int) -> int:
        """Ranks over which a stage of ZeRO and all later ones shard."""
        return self.setup.shards if self.setup.zero_stage >= stage else 1

    def parameters(self, chunk: int) -> list[int]:
        """Numbers of weights in each tensor of a chunk."""
        table = [self.setup.vocabulary * self.setup.hidden // self.setup.tensor]
        return [
            *(table if self.is_first(chunk) else []),
            *self.parameters_of_layer * self.setup.layers_of_chunk,
            *(table if self.is_last(chunk) else []),
        ]

    @property
    def parameters_of_layer(self) -> list[int]:
        setup, share = self.setup, self.setup.tensor
        hidden, ffn = setup.hidden, setup.ffn
        dense = [hidden * ffn // share, ffn * hidden // share]
        experts = [hidden * 8 * setup.experts, *[2 * hidden * ffn, ffn * hidden] * setup.experts]
        attention = [3 * hidden * hidden // share, hidden * hidden // share]
        return [*attention, *(experts if setup.experts else dense), *[hidden] * 4]

    @property
    def weights_of_layer(self) -> int:
        return sum(self.parameters_of_layer)

    def is_first(self, chunk: int) -> bool:
        return self.setup.rank == 0 and chunk == 0

    def is_last(self, chunk: int) -> bool:
        return self.setup.rank == self.setup.pipeline - 1 and chunk == self.setup.chunks - 1

    # --- passes ---

    def forward(self, step: Pass, phase: int, coming: int | None) -> None:
        if step.chunk == 0:
            self.load()  # of the next microbatch, while this one is computed
        kept = _Kept(self.data.popleft() if step.chunk == 0 else [])
        self.kept[step.microbatch, step.chunk] = kept
        current = self.ends.embed(kept.embedding, phase) if coming is None else coming
        waiting: list[int] = []
        for number, name in self.layers(step.chunk):
            gathered = self.gather(name, phase, is_backward=False)
            keeps = self.setup.recompute == "none"
            tokens = self.tokens_of_experts(number)
            made, saved = self.layer.forward(name, phase, current, tokens=tokens, keeps=keeps, is_backward=False)
            if not keeps:
                saved.tensors = {"input": current}
            kept.layers.append(saved)
            self.recorder.free(*gathered)
            self.recorder.free(*waiting)
            waiting = self.offload(saved)
            current = made
        self.recorder.free(*waiting)
        if self.is_last(step.chunk):
            self.ends.loss(kept.loss, phase, current)
        else:
            self.send(current)

    def backward(self, step: Pass, phase: int, coming: int | None) -> None:
        kept = self.kept.pop((step.microbatch, step.chunk))
        gradient = self.ends.loss_backward(kept.loss, phase) if coming is None else coming
        if self.setup.offloads:
            self.reload(kept.layers[-1], phase)
        for index, (_, name) in reversed(list(enumerate(self.layers(step.chunk)))):
            saved = kept.layers.pop()
            gathered = self.gather(name, phase, is_backward=True)
            if self.setup.offloads and index:
                self.reload(kept.layers[-1], phase)
            output = None
            if self.setup.recompute == "full":
                output, saved = self.layer.forward(
                    name, phase, saved.tensors["input"], tokens=saved.tokens, keeps=True, is_backward=True
                )
            gradient = self.layer.backward(name, phase, saved, gradient)
            if output is not None:
                self.recorder.free(output)
            self.recorder.free(*gathered)
            self.reduce(name, phase, is_first=step.microbatch == 0)
        if self.is_first(step.chunk):
            self.ends.embed_backward(kept.embedding, phase, gradient)
        else:
            self.send(gradient)
        self.recorder.free(*kept.data)

    def layers(self, chunk: int) -> list[tuple[int, str]]:
        """Numbers within the rank, and names within the model."""
        setup = self.setup
        count = setup.layers_of_chunk
        begin = (chunk * setup.pipeline + setup.rank) * count
        return [(chunk * count + k, f"layers.{begin + k}") for k in range(count)]

    def tokens_of_experts(self, number: int) -> Sequence[int]:
        """Tokens that the routers of eight ranks send to each expert of this one."""
        setup = self.setup
        if not setup.experts:
            return ()
        mean = 8 * setup.tokens * setup.top_k * self.popularity[number, : setup.experts]
        varied = mean * self.rng.lognormal(0.0, 0.25, setup.experts)
        return [int(n) for n in np.maximum(1, self.rng.poisson(varied))]

    # --- between stages ---

    def load(self) -> None:
        """Tokens, labels, positions and the mask of the loss, of one microbatch."""
        tokens = self.setup.tokens
        with self.recorder.within("data", 0):
            self.data.append([self.recorder.take(bytes_each * tokens) for bytes_each in (8, 8, 8, 4)])

    def receive(self, step: Pass | None, phase: int) -> int | None:
        """A buffer for what another stage sends to this pass; None if the pass begins at the data or the loss."""
        if step is None or (self.is_first(step.chunk) if step.is_forward else self.is_last(step.chunk)):
            return None
        with self.recorder.within("pipeline", phase):
            return self.recorder.take(self.layer.narrow)

    def send(self, output: int) -> None:
        """It is freed when it has arrived, after the next pass."""
        self.settle(1)
        self.sent.append(output)

    def settle(self, most: int) -> None:
        while len(self.sent) > most:
            self.recorder.free(self.sent.popleft())

    # --- ZeRO-3, and activations on the host ---

    def gather(self, name: str, phase: int, *, is_backward: bool) -> list[int]:
        """The weights of a layer from all ranks."""
        if self.setup.zero_stage < 3:
            return []
        with self.recorder.within(f"{name} gather", phase, is_backward=is_backward):
            return [self.recorder.take(2 * self.weights_of_layer, GATHER)]

    def reduce(self, name: str, phase: int, *, is_first: bool) -> None:
        """The gradients of a layer over all ranks; each keeps its shard until the optimizer has run."""
        if self.setup.zero_stage < 3:
            return
        with self.recorder.within(f"{name} reduce", phase, is_backward=True):
            full = self.recorder.take(4 * self.weights_of_layer, TRANSFER)
            shard = self.recorder.take(4 * self.weights_of_layer // self.setup.shards, TRANSFER)
            self.recorder.free(full)
            if is_first:
                self.gradients.append(shard)
            else:
                self.recorder.free(shard)

    def offload(self, saved: Saved) -> list[int]:
        """Tensors whose copies to the host have begun; they are freed a layer later."""
        if not self.setup.offloads:
            return []
        large = {n: r for n, r in saved.tensors.items() if self.recorder.sizes[r] >= _WORTH_OFFLOADING}
        large.pop("input", None)  # the next layer still reads what this one made
        saved.on_host = {name: self.recorder.sizes[request] for name, request in large.items()}
        saved.tensors = {name: request for name, request in saved.tensors.items() if name not in large}
        return list(large.values())

    def reload(self, saved: Saved, phase: int) -> None:
        """Copies back from the host begin a layer before they are needed."""
        with self.recorder.within("reload", phase, is_backward=True):
            for name, size in saved.on_host.items():
                saved.tensors[name] = self.recorder.take(size, TRANSFER)
        saved.on_host = {}

    # --- optimizer ---

    def step(self, phase: int) -> None:
        """Norms of the gradients, and an update; the first one makes the states."""
        weights = [count for chunk in range(self.setup.chunks) for count in self.parameters(chunk)]
        shards = self.shards(1)
        with self.recorder.within("optimizer", phase):
            norms = [self.recorder.take(4) for _ in weights]
            self.recorder.temporary(4 * len(weights), 4, 4)
            self.recorder.free(*norms)
            if not self.has_states:
                for count in weights:
                    self.recorder.take(4 * count // shards)
                    self.recorder.take(4 * count // shards)
            self.has_states = True
            if self.setup.zero_stage == 3:  # torch.optim.AdamW(foreach=True): denominators of all tensors at once
                self.recorder.free(*[self.recorder.take(4 * count // shards) for count in weights])
            self.recorder.free(*self.gradients)
            self.gradients = []
