"""TensorFlow Lite through its C library, with its tensors in an arena of ours by a call of its C interface.

`TfLiteInterpreterSetCustomAllocationForTensor` gives a tensor its memory. Android's library and builds of
libtensorflowlite_c export it; ai-edge-litert does not. The internal structures of the library are not read, so kernels'
workspace is neither in our arena nor in its figures.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import RuntimeBindError
from edgemem.planning.model_plan import plan_graph
from edgemem.plans import Settings
from edgemem.runtime.litert.layout import bound_target, open_tflite
from edgemem.runtime.litert.tensor_memory import TensorMemory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet
    from edgemem.replay.arena import Arena

__all__ = ["CInterpreter"]

_QUICK: Final = ("offsets/greedy_by_size", "offsets/greedy_by_breadth")
_BIND: Final = "TfLiteInterpreterSetCustomAllocationForTensor"


class _Allocation(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]


class CInterpreter:
    """A model in the C library, every tensor that is computed at run time in one planned arena.

    Attributes:
        planned: bytes of the arena.
        arena: the arena.
    """

    def __init__(
        self, library: str | Path, model: bytes, *, arena: Arena | None = None, strategy: Sequence[str] = _QUICK
    ) -> None:
        """Load the library, plan the model and prepare it.

        Raises:
            RuntimeBindError: the library cannot be loaded or lacks the call, or it refuses the model or its memory.
            UnknownShapeError, ModelError: the model cannot be planned.
        """
        self._library = _loaded(library)
        self._graph: Graph = open_tflite(model).graph()
        planset = _plan(self._graph, strategy)
        best = planset.best_offsets
        if best is None:
            raise RuntimeBindError(
                "the strategies give no offsets, and the tensors are in one arena: name one for offsets"
            )
        self.planned = best.size
        index = {t.name: i for i, t in enumerate(self._graph.tensors)}
        places = {
            index[name]: int(offset)
            for record, offset in zip(planset.problem.records, best.offsets, strict=True)
            for name in record.tensors
        }
        self._memory = TensorMemory(self._graph, places, best.size, arena)
        self.arena = self._memory.arena
        self._bytes = ctypes.create_string_buffer(model, len(model))  # the library reads it where it is
        self._model = self._library.TfLiteModelCreate(self._bytes, ctypes.c_size_t(len(model)))
        options = self._library.TfLiteInterpreterOptionsCreate()
        self._interpreter = self._library.TfLiteInterpreterCreate(self._model, options) if self._model else None
        self._library.TfLiteInterpreterOptionsDelete(options)
        if not self._interpreter:
            raise RuntimeBindError("the TensorFlow Lite library cannot run the model")
        for i in places:
            allocation = _Allocation(self._memory.address(i), self._graph.tensors[i].size)
            status = getattr(self._library, _BIND)(self._interpreter, i, ctypes.byref(allocation), ctypes.c_int64(0))
            self._check(status, f"memory for {self._graph.tensors[i].name!r}")
        self._check(self._library.TfLiteInterpreterAllocateTensors(self._interpreter), "allocation")

    def __del__(self) -> None:
        library = getattr(self, "_library", None)
        if library is not None and getattr(self, "_interpreter", None):
            library.TfLiteInterpreterDelete(self._interpreter)
        if library is not None and getattr(self, "_model", None):
            library.TfLiteModelDelete(self._model)

    def run(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The outputs for these inputs, both in the model's order. Raises RuntimeBindError if the library fails."""

        def invoke() -> None:
            self._check(self._library.TfLiteInterpreterInvoke(self._interpreter), "the run")

        return self._memory.run(inputs, invoke)

    def _check(self, status: int, what: str) -> None:
        if status:
            raise RuntimeBindError(f"the TensorFlow Lite library refused {what} (status {status})")


def _plan(graph: Graph, strategy: Sequence[str]) -> PlanSet:
    # The library does not report the workspace of its kernels, which is in memory of its own.
    rules = replace(bound_target("release"), name="tflite-c", scratch="unknown")
    return plan_graph(graph, rules, Settings(tuple(strategy)), families=("offsets",))


def _loaded(path: str | Path) -> Any:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as e:
        raise RuntimeBindError(f"cannot load {path}: {e}") from None
    if not hasattr(library, _BIND):
        raise RuntimeBindError(f"{path} does not export {_BIND}; Android's TensorFlow Lite and libtensorflowlite_c do")
    for name in ("TfLiteModelCreate", "TfLiteInterpreterOptionsCreate", "TfLiteInterpreterCreate"):
        getattr(library, name).restype = ctypes.c_void_p
    pointer = ctypes.c_void_p
    for name, arguments in {
        "TfLiteModelCreate": [pointer, ctypes.c_size_t],
        "TfLiteInterpreterCreate": [pointer, pointer],
        "TfLiteInterpreterOptionsDelete": [pointer],
        "TfLiteInterpreterDelete": [pointer],
        "TfLiteModelDelete": [pointer],
        "TfLiteInterpreterAllocateTensors": [pointer],
        "TfLiteInterpreterInvoke": [pointer],
        _BIND: [pointer, ctypes.c_int, pointer, ctypes.c_int64],
    }.items():
        getattr(library, name).argtypes = arguments
    return library
