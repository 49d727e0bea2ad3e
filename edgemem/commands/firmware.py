"""A planned .tflite file for firmware: what its sources need to know, in part from a run on this computer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgemem.errors import EdgememError, ModelError, NoPlanError, UnsupportedError
from edgemem.model.profiles import PROFILES
from edgemem.model.resource_variables import all_operators, variables_of
from edgemem.planning.micro_regions import memories_of
from edgemem.records.micro_arena import predicted_arena, shared_arena
from edgemem.records.micro_builds import INSTALLED, build_of
from edgemem.records.micro_custom import is_counted
from edgemem.report.c_header import kernel_warning
from edgemem.report.firmware import Firmware, SelfTest, common_name
from edgemem.runtime.tflite_file import open_model
from edgemem.runtime.tflm.file_plan import file_plan
from edgemem.runtime.tflm.operators import resolver_calls
from edgemem.runtime.tflm.self_test import kind_of, self_test_run
from edgemem.runtime.tflm.size import planned_micro, size_of
from edgemem.system.text import join_names
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.model.graph import Graph

__all__ = ["firmware_of"]


def firmware_of(paths: Sequence[Path], name: str) -> tuple[Firmware, ...]:
    """The models with their offsets, and without the plans that nothing on the device reads.

    Several models have one arena, for interpreters with one `MicroAllocator` that run one after the other.

    Args:
        paths: of .tflite files planned for TensorFlow Lite Micro, in the order in which their tensors are allocated.
        name: of the arena of several.

    Raises ModelError for two files of one name, UnsupportedError for a plan in regions beside other models, and
    otherwise as `_firmware`.
    """
    models = [_firmware(path) for path in paths]
    if len(models) == 1:
        return tuple(models)
    common = common_name(models)
    if common:
        raise ModelError(f"the sources of two of the models would both have the name {common!r}: rename a file")
    apart = next((path.name for path, model in zip(paths, models, strict=True) if model.places), None)
    if apart is not None:
        raise UnsupportedError(f"{apart} is planned for a target with regions; models that share an arena have none")
    together = shared_arena([planned_micro(open_model(path), None)[1] for path in paths], INSTALLED).total
    arena = max(together, *(model.arena for model in models))
    device = build_of(BUILT_IN["tflm"])
    micros = [planned_micro(open_model(path), None)[1] for path in paths]

    def shared(kernels: str) -> int:
        """With 32-bit pointers; models whose plans are for no kernels run with these."""
        named = (replace(micro, kernels=kernels) if micro.kernels == "none" else micro for micro in micros)
        return shared_arena(list(named), device).total

    by_kernels = {name: shared(name) for name in PROFILES if any(model.by_kernels for model in models)}
    names = join_names([path.name for path in paths])
    return tuple(
        replace(
            model,
            arena=arena,
            device=shared("none"),
            by_kernels=by_kernels,
            shared_arena=name,
            about=f"{model.about}; here one arena of {arena}, predicted, for {names}, allocated in this order",
        )
        for model in models
    )


def _firmware(path: Path) -> Firmware:
    """The model with its offsets, and without the plan that nothing on the device reads.

    Where tflite-micro is not installed, the arena is as predicted, and there is no self-test.

    Args:
        path: a .tflite file planned for TensorFlow Lite Micro.

    Raises:
        NoPlanError: the file has no plan. InvalidPlanError: the plan or its offsets are wrong.
        RuntimeBindError: the plan is not one for TensorFlow Lite Micro.
    """
    model = open_model(path)
    plan = file_plan(model, kernels=None)
    if plan.refusal is not None:
        raise plan.refusal.error("tflm", path)
    if plan.planset is None:
        raise NoPlanError(f"{path.name} carries no plan; make one with: edgemem plan {path.name} -o PLANNED.tflite")
    size, graph = size_of(model, kernels=None), model.graph()
    target = plan.planset.target
    predicted = predicted_arena(
        graph, model.offline(), replace(INSTALLED, kernels=target.kernels if target else "none")
    )
    tail = predicted.tail if size.tail is None else size.tail
    # The kernels of the plan may ask for more workspace than the reference ones that were measured.
    needed = predicted.head.total + predicted.tail
    arena = max(needed, size.arena or max(predicted.total, size.head + tail))
    found = "measured on this computer" if arena == size.arena else "predicted"
    assert size.origin is not None
    about = (
        f"{path.name}, planned by {size.origin.strategy}: {size.head} bytes of head ({size.tensors} of activations, "
        f"{size.workspace} of workspace; {size.own} without the plan) and {tail} of tail in an arena of {arena}, "
        f"{found}; with 32-bit pointers {size.device.tail} of tail and {size.device.total} in all, predicted for "
        f"{plan.planset.kernels or 'reference kernels'}"
    )
    memories = memories_of(plan.planset, graph)
    places: tuple[str, ...] = ()
    if memories is not None and target is not None:
        arena = memories.sizes.one if memories.is_one else memories.sizes.head
        places = (target.regions[memories.head].name, target.regions[memories.tail].name)[: 1 if memories.is_one else 2]
        both = f"{arena} bytes of arena" if memories.is_one else f"{arena} bytes of head, {memories.sizes.tail} of tail"
        about = (
            f"{path.name}, planned by {size.origin.strategy} for {' and '.join(places)}: {both}, predicted for a "
            f"device with {8 * target.pointer_bytes}-bit pointers and {plan.planset.kernels or 'reference kernels'}"
        )
    device = build_of(target or BUILT_IN["tflm"])
    others = {name: replace(device, kernels=name) for name in PROFILES} if device.kernels == "none" else {}
    is_known = all(is_counted(op.type) for _, op in all_operators(graph))
    content = (model if model.plan() is None else model.with_offsets(plan.planset)).content()
    calls = resolver_calls(graph)
    return Firmware(
        path.name.split(".")[0],
        content,
        arena,
        about,
        kernel_warning(plan.planset),
        plan.planset.kernels,
        tuple(sorted(call for call in calls.values() if call)),
        tuple(sorted(kind for kind, call in calls.items() if not call)),
        variables_of(all_operators(graph)),
        _self_test(content, graph),
        places=places,
        device=0 if places or not is_known else predicted_arena(graph, model.offline(), device).total,
        by_kernels={name: predicted_arena(graph, model.offline(), other).total for name, other in others.items()},
        persistent=memories.sizes.tail if memories is not None and not memories.is_one else 0,
    )


def _self_test(content: bytes, graph: Graph) -> SelfTest | None:
    try:
        kinds = tuple(kind_of(graph.tensors[i].dtype) for i in graph.inputs)
        seed, digest, is_blind = self_test_run(content, graph)
        return SelfTest(kinds, digest, seed, is_blind)
    except (EdgememError, TypeError):  # it does not run here, or has inputs of another kind
        return None
