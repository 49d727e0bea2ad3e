"""C source of a plan says for which kernels it is right, where results overlap inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.profiles import VERSIONS, kernel_versions
from edgemem.plans import OffsetPlan, PlanSet
from edgemem.records.lifetime import lifetimes
from edgemem.report.c_header import as_c_header, kernel_warning
from edgemem.report.firmware import Firmware, as_c_array
from edgemem.report.tflm_bufferplan import as_tflm_bufferplan
from edgemem.strategy.bounds import lower_bounds, naive_size
from edgemem.targets import BUILT_IN, Target

GRAPH = Graph(
    "g",
    tuple(Tensor(name, "int8", (4, 8)) for name in "xay"),
    (Op("r", "ABS", (0,), (1,)), Op("s", "SOFTMAX", (1,), (2,))),
    (0,),
    (2,),
    number=0,
)


def planned(target: Target) -> PlanSet:
    problem = lifetimes(GRAPH, target).problem
    offsets = np.arange(len(problem), dtype=np.int64) * 32
    plan = OffsetPlan("by_hand", {}, offsets, 32 * len(problem), optimal=False)
    versions = kernel_versions(target.kernels)
    return PlanSet(problem, naive_size(problem), lower_bounds(problem), (plan,), (), target, versions=versions)


@pytest.mark.parametrize("profile", ["tflm-reference", "cmsis-nn-dsp"])
def test_source_of_a_plan_with_overlaps_names_its_kernels(profile: str) -> None:
    planset = planned(replace(BUILT_IN["tflm"], kernels=profile))
    warning = kernel_warning(planset)
    assert warning.startswith("WARNING: ")
    assert f"kernels of the profile {profile} ({VERSIONS[profile]});" in warning
    sources = (
        as_c_header(planset, "model"),
        as_tflm_bufferplan(planset, "model", GRAPH),
        as_c_array([Firmware("model", b"TFL3", 64, "a plan", warning)]),
    )
    for source in sources:
        (line,) = [line for line in source.splitlines() if "WARNING" in line]
        assert line.startswith(("/* WARNING", "// WARNING"))
        assert profile in line
        assert VERSIONS[profile] in line
    assert f'#define MODEL_KERNELS "{profile} ({VERSIONS[profile]})"' in as_c_header(planset, "model")
    nameless = replace(planset, versions={})
    assert f"{profile} (of a version that the plan does not name)" in kernel_warning(nameless)


def test_other_plans_are_not_warned_about() -> None:
    planset = planned(BUILT_IN["tflm"])
    assert kernel_warning(planset) == ""
    assert "WARNING" not in as_c_header(planset, "model") + as_tflm_bufferplan(planset, "model", GRAPH)
    assert "WARNING" not in as_c_array([Firmware("model", b"TFL3", 64, "a plan")])
