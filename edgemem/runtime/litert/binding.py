"""What stands between LiteRT's interpreter and its native side, so that it runs in our arena and nowhere else.

repoint    LiteRT plans and reserves its arena as it would, then tensors and workspace are given places in ours; its
own is never touched
custom     the tensors are also taken out of LiteRT's arena as the model is made, so that it reserves memory for
workspace alone; LiteRT prepares the model twice for it, the first time to see what is in its arena
boundary   a delegate (XNNPACK, GPU) runs operators in memory of its own, which LiteRT does not show; what is left
in LiteRT's arena, inputs, outputs and what passes between delegates, keeps its layout and moves to ours
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from edgemem.errors import RuntimeBindError
from edgemem.runtime.litert.arena import POISON
from edgemem.runtime.litert.layout import as_litert_has_it, from_file, graph_of, planned, why_not
from edgemem.runtime.litert.probe import ARENA, CUSTOM, probe

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet
    from edgemem.runtime.litert.arena import Arena
    from edgemem.runtime.litert.layout import Inputs, Layout
    from edgemem.runtime.litert.probe import Delegate, Probe

__all__ = ["Binding", "Memory", "Mode", "placed_by_litert"]

Mode: TypeAlias = Literal["custom", "repoint", "boundary", "plain"]
_PLAIN: Final = 'refuse="plain" runs it in LiteRT\'s own memory'


@dataclass(frozen=True, slots=True)
class Memory:
    """Where a prepared model's memory is, in bytes.

    Attributes:
        mode: how it is bound; `plain` if it is not.
        planned: our arena.
        bound: all tensors and workspaces in it, one after the other.
        reserved: what LiteRT allocated for arenas of its own, whether anything runs there or not.
        own: those of its tensors that still live in LiteRT's arenas, those of other subgraphs included.
        persistent: what LiteRT keeps between runs: variables and decompressed weights.
        dynamic: what it allocates as it runs.
        delegated: parts of the graph that delegates run in memory of their own; LiteRT does not show how much, so it
            is in none of these figures.
        reason: why not everything is bound, or "".
        origin: where the plan is from.
    """

    mode: Mode
    planned: int
    bound: int
    reserved: int
    own: int
    persistent: int
    dynamic: int
    delegated: int
    reason: str
    origin: str


class Binding:
    """LiteRT's native interpreter, behind checks that it runs in our arena.

    Calls that neither move nor touch memory go straight through.
    """

    def __init__(
        self,
        *,
        native: Any,
        delegate: Delegate | None,
        mode: Mode,
        reason: str,
        model: Any,
        plan: PlanSet | None,
        strategy: str | Sequence[str] | None,
        inputs: Inputs,
        arena: Arena,
        poison: bool,
        trust: bool,
        plain: Any,
    ) -> None:
        self.delegate = delegate
        self.mode: Mode = mode
        self.arena = arena
        self.layout: Layout | None = None
        self._turn = object()
        self._native = native
        self._holds: Any = None  # a plain interpreter that replaced the first one
        self._reason = reason
        self._model = model
        self._plan = plan
        self._strategy = strategy
        self._inputs_kept = inputs == "keep"
        self._inputs: Inputs = inputs
        self._poison = poison
        self._trust = trust
        self._plain = plain
        self._resized: dict[int, tuple[Any, bool]] = {}
        self._base = 0
        self._memory: Memory | None = None
        self._ran = False
        self._set: set[int] = set()  # inputs that were set since the last run
        self._viewed: dict[int, int] = {}  # inputs that are written through views -> checksum after the last run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    # --- the native calls that concern memory --------------------------------------------------------------------

    def ResizeInputTensor(self, index: int, shape: Any, strict: bool, subgraph: int = 0) -> Any:  # noqa: N802
        result = self._native.ResizeInputTensor(index, shape, strict, subgraph)
        if not subgraph:
            self._resized[index] = (shape, strict)
            if self.delegate:
                # Sizes have changed; nobody may write to the old places.
                tensors = self.delegate.tensors
                if self.mode == "custom" and any(tensors[i].bytes != size for i, _, size in self._places()):
                    for i, _, _ in self._places():
                        tensors[i].data = None
        return result

    def AllocateTensors(self, subgraph: int = 0) -> Any:  # noqa: N802
        with self.arena.lock:
            result = self._native.AllocateTensors(subgraph)
            if subgraph or self.delegate is None:
                return result
            try:
                self._bind(self.delegate)
            except RuntimeBindError as e:
                if self._plain is None:
                    raise
                self._give_up(str(e))
            return result

    def Invoke(self, subgraph: int = 0) -> Any:  # noqa: N802
        if self.layout is None or self.delegate is None or subgraph:
            return self._native.Invoke(subgraph)
        with self.arena.lock:
            self._check_turn("its inputs were set")
            self._check_places()
            self._check_inputs()
            if self._poison:
                self._poison_all_but_inputs()
            self.arena.holder = self._turn
            try:
                return self._native.Invoke(subgraph)
            finally:
                self._ran = True
                self._set.clear()
                for i in self._viewed:
                    self._viewed[i] = zlib.crc32(self._bytes_of(i).data)

    def SetTensor(self, index: int, value: Any, subgraph: int = 0) -> Any:  # noqa: N802
        with self.arena.lock:
            if not subgraph:
                self._take_turn()
                self._set.add(index)
            return self._native.SetTensor(index, value, subgraph)

    def GetTensor(self, index: int, subgraph: int = 0) -> Any:  # noqa: N802
        with self.arena.lock:
            if not subgraph and self._place(index):
                self._check_turn("it ran")
            return self._native.GetTensor(index, subgraph)

    def tensor(self, base: Any, index: int) -> Any:
        place = self._place(index)
        if place is None:
            return self._native.tensor(base, index)
        if index in self._native.InputIndices():
            self._take_turn()
            self._viewed.setdefault(index, -1)
        else:
            self._check_turn("it ran")
        like = self._native.tensor(base, index)
        # A view of our memory keeps it alive, whatever becomes of the interpreter.
        offset, size = place
        return self.arena.memory[offset : offset + size].view(like.dtype).reshape(like.shape)

    # --- binding ---------------------------------------------------------------------------------------------------

    def memory(self) -> Memory:
        if self._memory is None:
            if self.mode == "plain":
                reason = self._reason
                return Memory("plain", 0, 0, 0, 0, 0, 0, 0, reason, "LiteRT's own layout")
            raise RuntimeBindError("memory is known once tensors are allocated: call allocate_tensors() first")
        return self._memory

    def _bind(self, delegate: Delegate) -> None:
        """Give every tensor its place, after LiteRT has prepared the model."""
        self.layout, self._memory = None, None
        self._base = 0
        probed = delegate.read(workspace=self.mode != "boundary")
        delegated = sum(self._native.NodeName(i) == "DELEGATE" for i in range(self._native.NumNodes()))
        reason = ""
        if self.mode == "boundary":
            reason = "a delegate keeps the tensors of its operators to itself" if delegated else ""
            layout = as_litert_has_it(probed)
        else:
            graph = graph_of(self._model, probed)
            refused = why_not(graph, probed) or self._changed_by_us(graph, probed)
            if refused:
                raise RuntimeBindError(f"the model cannot run in a planned arena: {refused}; {_PLAIN}")
            found = None if self._plan or self._strategy else from_file(self._model, graph, probed, self._inputs)
            layout = found or planned(graph, probed, self._inputs, self._strategy, self._plan, trust=self._trust)
        arenas = sum(s.arena for s in probed.subgraphs)
        self.arena.reserve(layout.size)
        if self._poison:
            self.arena.memory[: layout.size] = POISON
        self.layout = layout
        self.arena.holder = self._turn
        self._point()
        placed = {i for i, _, _ in layout.places}
        left = [
            t.size
            for i, t in enumerate(probed.main.tensors)
            if t.allocation == "arena" and t.address and i not in placed
        ]
        self._memory = Memory(
            self.mode,
            layout.size,
            sum(size for _, _, size in layout.places),
            arenas,
            sum(left) + sum(s.arena for s in probed.subgraphs[1:]),
            sum(s.total("persistent") for s in probed.subgraphs),
            sum(s.total("dynamic") for s in probed.subgraphs),
            delegated,
            reason,
            layout.origin,
        )
        self._ran = False
        self._set.clear()
        self._viewed.clear()

    def _changed_by_us(self, graph: Graph, probed: Probe) -> str:
        """What LiteRT does with another tensor because some were taken out of its arena, or ""."""
        if self.mode != "custom":
            return ""
        natural = probe(self._model.content(), {i: tuple(shape) for i, (shape, _) in self._resized.items()})
        refused = why_not(graph, natural)
        ours = {
            i for i, t in enumerate(probed.main.tensors[: len(graph.tensors)]) if t.allocation in ("custom", "arena")
        }
        if not refused and not placed_by_litert(natural) & set(range(len(graph.tensors))) <= ours:
            return "LiteRT treats tensors of other shapes in another way; make the interpreter anew"
        return refused

    def _places(self) -> tuple[tuple[int, int, int], ...]:
        return self.layout.places if self.layout else ()

    def _place(self, index: int) -> tuple[int, int] | None:
        return next(((offset, size) for i, offset, size in self._places() if i == index), None)

    def _point(self) -> None:
        """Let LiteRT's tensors lie in the arena where it is now."""
        assert self.delegate is not None
        tensors = self.delegate.tensors
        self._base = self.arena.address
        for i, offset, _ in self._places():
            tensors[i].data = self._base + offset

    def _check_places(self) -> None:
        """Every tensor is as large as planned, and where it should be; LiteRT may have planned anew."""
        assert self.delegate is not None
        tensors = self.delegate.tensors
        for i, offset, size in self._places():
            tensor = tensors[i]
            if tensor.bytes != size or tensor.allocation_type not in (ARENA, CUSTOM):
                raise RuntimeBindError(
                    f"tensor {i} was planned with {size:,} bytes and has {tensor.bytes:,} now; call allocate_tensors()"
                )
            if tensor.data != self._base + offset:
                raise RuntimeBindError(f"LiteRT has moved tensor {i} out of the arena; call allocate_tensors()")

    def _check_inputs(self) -> None:
        if self._inputs_kept or not self._ran:
            return
        for i in self._native.InputIndices():
            if i in self._set or self._place(i) is None:
                continue
            if i not in self._viewed or zlib.crc32(self._bytes_of(i).data) == self._viewed[i]:
                raise RuntimeBindError(
                    f"input {i} was not set since the last run, which has released its memory: set it before every "
                    'run, or make the interpreter with inputs="keep"'
                )

    def _take_turn(self) -> None:
        if self.layout is not None:
            if self.arena.address != self._base:
                self._point()
            if self.arena.holder is not self._turn:
                self._set.clear()
                self._viewed.clear()
                self.arena.holder = self._turn

    def _check_turn(self, since: str) -> None:
        if self.layout is not None and (self.arena.holder is not self._turn or self.arena.address != self._base):
            raise RuntimeBindError(
                f"another interpreter has used the shared arena since {since}: set the inputs, run and read the "
                "outputs before the other's turn"
            )

    def _bytes_of(self, index: int) -> NDArray[np.uint8]:
        place = self._place(index)
        assert place is not None
        return self.arena.memory[place[0] : place[0] + place[1]]

    def _poison_all_but_inputs(self) -> None:
        assert self.layout is not None
        kept = {i: self._bytes_of(i).copy() for i in self._native.InputIndices() if self._place(i)}
        self.arena.memory[: self.layout.size] = POISON
        for i, value in kept.items():
            self._bytes_of(i)[:] = value

    def _give_up(self, reason: str) -> None:
        """Go on with an interpreter that LiteRT manages alone."""
        self._holds = self._plain()
        self._native, self.delegate, self.layout = self._holds._interpreter, None, None  # noqa: SLF001
        self.mode, self._reason = "plain", reason
        for index, (shape, strict) in self._resized.items():
            self._native.ResizeInputTensor(index, shape, strict, 0)
        self._native.AllocateTensors(0)


def placed_by_litert(probed: Probe) -> frozenset[int]:
    """The tensors that LiteRT places in its arena."""
    return frozenset(i for i, t in enumerate(probed.main.tensors) if t.allocation == "arena" and t.size)
