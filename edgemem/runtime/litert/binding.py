"""LiteRT's native interpreter, with checks that it runs in our arena and nowhere else."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from edgemem.errors import EdgememError, RuntimeBindError
from edgemem.runtime.litert.guard import TensorGuard
from edgemem.runtime.litert.memory import bound_memory, plain_memory
from edgemem.runtime.litert.pages import give_back
from edgemem.runtime.litert.request import PLAIN_HINT

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.replay.arena import Arena
    from edgemem.runtime.litert.arena_layout import ArenaLayout
    from edgemem.runtime.litert.delegate import Delegate
    from edgemem.runtime.litert.memory import InterpreterMemory
    from edgemem.runtime.litert.probe_data import Probe
    from edgemem.runtime.litert.request import Resized

__all__ = ["POISON", "Binding"]

# The native interpreter and the shapes of resized inputs -> places, and what LiteRT showed of the tensors.
_PlaceTensors: TypeAlias = "Callable[[Any, Resized], tuple[ArenaLayout, Probe]]"

POISON: Final = 0xCD
_MOVED: Final = (
    "LiteRT has placed tensors anew while it ran, so that the outputs are not right: make the interpreter with "
    'mode="plain"'
)


class Binding:
    """LiteRT's native interpreter with its tensors in an arena.

    It replaces the native interpreter inside LiteRT's Python class, and forwards the calls that do not concern memory.
    """

    def __init__(
        self,
        native: Any,
        delegate: Delegate,
        place: _PlaceTensors,
        arena: Arena,
        *,
        inputs_kept: bool = True,
        poison: bool = False,
        plain: Callable[[], Any] | None = None,
        has_other_kernels: bool = False,
        file: str | None = None,
    ) -> None:
        """Bind an interpreter.

        Args:
            native: LiteRT's native interpreter.
            delegate: reads LiteRT's internal structures.
            place: gives tensors their places, once LiteRT has prepared the model.
            arena: to run in.
            inputs_kept: whether inputs are kept after a run where the plan keeps them; else they are to be set before
                every run.
            poison: fill the arena before every run.
            plain: makes an interpreter without our arena, which replaces this one where the model cannot be bound.
            has_other_kernels: whether the interpreter that `plain` makes runs other kernels than this one.
            file: the path of the model that LiteRT maps, whose pages are given back after the first run.
        """
        self.delegate: Delegate | None = delegate  # None once everything is left to LiteRT
        self.place = place
        self.arena = arena
        self.layout: ArenaLayout | None = None
        self._native = native
        self._plain = plain
        self._replacement: Any = None  # the interpreter that `plain` made; it owns the native one
        self._reason = ""  # why everything is left to LiteRT
        self._inputs_kept = inputs_kept
        self._poison = poison
        self._has_other_kernels = has_other_kernels
        self._file = file  # until the first run has ended
        self._turn = object()
        self._guard: TensorGuard | None = None
        self._spans: dict[int, tuple[int, int]] = {}  # tensor -> offset and end
        self._block: NDArray[np.uint8] | None = None  # the arena's bytes that the tensors point to
        self._resized: dict[int, tuple[Any, bool]] = {}
        self._memory: InterpreterMemory | None = None
        self._ran = False
        self._are_inputs_lost = False  # their memory was used since they were set
        self._is_touched = False  # whether LiteRT's tensors were ever put into our arena
        self._is_settled = False  # whether a run has shown that LiteRT moves no tensor
        self._set: set[int] = set()  # inputs that were set since the last run
        self._viewed: dict[int, int] = {}  # inputs that are written through views -> checksum after the last run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    # --- the native calls that concern memory --------------------------------------------------------------------

    def ResizeInputTensor(self, index: int, shape: Any, strict: bool, subgraph: int = 0) -> Any:  # noqa: N802
        result = self._native.ResizeInputTensor(index, shape, strict, subgraph)
        if not subgraph:
            self._resized[index] = (shape, strict)
        return result

    def AllocateTensors(self, *subgraph: int) -> Any:  # noqa: N802
        # Without a number both runtimes allocate the main subgraph, but with one tflite-runtime leaves its default
        # delegates out.
        with self.arena.lock:
            result = self._native.AllocateTensors(*subgraph)
            if self.delegate is None or any(number > 0 for number in subgraph):
                return result
            self._unbind()
            try:
                layout, probed = self.place(self._native, {i: shape for i, (shape, _) in self._resized.items()})
            except EdgememError as e:
                if self._plain is None:
                    raise
                self._give_up(str(e).removesuffix(PLAIN_HINT), self._plain)
                return result
            self._bind(self.delegate, layout, probed)
            return result

    def Invoke(self, subgraph: int = 0) -> Any:  # noqa: N802
        guard = self._guard
        result = self._native.Invoke(subgraph) if guard is None or subgraph else self._run(guard)
        if self._file is not None:
            give_back(self._file)
            self._file = None
        return result

    def _run(self, guard: TensorGuard) -> Any:
        with self.arena.lock:
            self._check_turn("its inputs were set")
            guard.check()
            if self._are_inputs_lost:
                self._check_inputs()
            if self._poison:
                self._poison_all_but_inputs()
            try:
                result = self._native.Invoke(0)
                if not self._is_settled:
                    if guard.is_moved():
                        raise RuntimeBindError(_MOVED)
                    self._is_settled = True
                return result
            finally:
                self._ran = True
                self._are_inputs_lost = not self._inputs_kept or self.layout is None or not self.layout.keeps_inputs
                self._set.clear()
                if self._viewed:
                    self._note_views()

    def SetTensor(self, index: int, value: Any, subgraph: int = 0) -> Any:  # noqa: N802
        with self.arena.lock:
            if not subgraph:
                self._take_turn()
                self._set.add(index)
            return self._native.SetTensor(index, value, subgraph)

    def GetTensor(self, index: int, subgraph: int = 0) -> Any:  # noqa: N802
        with self.arena.lock:
            if not subgraph and index in self._spans:
                self._check_turn("it ran")
                if self._are_inputs_lost and index in self._native.InputIndices():
                    self._check_input(index)
            return self._native.GetTensor(index, subgraph)

    def tensor(self, base: Any, index: int) -> Any:
        if index not in self._spans:
            return self._native.tensor(base, index)
        with self.arena.lock:
            if index in self._native.InputIndices():
                self._take_turn()
                is_lost = self._are_inputs_lost and index not in self._set
                self._viewed.setdefault(index, zlib.crc32(self._bytes_of(index).data) if is_lost else -1)
            else:
                self._check_turn("it ran")
            like = self._native.tensor(base, index)
            # A view of our memory keeps the memory alive after the interpreter is gone.
            return self._bytes_of(index).view(like.dtype).reshape(like.shape)

    # --- binding ---------------------------------------------------------------------------------------------------

    def memory(self) -> InterpreterMemory:
        if self.delegate is None:
            return plain_memory(self._reason)
        if self._memory is None:
            raise RuntimeBindError("memory is known once tensors are allocated: call allocate_tensors() first")
        return self._memory

    def _bind(self, delegate: Delegate, layout: ArenaLayout, probed: Probe) -> None:
        """Give every tensor its place, after LiteRT has prepared the model."""
        self.arena.reserve(layout.size)
        self._block = self.arena.memory
        if self._poison:
            self._block[: layout.size] = POISON
        guard = TensorGuard(delegate, layout.places)
        self._is_touched = True
        guard.point(self.arena.address)
        self._spans = {i: (offset, offset + size) for i, offset, size in layout.places}
        self.layout, self._guard = layout, guard
        self.arena.holder = self._turn
        self._memory = bound_memory(layout, probed, reserved=len(self._block))

    def _unbind(self) -> None:
        # The block stays: LiteRT's tensors may still point to it.
        self._is_settled = False
        self.layout = self._guard = self._memory = None
        self._spans = {}
        self._ran = False
        self._set.clear()
        self._viewed.clear()

    def _check_inputs(self) -> None:
        for i in self._native.InputIndices():
            self._check_input(i)

    def _check_input(self, i: int) -> None:
        """Raise RuntimeBindError for an input whose memory was used since it was set."""
        if i in self._set or i not in self._spans:
            return
        if i not in self._viewed or zlib.crc32(self._bytes_of(i).data) == self._viewed[i]:
            raise RuntimeBindError(
                f"input {i} was not set since its memory was used, by the last run or by another interpreter in the "
                'arena: set it before every run, or make the interpreter with inputs="keep" and an arena of its own'
            )

    def _take_turn(self) -> None:
        guard = self._guard
        if guard is None or self.layout is None or self.arena.holder is self._turn:
            return
        self.arena.reserve(self.layout.size)
        if self.arena.memory is not self._block:
            self._block = self.arena.memory
            guard.point(self.arena.address)
        self._set.clear()
        self._viewed.clear()
        self._are_inputs_lost = True
        self.arena.holder = self._turn

    def _check_turn(self, since: str) -> None:
        if self._guard is not None and (self.arena.holder is not self._turn or self.arena.memory is not self._block):
            raise RuntimeBindError(
                f"another interpreter has used the shared arena since {since}: set the inputs, run and read the "
                "outputs before the other's turn"
            )

    def _bytes_of(self, index: int) -> NDArray[np.uint8]:
        assert self._block is not None
        begin, end = self._spans[index]
        return self._block[begin:end]

    def _poison_all_but_inputs(self) -> None:
        assert self.layout is not None
        assert self._block is not None
        kept = {i: self._bytes_of(i).copy() for i in self._native.InputIndices() if i in self._spans}
        self._block[: self.layout.size] = POISON
        for i, value in kept.items():
            self._bytes_of(i)[:] = value

    def _note_views(self) -> None:
        for i in self._viewed:
            self._viewed[i] = zlib.crc32(self._bytes_of(i).data)

    def _give_up(self, reason: str, plain: Callable[[], Any]) -> None:
        """Continue in LiteRT's own memory."""
        self._unbind()
        self.delegate, self._reason = None, reason
        if not (self._is_touched or self._has_other_kernels):
            return  # no tensor was touched
        self._native = None  # its memory is released first
        self._replacement = plain()
        self._native = self._replacement._interpreter  # noqa: SLF001
        for index, (shape, strict) in self._resized.items():
            self._native.ResizeInputTensor(index, shape, strict, 0)
        self._native.AllocateTensors()
        self._block = None
