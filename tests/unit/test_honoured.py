"""What a plan claims is set against what an executor honours: each claim beyond that is refused, in its own words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem.formats.claims import Honoured, Refusal, claim_refusal, kernels_refusal
from edgemem.plans import SharedObjectsPlan
from edgemem.targets import BUILT_IN, Region, Target
from tests.plansets import recorded
from tests.unit.test_rehearsal import CONVS, GOOD, by_hand, record

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

RULES = Target("test", alignment=64, aliasing="elementwise")
CPU = Honoured("--target test", frozenset({"none", "elementwise"}), alignment=64)
GPU = Honoured("--target gpu", frozenset({"gpu-views"}), storage="phwc4", objects=True, needs_target=True)
LITERT = Honoured("--target litert", frozenset({"litert"}), scratch=frozenset({"litert"}))
ROWS = [(GOOD[0][0], 0), (GOOD[1][0], 64)]
PLAN = by_hand(CONVS, RULES, ROWS)
RECORDED = recorded()  # of ONNX Runtime, with offsets of its own
JOINED = by_hand(CONVS, RULES, [(record("a", 0, 2, 16, "a", "b"), 0)])
OBJECTS = SharedObjectsPlan("hand", {}, np.array([0, 1]), (16, 16), 32, optimal=False)
TEXTURES = replace(PLAN, target=BUILT_IN["gpu-texture"], offsets=(), shared_objects=(OBJECTS,))


def of(planset: PlanSet = PLAN, **rules: Any) -> PlanSet:
    return replace(planset, target=replace(RULES, **rules))


@pytest.mark.parametrize(
    ("planset", "honoured"),
    [
        (PLAN, CPU),
        (replace(PLAN, target=None), CPU),
        (of(aliasing="none"), CPU),
        (of(scratch="tflm"), CPU),
        (
            of(aliasing="tflm", kernels="tflm-reference"),
            replace(CPU, aliasing_with_kernels=frozenset({"tflm"}), kernels=None),
        ),
        (of(aliasing="tflm"), replace(CPU, aliasing_with_kernels=frozenset({"tflm"}))),  # no two share a record
        (of(kernels="tflm-reference"), replace(CPU, kernels="tflm-reference")),
        (of(aliasing="litert", scratch="litert"), LITERT),
        (TEXTURES, GPU),
        (replace(PLAN, target=BUILT_IN["gpu-buffer"]), replace(GPU, aliasing=frozenset({"gpu"}))),
    ],
)
def test_what_is_honoured(planset: PlanSet, honoured: Honoured) -> None:
    assert claim_refusal(planset, honoured) is None


@pytest.mark.parametrize(
    ("planset", "honoured", "why", "remedy"),
    [
        (replace(PLAN, offsets=()), CPU, "the file has no offset plan of its graph", "--strategy auto"),
        (replace(TEXTURES, shared_objects=()), GPU, "the file has no plan of its graph", "--target gpu"),
        (RECORDED, CPU, "the file has no offset plan of its graph", "--strategy auto"),
        (replace(RECORDED, shared_objects=(OBJECTS,)), GPU, "the file has no plan of its graph", "--target gpu"),
        (TEXTURES, CPU, "the file has no offset plan of its graph, only shared objects", "--strategy auto"),
        (replace(PLAN, target=None), GPU, "the plan is for no target", "--target gpu"),
        (PLAN, GPU, "the plan is for the target test and keeps tensors as dense bytes", "--target gpu"),
        (
            replace(PLAN, target=BUILT_IN["gpu-buffer"]),
            CPU,
            "the plan is for the target gpu-buffer and keeps tensors in slices of four channels",
            "--target test",
        ),
        (of(texels=True), CPU, "the plan is for the target test and counts texels, not bytes", "--target test"),
        (
            of(scratch="litert"),
            CPU,
            "the plan is for the target test and has the workspace of other kernels",
            "--target test",
        ),
        (
            of(aliasing="litert"),
            LITERT,
            "the plan is for the target test and leaves out the workspace of its kernels",
            "--target litert",
        ),
        (of(aliasing="tflm"), CPU, "results lie on inputs by the alias rules 'tflm'", "--target test"),
        (
            of(JOINED, aliasing="tflm"),
            replace(CPU, aliasing_with_kernels=frozenset({"tflm"})),
            "results lie on inputs by the alias rules 'tflm'",
            "--target test",
        ),
        (PLAN, replace(CPU, alignment=128), "its offsets are multiples of 64 only", "--target test --alignment 128"),
        (
            of(kernels="cmsis-nn"),
            CPU,
            "the kernels of cmsis-nn allow, and the kernels here are others",
            "shrink --kernels none",
        ),
        (
            of(kernels="cmsis-nn"),
            replace(CPU, kernels="esp-nn"),
            "the kernels of cmsis-nn allow, and the kernels here are those of esp-nn",
            "shrink --kernels esp-nn",
        ),
    ],
)
def test_what_is_not(planset: PlanSet, honoured: Honoured, why: str, remedy: str) -> None:
    refusal = claim_refusal(planset, honoured)
    assert refusal is not None
    assert why in refusal.why
    assert refusal.why.endswith("only shared objects") is (planset is TEXTURES)
    assert refusal.remedy == remedy


def test_what_to_do() -> None:
    for remedy, command, advice in (
        ("--record", "plan --record", "plan with --record"),
        ("shrink --kernels none", "shrink --kernels none", "use edgemem shrink --kernels none"),
    ):
        refusal = Refusal("it cannot be", remedy)
        assert (refusal.command, refusal.advice) == (command, advice)
        assert str(refusal.error("x", Path("m.onnx"))).startswith(
            f"x cannot run the plan in m.onnx: it cannot be; make one with: edgemem {command} m.onnx -o PLANNED.onnx"
        )


def test_results_that_share_records_are_bounded_by_kernels() -> None:
    honoured = replace(CPU, aliasing_with_kernels=frozenset({"tflm"}), kernels=None)
    assert claim_refusal(of(JOINED, aliasing="tflm", kernels="tflm-reference"), honoured) is None


def test_an_arena_is_no_larger_than_its_records_and_some_holes() -> None:
    """Of 64 MiB, or of the alignment beyond the records end to end."""
    for size, is_right in ((1 << 26, True), ((1 << 26) + 64, False)):
        plan = replace(PLAN.offsets[0], size=size)
        refusal = claim_refusal(replace(PLAN, offsets=(plan,)), CPU)
        assert (refusal is None) is is_right
        if refusal is not None:
            assert refusal.why == f"the plan takes {size:,} bytes, and its records end to end {PLAN.naive:,}"
    large = replace(PLAN, naive=1 << 28)
    for size, is_right in (((1 << 28) + 64, True), ((1 << 28) + 128, False)):
        plan = replace(PLAN.offsets[0], size=size)
        assert (claim_refusal(replace(large, offsets=(plan,)), CPU) is None) is is_right


def test_several_regions_are_no_arena() -> None:
    target = replace(RULES, regions=(Region("fast", 64), Region("slow")))
    plan = replace(PLAN.offsets[0], regions=np.array([0, 1]), region_sizes=(16, 16), offsets=np.array([0, 0]), size=32)
    refusal = claim_refusal(replace(PLAN, target=target, offsets=(plan,)), CPU)
    assert refusal is not None
    assert "lies in several regions" in refusal.why


def test_kernels_are_compared_by_name() -> None:
    for made_for, here, is_right in (("none", "esp-nn", True), ("esp-nn", "esp-nn", True), ("esp-nn", "none", False)):
        assert (kernels_refusal(of(kernels=made_for), here) is None) is is_right
    assert kernels_refusal(replace(PLAN, target=None)) is None
