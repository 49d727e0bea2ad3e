"""What operators are known to do besides giving results."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from edgemem.torch.remat.effects import effect_of  # noqa: E402

aten = torch.ops.aten


@pytest.mark.parametrize(
    "func",
    [
        aten.view.default,
        aten.transpose.int,
        aten.split.Tensor,
        aten._unsafe_view.default,
        aten.detach.default,
        aten.transpose_.default,
    ],
)
def test_operators_that_only_name_memory_are_views(func: Any) -> None:
    assert effect_of(func).is_view


@pytest.mark.parametrize(
    "func",
    [aten.add.Tensor, aten.add_.Tensor, aten.resize_.default, aten.contiguous.default, aten.reshape.default],
)
def test_operators_that_may_read_or_move_memory_are_no_views(func: Any) -> None:
    assert not effect_of(func).is_view


def test_written_arguments_are_found_by_position_and_by_name() -> None:
    x, y = torch.zeros(2), torch.zeros(3)
    assert effect_of(aten.add_.Tensor).written((x, y), {}) == [x]
    assert effect_of(aten._foreach_add_.List).written(([x, y], [y, x]), {}) == [x, y]
    (written,) = effect_of(aten.add.out).written((x, x), {"out": y})
    assert written is y
    assert not effect_of(aten.add.Tensor).written((x, y), {})


def test_running_statistics_are_written_in_training_only() -> None:
    x, mean, var = torch.zeros(2, 3, 4, 4), torch.zeros(3), torch.ones(3)
    effect = effect_of(aten.native_batch_norm.default)
    assert effect.written_statistics((x, None, None, mean, var, True, 0.1, 1e-5), {}) == [mean, var]
    assert not effect.written_statistics((x, None, None, mean, var, False, 0.1, 1e-5), {})
    assert not effect.writes
    declared = effect_of(aten._native_batch_norm_legit.default)
    assert not declared.writes
    assert len(declared.statistics) == 2


def test_random_operators_and_those_of_other_libraries_are_known() -> None:
    assert effect_of(aten.bernoulli_.float).is_random
    assert not effect_of(aten.mul.Tensor).is_random
    assert effect_of(aten.bernoulli_.float).is_repeatable
    library = torch.library.Library("edgemem_test_effects", "DEF")
    library.define("counted(Tensor x) -> Tensor")
    assert not effect_of(torch.ops.edgemem_test_effects.counted.default).is_repeatable


def test_operators_whose_cost_grows_faster_than_their_results_are_expensive() -> None:
    assert all(effect_of(f).is_expensive for f in (aten.convolution.default, aten.mm.default, aten.addmm.default))
    assert not any(effect_of(f).is_expensive for f in (aten.relu.default, aten.add.Tensor, aten.cat.default))
