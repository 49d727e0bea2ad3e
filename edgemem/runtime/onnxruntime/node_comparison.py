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
from edgemem.runtime.onnxruntime.bound_nodes import BoundNodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from edgemem.runtime.memory import MemoryReport
    from edgemem.runtime.onnxruntime.split_model import SplitModel

__all__ = ["NodeComparison", "compare_nodes"]

_POISON: Final = 0xCD


@dataclass(frozen=True, slots=True)
class NodeComparison:
    """A run inside a plan, beside one without sharing.

    Attributes:
        report: the memory of the run inside the plan.
        difference: the first result that differs, in words: a node's, or an output that was overwritten later; "" if
            there is none.
        tensor: the name of that result.
        random: results that were not compared.
    """

    report: MemoryReport
    difference: str
    tensor: str
    random: tuple[str, ...]


def compare_nodes(model: SplitModel, feeds: Mapping[str, NDArray[Any]]) -> NodeComparison:
    """Run a model in its plan, in poisoned memory, and without sharing, and compare all results bit for bit.

    Raises RuntimeBindError if it does not run node by node.
    """
    alone = BoundNodes(model, separate=True)
    expected, again = _results(alone, feeds), _results(alone, feeds)
    differing = [name for name, value in expected.items() if again[name] != value]
    # What is computed from random numbers may be equal in two runs by chance.
    depends = random_values_of(model.graph, differing)
    random = tuple(name for name in expected if name in depends)
    if len(random) == len(expected):
        raise RuntimeBindError("its results differ from run to run even without a plan, so there is nothing to compare")
    del alone
    found: list[tuple[str, str]] = []

    def check(node: str, results: Mapping[str, NDArray[Any]]) -> None:
        for name, value in results.items():
            if name not in random and not found and _digest(value) != expected[name]:
                found.append((node, name))

    nodes = BoundNodes(model, poison=_POISON)
    check("", nodes.run(feeds, check))
    node, tensor = found[0] if found else ("", "")
    difference = f"{node} computes another {tensor!r} than it does where no tensors share memory" if node else ""
    if tensor and not node:
        difference = f"output {tensor!r} is overwritten before the end of the run"
    return NodeComparison(nodes.report, difference, tensor, random)


def _results(nodes: BoundNodes, feeds: Mapping[str, NDArray[Any]]) -> dict[str, bytes]:
    digests: dict[str, bytes] = {}

    def note(_: str, results: Mapping[str, NDArray[Any]]) -> None:
        digests.update({name: _digest(value) for name, value in results.items()})

    note("", nodes.run(feeds, note))
    return digests


def _digest(value: NDArray[Any]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(value).view(np.uint8).data if value.ndim else value.tobytes()).digest()
