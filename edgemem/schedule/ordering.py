"""What a search for an order of operators gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from edgemem.notebook.card import html_card

__all__ = ["Ordering", "Solved", "Start", "Stopped"]

# Why a search ended: the peak is at the lower bound; a better bound was proved; a fixed rule was done; it ran out of
# work or of time.
Stopped: TypeAlias = Literal["bound", "proof", "rule", "work", "time"]


@dataclass(frozen=True, slots=True)
class Start:
    """What is known before a solver begins; `auto` passes on what the solvers before it found.

    Attributes:
        order: the best order so far, to improve on. A solver that finds nothing better gives it back.
        peak: `order_peak` of it.
        bound: no order has a lower `order_peak`; a solver stops where it reaches it.
    """

    order: tuple[int, ...]
    peak: int
    bound: int


@dataclass(frozen=True, slots=True)
class Solved:
    """The answer of one solver.

    Attributes:
        order: the operators' numbers in the order in which they run.
        bound: a lower bound of `order_peak` over all orders that the solver proved; 0 if it proved none.
        stopped: why it ended.
        work: steps it took, counted the same on every machine; 0 for a fixed rule.
    """

    order: tuple[int, ...]
    bound: int = 0
    stopped: Stopped = "rule"
    work: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class Ordering:
    """The best order found for a graph's operators; never worse than the graph's own.

    Peaks and bounds are bytes (texels for textures): the lower bound of the arena of the graph in that order, under the
    rules of the target.

    Attributes:
        order: `Graph.reordered` accepts it.
        peak: of this order.
        given_peak: of the order that the graph has.
        lower_bound: no order has a lower peak.
        method: the solver that found the order; "given" for the graph's own, and "auto" for one that no solver found,
            but moves of single operators in the best order did, under rules by which tensors share bytes in part.
        stopped: why the search ended.
        seconds: how long it took.
    """

    order: tuple[int, ...]
    peak: int
    given_peak: int
    lower_bound: int
    method: str
    stopped: Stopped
    seconds: float = 0.0

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no order has a lower peak."""
        return self.peak == self.lower_bound

    def __repr__(self) -> str:
        """The figures, and how many operators there are instead of their numbers."""
        names = ("method", "peak", "given_peak", "lower_bound", "optimal", "stopped")
        figures = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"Ordering({figures}, seconds={self.seconds:.3g}, operators={len(self.order)})"

    def _repr_html_(self) -> str:
        """For notebooks: the peaks, and how the order was found."""
        ratio = f"{self.given_peak / self.peak:.2f}" if self.peak else "1.00"
        saved = f", {ratio}x less" if self.peak < self.given_peak and ratio != "1.00" else ""
        facts = (
            ("peak", f"{self.peak:,}{' (optimal)' if self.optimal else ''}"),
            ("as given", f"{self.given_peak:,}{saved}"),
            ("lower bound", f"{self.lower_bound:,}"),
            ("method", f"{self.method}, {self.seconds:.3g} s"),
            ("operators", f"{len(self.order):,}"),
        )
        return html_card("Order of operators", facts)
