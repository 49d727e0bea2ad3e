"""What a .tflite model takes on a device: flash for the file, and RAM for the arena, part by part."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from edgemem.commands.process_parts import check_budget
from edgemem.errors import PlanError
from edgemem.runtime.litert.memory import litert_memory
from edgemem.runtime.litert.probe import probe_apart
from edgemem.runtime.tflite_file import open_model
from edgemem.runtime.tflm import size as tflm

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.runtime.tflite_file import TfliteModel

__all__ = ["ModelSize", "check_size", "size_data", "size_of"]


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The parts in bytes; None for what was not measured.

    Attributes:
        runtime: `tflm` or `litert`.
        file: of the whole file, in flash.
        weights: all constants in the file, as they are stored.
        activations: the arena for the model's tensors, without workspace. For `litert` their sum.
        workspace: what kernels need besides. For `litert` its sum; the arena is less, because all share it.
        tail: what lives as long as the interpreter: structures and state, on this computer.
        device_tail: the same on a device with 32-bit pointers, as predicted; None for `litert`.
        device_arena: the arena there, as predicted; None for `litert`.
        own_head: the head of TensorFlow Lite Micro's arena without the plan in the file; None for `litert`.
        arena: the smallest one that is enough: activations, workspace and tail together. For `litert` as measured.
        persistent: what LiteRT keeps between runs; `dynamic`: what it allocates as it runs.
        planned: the arena of the plan in the file, where the runtime keeps to it.
        plan: the plan that the runtime keeps to, or that it makes its own.
        reason: why something was not measured, or "".
    """

    runtime: str
    file: int
    weights: int
    activations: int | None = None
    workspace: int | None = None
    tail: int | None = None
    device_tail: int | None = None
    device_arena: int | None = None
    own_head: int | None = None
    arena: int | None = None
    persistent: int | None = None
    dynamic: int | None = None
    planned: int | None = None
    plan: str = ""
    reason: str = ""

    @property
    def ram(self) -> int | None:
        """Bytes of RAM that the model needs, workspace and tail included; None if that is not known.

        For TensorFlow Lite Micro the smallest arena; where that was not found, what it used of an ample one.
        """
        if self.runtime == "litert":
            parts = (self.arena, self.persistent, self.dynamic)
            return None if None in parts else sum(part for part in parts if part is not None)
        if self.arena is not None:
            return self.arena
        if self.activations is None or self.workspace is None or self.tail is None:
            return None
        return self.activations + self.workspace + self.tail


def size_of(path: Path, runtime: str = "tflm", *, timeout_s: float | None = None) -> ModelSize:
    """What a .tflite model takes in a runtime: with the plan in its file where the runtime runs it, else by itself.

    Args:
        path: the file.
        runtime: `tflm` or `litert`.
        timeout_s: seconds until each process that runs the model is ended; None for ten minutes.

    Raises:
        InvalidPlanError: the plan in the file, or the offsets beside it, are wrong. PlanFileError: it is damaged.
        MissingDependencyError, ModelError, RuntimeBindError: as the runtime does.
    """
    model = open_model(path)
    measured = _in_tflm if runtime == "tflm" else _in_litert
    return measured(path, model, timeout_s)


def size_data(size: ModelSize) -> dict[str, Any]:
    """The parts as plain data for JSON; `tensors`, `head` and `note` are older names that are kept."""
    known = size.activations is not None
    return {
        **asdict(size),
        "ram": size.ram,
        "tensors": size.activations,
        "head": (size.activations or 0) + (size.workspace or 0) if known and size.runtime == "tflm" else None,
        "note": size.reason,
    }


def check_size(size: ModelSize, budget: int | None) -> None:
    """Raise BudgetExceededError if the model needs more RAM than `budget` bytes, PlanError if that is not known."""
    if budget is None:
        return
    message = (
        "{required:,} bytes of RAM required, {available:,} available; the parts are above: plan the model, reorder it "
        "or make its input smaller"
    )
    if size.ram is not None:
        check_budget(size.ram, budget, message)
        return
    check_budget(size.activations or 0, budget, f"at least {message}")
    raise PlanError(f"whether the model needs more than {budget:,} bytes is not known: {size.reason}")


def _in_tflm(path: Path, model: TfliteModel, timeout_s: float | None) -> ModelSize:
    made = tflm.size_of(model, timeout_s=timeout_s)
    if made.origin is not None:
        plan = f"{made.origin.strategy}, plan of the {made.origin.of}, from the file"
    else:
        plan = f"TensorFlow Lite Micro's own{f' ({made.refusal})' if made.refusal else ''}"
    return ModelSize(
        "tflm",
        path.stat().st_size,
        model.weights(),
        activations=made.tensors,
        workspace=made.workspace,
        tail=made.tail,
        device_tail=made.device.tail,
        device_arena=made.device.total,
        own_head=made.own,
        arena=made.arena,
        planned=made.tensors if made.origin is not None else None,
        plan=plan,
        reason=made.reason,
    )


def _in_litert(path: Path, model: TfliteModel, timeout_s: float | None) -> ModelSize:
    probed = probe_apart(model.content(), model.inputs(), timeout_s)
    memory = litert_memory(model, probed.arena)
    return ModelSize(
        "litert",
        path.stat().st_size,
        model.weights(),
        activations=sum(t.size for t in probed.tensors if t.place == "arena"),
        workspace=sum(map(sum, probed.workspace)),
        arena=probed.arena,
        persistent=probed.kept,
        dynamic=probed.dynamic,
        planned=memory.planned if memory.mode == "planned" else None,
        plan=str(memory),
    )
