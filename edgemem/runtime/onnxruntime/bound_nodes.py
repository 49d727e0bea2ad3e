"""Runs an ONNX model inside the plan of its graph: each node has a session whose tensors are bound into one arena.

`edgemem verify --run` and `edgemem run --executor io-binding` run plans so, with ONNX Runtime's package alone.
Kernels' workspaces are not in the arena, and a node takes some microseconds more than in one session.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.formats import onnx_editor
from edgemem.model.aliasing import RULES
from edgemem.runtime.memory import MemoryReport, origin_of
from edgemem.runtime.onnxruntime.baked_file import onnxruntime, runtime_errors
from edgemem.runtime.onnxruntime.bound_arena import OrtDevice, make_arena
from edgemem.runtime.onnxruntime.install import refuse_silent_fallback
from edgemem.runtime.onnxruntime.layout import planned_layout, separate_layout
from edgemem.runtime.onnxruntime.split_model import node_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.runtime.feeds import Feeds
    from edgemem.runtime.onnxruntime.split_model import SplitModel

__all__ = ["BoundNodes"]


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """A node's session with its bindings; buffers outside the arena are bound again at every run."""

    name: str
    session: Any
    binding: Any
    outside_in: tuple[str, ...]
    outside_out: tuple[str, ...]
    shown: tuple[str, ...]


class BoundNodes:
    """The sessions of a model's nodes, and the arena that they share.

    Args:
        model: split, with its plan.
        poison: a byte that the arena is filled with before every run, so that reading old contents changes results.
        separate: every tensor has memory of its own instead of its place in the plan.
        device: where the arena lies and the nodes run; the CPU by default.

    Raises RuntimeBindError if a node does not run alone, or the device has no room for the arena.
    """

    def __init__(
        self,
        model: SplitModel,
        *,
        poison: int | None = None,
        separate: bool = False,
        device: OrtDevice | None = None,
    ) -> None:
        self._model = model
        self._device = device or OrtDevice()
        self._elem_type = onnx_editor().elem_type
        self._poison = poison
        sizes = model.sizes()
        layout = separate_layout(sizes) if separate else planned_layout(model.proved, sizes, remedy=model.remedy)
        self._places = layout.offsets
        self._in_bodies = len(layout.others)
        self._arena = make_arena(layout.size, self._device)
        # Results that are neither planned nor outputs: of size 0, or unread results in a plan that leaves those out.
        bound = {*self._places, *model.outputs, *model.inputs}
        self._spare = {name: self._empty(name) for name in model.forms if name not in bound}
        self._elided = 0
        self._nodes = self._bound_nodes()

    @property
    def report(self) -> MemoryReport:
        """The memory of the tensors, and the plan."""
        model, planset = self._model, self._model.proved.planset
        best = planset.best_offsets
        assert best is not None
        apart = f"{self._in_bodies} tensors of branches and loops have a place that ONNX Runtime does not use"
        return MemoryReport(
            executor="io-binding",
            mode="planned",
            origin=origin_of(planset, best, model.source),
            planned=best.size,
            lower_bound=planset.bounds.offsets,
            reserved=best.size,
            outside=sum(model.size(name) for name in dict.fromkeys(model.outputs) if name not in self._places),
            reason=apart if self._in_bodies else "",
            details={
                "constants": sum(model.size(name) for name in model.folded),
                "steps": len(self._nodes),
                "elided": self._elided,
                "tensors_in_bodies": self._in_bodies,
            },
        )

    def run(
        self,
        feeds: Mapping[str, NDArray[Any]],
        show: Callable[[str, Mapping[str, NDArray[Any]]], None] | None = None,
    ) -> Feeds:
        """The outputs by name, as copies.

        `show` is called with each node's name and results as soon as they are there; they lie in the arena, and are
        valid during the call. Raises RuntimeBindError for feeds of other sizes, and for a node that fails.
        """
        self._model.check_feeds(feeds)
        try:
            return self._run(feeds, show)
        except runtime_errors() as e:
            raise RuntimeBindError(f"{self._model.path.name} does not run inside the plan: {_gist(e)}") from None

    def _run(
        self,
        feeds: Mapping[str, NDArray[Any]],
        show: Callable[[str, Mapping[str, NDArray[Any]]], None] | None,
    ) -> Feeds:
        if self._poison is not None:
            self._arena.fill(self._poison)
        outside: Feeds = {name: np.ascontiguousarray(value) for name, value in feeds.items()}
        outside |= {name: self._empty(name) for name in self._model.outputs if name not in self._places}
        for name in self._model.inputs:
            if name in self._places:
                self._arena.write(self._places[name], outside[name])
        for node in self._nodes:
            for name in node.outside_in:
                node.binding.bind_input(name, *self._bound_to(name, outside[name].ctypes.data))
            for name in node.outside_out:
                node.binding.bind_output(name, *self._bound_to(name, outside[name].ctypes.data))
            node.session.run_with_iobinding(node.binding)
            if show is not None:
                show(node.name, {n: self._view(n) if n in self._places else outside[n] for n in node.shown})
        return {n: self._view(n).copy() if n in self._places else outside[n] for n in self._model.outputs}

    def _bound_nodes(self) -> tuple[_Node, ...]:
        """The nodes that run each time. What depends on constants alone is computed here; views need not run."""
        ort = onnxruntime()
        model = self._model
        target = model.proved.planset.target
        views = RULES[target.aliasing].views if target else frozenset()
        shared: dict[str, Any] = {}
        nodes = []
        for piece in model.pieces():
            if piece.type in views and piece.constant_but_first and self._same_place(piece.inputs, piece.outputs):
                self._elided += 1
                continue
            options = node_options(model.options)
            for name in piece.shared:
                if name not in shared:
                    shared[name] = ort.OrtValue.ortvalue_from_numpy(model.parts.constant(name))
            if piece.shared:
                options.add_external_initializers(list(piece.shared), [shared[n] for n in piece.shared])
            try:
                session = ort.InferenceSession(piece.model, options, providers=self._device.providers)
                refuse_silent_fallback(self._device.providers, session.get_providers())
            except runtime_errors() as e:
                raise RuntimeBindError(
                    f"{model.path.name} does not run inside the plan: {piece.name!r} does not run alone: {_gist(e)}"
                ) from None
            node = self._bound(piece.name, session, piece.inputs, piece.outputs)
            if model.folded.issuperset(piece.outputs) and not set(model.outputs) & set(piece.outputs):
                session.run_with_iobinding(node.binding)
            else:
                nodes.append(node)
        self._shared = shared  # the sessions use them
        return tuple(nodes)

    def _bound(self, name: str, session: Any, inputs: Sequence[str], outputs: Sequence[str]) -> _Node:
        binding = session.io_binding()
        for n in inputs:
            if (address := self._address(n)) is not None:
                binding.bind_input(n, *self._bound_to(n, address))
        for n in outputs:
            if (address := self._address(n)) is not None:
                binding.bind_output(n, *self._bound_to(n, address))
        return _Node(
            name,
            session,
            binding,
            tuple(n for n in inputs if self._address(n) is None),
            tuple(n for n in outputs if self._address(n) is None),
            tuple(n for n in outputs if n not in self._spare),
        )

    def _same_place(self, inputs: Sequence[str], outputs: Sequence[str]) -> bool:
        return (
            len(inputs) == len(outputs) == 1
            and inputs[0] in self._places
            and self._places[inputs[0]] == self._places.get(outputs[0])
        )

    def _address(self, name: str) -> int | None:
        if name in self._places:
            return self._arena.address + self._places[name]
        return int(self._spare[name].ctypes.data) if name in self._spare else None

    def _bound_to(self, name: str, address: int) -> tuple[str, int, Any, tuple[int, ...], int]:
        dtype, shape = self._model.forms[name]
        device = self._device if name in self._places else OrtDevice()
        return device.kind, device.number, self._elem_type(dtype), shape, address

    def _view(self, name: str) -> NDArray[Any]:
        return _typed(self._arena.read(self._places[name], self._model.size(name)), *self._model.forms[name])

    def _empty(self, name: str) -> NDArray[Any]:
        return _typed(np.empty(self._model.size(name), np.uint8), *self._model.forms[name])


def _typed(content: NDArray[Any], dtype: str, shape: Sequence[int]) -> NDArray[Any]:
    """Bytes as values; as they are where numpy has no such type, or has it in other bytes, as of 8 bits and fewer."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        return content
    return content.view(kind).reshape(shape) if kind.itemsize * prod(shape) == content.size else content


def _gist(error: Exception) -> str:
    """The sentence that says what is wrong, without ONNX Runtime's file names and advice."""
    return str(error).splitlines()[0].rpartition(" : ")[2].partition(". ")[0]
