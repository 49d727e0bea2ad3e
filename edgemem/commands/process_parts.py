"""The processes that `size` and `measure` of an .onnx model ask, and the parts of their memory."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from edgemem.commands.onnx_file import read_onnx
from edgemem.errors import BudgetExceededError, MissingDependencyError, RuntimeBindError, error_named
from edgemem.formats import onnx_editor
from edgemem.runtime.onnxruntime.baked_file import check_name
from edgemem.runtime.onnxruntime.file import (
    BAKED_KEY,
    has_blocked_layout,
    metadata_of,
    planned_bindings,
    plans_in,
    weight_bytes,
)
from edgemem.system.child_call import ChildError, Message, call_child

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from edgemem.formats import Bindings
    from edgemem.plans import PlanSet
    from edgemem.runtime.feeds import Feeds

__all__ = [
    "ARENA",
    "CACHES",
    "INPUTS",
    "OUTPUTS",
    "UNKNOWN",
    "MemoryPart",
    "ServedFile",
    "check_budget",
    "child_answer",
    "opened_parts",
    "save_requests",
]

INPUTS: Final = "inputs"
CACHES: Final = "caches, in place"
ARENA: Final = "arena, workspace"
OUTPUTS: Final = "outputs, in the pool"
_PLACE_S: Final = 60.0
UNKNOWN: Final = "not known: it is in the rest"  # how a part of no known size is known


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """A part of the resident memory of a process.

    Attributes:
        name: what it is for.
        size: bytes; below 0 only where it corrects another part that was not touched as a whole.
        known: how it is known.
        shared: those of the bytes that all processes of the model share: pages of files.
    """

    name: str
    size: int
    known: str
    shared: int = 0


class ServedFile:
    """A model whose processes are asked.

    Args:
        path: an .onnx file.
        command: that asks, for errors.

    Attributes:
        forms: element type and shape of each input.
        plans: in the file.
        weights: bytes of the model's constants, as its file has them.

    Raises:
        MissingDependencyError: onnxruntime is not installed. It is not imported: what this process has of its pages
            would count as shared with those that are measured.
        RuntimeBindError: its graph was optimised elsewhere (`check_place`).
        ModelError: the file cannot be read, or ONNX Runtime takes no file of such a name.
    """

    def __init__(self, path: Path, command: str) -> None:
        check_name(path)
        self._path, self._data = path, read_onnx(path, command)
        if find_spec("onnxruntime") is None:
            raise MissingDependencyError("onnxruntime", purpose="running an ONNX model")
        if metadata_of(self._data, (BAKED_KEY,)) or has_blocked_layout(self._data):
            _check_place(path)
        self.forms = onnx_editor().parts(self._data, path.parent).input_forms()
        self.plans: Sequence[PlanSet] = plans_in(self._data)
        self.weights = weight_bytes(self._data)

    def bindings(self, given: Bindings) -> Bindings:
        """What is given, and what else is bound in the file's plan."""
        return planned_bindings(self._data, given)

    def task(self, folder: Path, **more: Any) -> dict[str, Any]:
        """A question for `measure_child`, whose plans lie in the folder."""
        beside = str(self._path.resolve().parent)
        return {"model": str(self._path), "cache": str(folder / "plans"), "folder": beside, **more}


def _check_place(path: Path) -> None:
    """`check_place` in a process of its own, as this one does not import ONNX Runtime."""
    try:
        child_answer({"what": "place", "model": str(path)}, _PLACE_S)
    except ChildError as e:
        raise (error_named(e.kind, str(e)) if e.kind else RuntimeBindError(f"{path.name}: {e}")) from None


def child_answer(task: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """What a fresh process answers. Raises ChildError."""
    return dict(call_child("edgemem.runtime.onnxruntime.measure_child", Message(task), timeout_s=timeout_s).data)


def opened_parts(opened: Mapping[str, Any], weights: int, touched: int) -> list[MemoryPart]:
    """What a process takes with its session open.

    Args:
        opened: what `measure_child` says of a session that it opened.
        weights: bytes of the model's constants, as its file has them.
        touched: bytes of the mapped ones that runs read; packed files have weights that are read only to find others.
    """
    mapped, grown = opened["weights_mapped"], max(opened["anonymous"] - opened["before"], 0)
    inside = min(max(weights - mapped, 0), grown)
    measured = "measured here"
    return [
        MemoryPart("libraries", opened["before"] + opened["code"], measured, opened["code"]),
        MemoryPart("weights, mapped", touched, measured, touched),
        MemoryPart("weights, anonymous", inside, "from the file"),
        MemoryPart("packed copies, graph", grown - inside, measured),
        *([MemoryPart("left by runs", opened["left"], measured)] if "left" in opened else []),
    ]


def save_requests(requests: Iterable[Feeds], folder: Path) -> list[dict[str, tuple[str, str, tuple[int, ...], int]]]:
    """A file for each array, and its dtype, shape and bytes, by request and input, as `measure_child` reads them."""
    saved: list[dict[str, tuple[str, str, tuple[int, ...], int]]] = []
    for k, request in enumerate(requests):
        saved.append({})
        for place, (name, value) in enumerate(request.items()):
            file = folder / f"{k}-{place}"
            file.write_bytes(value.tobytes())
            saved[-1][name] = (str(file), value.dtype.str, value.shape, value.nbytes)
    return saved


def check_budget(required: int, budget: int | None, message: str) -> None:
    """Raise BudgetExceededError if more bytes are required than `budget` has.

    `message` says so, with `{required:,}` and `{available:,}` where the two figures go.
    """
    if budget is not None and required > budget:
        text = message.format(required=required, available=budget)
        raise BudgetExceededError(text, required=required, available=budget)
