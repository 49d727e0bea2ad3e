"""The memory that LiteRT runs in: our arena, and LiteRT's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from edgemem.runtime.memory import MemoryReport

if TYPE_CHECKING:
    from edgemem.runtime.litert.arena_layout import ArenaLayout
    from edgemem.runtime.litert.probe_data import Probe

__all__ = ["InterpreterMemory", "Mode", "bound_memory", "plain_memory"]

Mode: TypeAlias = Literal["planned", "plain"]


class InterpreterMemory(MemoryReport):
    """The report of an interpreter; `details` has sizes in bytes that are not those of the planned arena.

    without_sharing    the tensors and workspaces in the planned arena, one after the other
    native_arenas      what LiteRT allocated for arenas of its own, whether a run uses them or not
    own                the tensors that still lie in LiteRT's arenas, including those of other subgraphs
    persistent         what LiteRT keeps between runs: variables and decompressed weights
    dynamic            what LiteRT allocates during a run
    """

    __slots__ = ()

    @property
    def own(self) -> int:
        """Bytes of tensors that still live in LiteRT's arenas."""
        return self.details.get("own", 0)

    @property
    def persistent(self) -> int:
        """Bytes that LiteRT keeps between runs."""
        return self.details.get("persistent", 0)

    @property
    def dynamic(self) -> int:
        """Bytes that LiteRT allocates as it runs."""
        return self.details.get("dynamic", 0)


def bound_memory(layout: ArenaLayout, probed: Probe, *, reserved: int) -> InterpreterMemory:
    """The report of a model whose tensors are in an arena of `reserved` bytes."""
    placed = {i for i, _, _ in layout.places}
    main = probed.main
    left = [t.size for i, t in enumerate(main.tensors) if t.allocation == "arena" and t.address and i not in placed]
    details = {
        "without_sharing": sum(size for _, _, size in layout.places),
        "native_arenas": sum(s.arena for s in probed.subgraphs),
        "own": sum(left) + sum(s.arena for s in probed.subgraphs[1:]),
        "persistent": sum(s.total("persistent") for s in probed.subgraphs),
        "dynamic": sum(s.total("dynamic") for s in probed.subgraphs),
    }
    return InterpreterMemory(
        "litert",
        "planned",
        origin=layout.origin,
        planned=layout.size,
        lower_bound=layout.lower_bound,
        reserved=reserved,
        reason=layout.reason,
        details=details,
    )


def plain_memory(reason: str) -> InterpreterMemory:
    """The report of a model that LiteRT runs in memory of its own, which was not measured."""
    return InterpreterMemory("litert", "plain", reason=reason)
