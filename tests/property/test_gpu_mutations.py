"""Plans for GPUs with one change, and figures that fit the change: refused, or harmless."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import edgemem
from edgemem.errors import EdgememError
from edgemem.records.problem import Problem
from edgemem.runtime.webgpu.executor import GpuExecutor
from edgemem.strategy.bounds import lower_bounds, naive_size
from tests.gpu_graphs import write_network
from tests.webgpu_adapters import need_adapter

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.plans import PlanSet

STRATEGIES = ("offsets/greedy_by_size", "shared_objects/greedy_by_size")
TARGETS = ("gpu-buffer", "gpu-texture", "gpu-texture-linear", "gpu-texture-array")
NETWORK, STEPS = 3, 8
CHANGES = 100


def area(size: Any) -> int:
    return int(np.prod(size))


def larger(one: Any, other: Any) -> Any:
    return max(one, other) if isinstance(one, int) else tuple(map(max, one, other))


def moved(planset: PlanSet, rng: np.random.Generator) -> PlanSet:
    """A tensor, or an object, in another place."""
    if planset.best_offsets is not None and (planset.best_shared_objects is None or rng.random() < 0.5):
        plan = planset.best_offsets
        offsets = plan.offsets.copy()
        unit = planset.target.alignment if planset.target else 256
        k = int(rng.integers(len(offsets)))
        offsets[k] = rng.choice([*offsets.tolist(), offsets[k] + unit, max(offsets[k] - unit, 0), 0])
        ends = [int(o) + area(r.size) for o, r in zip(offsets, planset.problem.records, strict=True)]
        return replace(planset, offsets=(replace(plan, offsets=offsets, size=max(ends)),), shared_objects=())
    objects = planset.best_shared_objects
    assert objects is not None
    assignment = objects.assignment.copy()
    k = int(rng.integers(len(assignment)))
    assignment[k] = rng.integers(len(objects.objects))
    sizes = list(objects.objects)
    if rng.random() < 0.5:  # the object grows as it must
        both = sizes[assignment[k]], planset.problem.records[k].size
        sizes[assignment[k]] = larger(*both)
    made = replace(objects, assignment=assignment, objects=tuple(sizes), size=sum(map(area, sizes)))
    return replace(planset, offsets=(), shared_objects=(made,))


def rewritten(planset: PlanSet, rng: np.random.Generator) -> PlanSet:
    """A record that is used for another time, is of another size, or has another tensor."""
    records = list(planset.problem.records)
    k = int(rng.integers(len(records)))
    record, last = records[k], len(planset.steps) - 1
    match int(rng.integers(5)):
        case 0:
            record = replace(record, last_op=max(record.first_op, record.last_op - 1))
        case 1:
            record = replace(record, first_op=min(record.last_op, record.first_op + 1))
        case 2:
            record = replace(record, first_op=max(0, record.first_op - 1), last_op=min(last, record.last_op + 1))
        case 3:
            smaller: Any = tuple(n - 1 for n in record.size) if isinstance(record.size, tuple) else 16
            record = replace(record, size=smaller)
        case _:
            record = replace(record, tensors=record.tensors[:-1] or records[k - 1].tensors)
    records[k] = record
    problem = Problem(records, alignment=planset.problem.alignment)
    planned = edgemem.plan(problem, strategy=STRATEGIES)
    return replace(
        planset,
        problem=problem,
        naive=naive_size(problem),
        bounds=lower_bounds(problem),
        offsets=planned.offsets if planset.offsets else (),
        shared_objects=planned.shared_objects if planset.shared_objects else (),
    )


def mutant(planset: PlanSet, seed: int) -> PlanSet | None:
    """None where the change makes no problem that can be planned."""
    rng = np.random.default_rng(seed)
    try:
        return (moved if rng.random() < 0.6 else rewritten)(planset, rng)
    except (EdgememError, ValueError):
        return None


def results(executor: GpuExecutor, feeds: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    with executor:
        return executor.run(None, feeds)


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS)
def test_changed_plans_are_refused_or_right(target: str, tmp_path: Path) -> None:
    adapter = need_adapter()
    path = write_network(NETWORK, tmp_path, STEPS)
    planset = edgemem.plan(path, target=target, strategy=STRATEGIES)
    with GpuExecutor(path, planset, adapter=adapter, sharing=False) as alone:
        (x,) = alone.get_inputs()
        shape: Any = x.shape
        feeds = {x.name: np.random.default_rng(0).normal(size=shape).astype(np.float32)}
        expected = alone.run(None, feeds)
    refused = ran = 0
    for seed in range(CHANGES):
        changed = mutant(planset, seed)
        if changed is None:
            continue
        try:
            executor = GpuExecutor(path, changed, adapter=adapter, poison=True)
        except EdgememError:
            refused += 1
            continue
        ran += 1
        for mine, right in zip(results(executor, feeds), expected, strict=True):
            np.testing.assert_array_equal(mine, right, err_msg=str(seed))
    assert refused > CHANGES // 4
    assert ran > 0
