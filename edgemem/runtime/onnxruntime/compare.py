"""Compares a run inside a plan, node by node, with a run in which no two tensors share memory.

Both run the same pieces in the same order with the same sizes, so that every difference comes from the plan. A result
that is computed from random numbers, or differs from run to run even without sharing, is not compared.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.model.random import random_values_of
from edgemem.runtime.onnxruntime.io_binding import IoBindingSession

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from edgemem.runtime.memory import MemoryReport
    from edgemem.runtime.onnxruntime.prepared import Prepared

__all__ = ["Divergence", "NodeRun", "compare_nodes"]

_POISON: Final = 0xCD


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first result that differs from the run without sharing: a node's, or an output that was overwritten later."""

    node: str
    tensor: str

    def __str__(self) -> str:
        if not self.node:
            return f"output {self.tensor!r} is overwritten before the end of the run"
        return f"{self.node} computes another {self.tensor!r} than it does where no tensors share memory"


@dataclass(frozen=True, slots=True)
class NodeRun:
    """The result of the comparison.

    Attributes:
        report: the memory of the run inside the plan.
        divergence: the first difference, or None.
        compared: results that were compared.
        random: results that were left out.
    """

    report: MemoryReport
    divergence: Divergence | None
    compared: int
    random: tuple[str, ...]


def compare_nodes(prepared: Prepared, feeds: Mapping[str, NDArray[Any]]) -> NodeRun:
    """Run a prepared model in its plan, in poisoned memory, and without sharing, and compare all results bit for bit.

    Raises RuntimeBindError if it does not run node by node.
    """
    alone = IoBindingSession(prepared, separate=True)
    expected, again = _results(alone, feeds), _results(alone, feeds)
    differing = [name for name, value in expected.items() if again[name] != value]
    # What is computed from random numbers may be equal in two runs by chance.
    depends = random_values_of(prepared.graph, differing) if prepared.graph is not None else frozenset(differing)
    random = tuple(name for name in expected if name in depends)
    del alone
    session = IoBindingSession(prepared, poison=_POISON)
    found: list[Divergence] = []
    compared = 0

    def check(node: str, results: Mapping[str, NDArray[Any]]) -> None:
        nonlocal compared
        for name, value in results.items():
            if name not in random:
                compared += 1
                if not found and _digest(value) != expected[name]:
                    found.append(Divergence(node, name))

    check("", session.observe(feeds, check))
    if not compared:
        raise RuntimeBindError("its results differ from run to run even without a plan, so there is nothing to compare")
    return NodeRun(session.memory_report, found[0] if found else None, compared, random)


def _results(session: IoBindingSession, feeds: Mapping[str, NDArray[Any]]) -> dict[str, bytes]:
    digests: dict[str, bytes] = {}

    def note(_: str, results: Mapping[str, NDArray[Any]]) -> None:
        digests.update({name: _digest(value) for name, value in results.items()})

    note("", session.observe(feeds, note))
    return digests


def _digest(value: NDArray[Any]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(value).view(np.uint8).data if value.ndim else value.tobytes()).digest()
