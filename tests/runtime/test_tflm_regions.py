"""TensorFlow Lite Micro on a board with several memories: capacities count all of the arena, and sources have two."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from edgemem import api, planfile
from edgemem.commands.firmware import firmware_of
from edgemem.errors import BudgetExceededError, UnsupportedError
from edgemem.planning.micro_arenas import micro_arenas
from edgemem.records.micro_builds import build_of
from edgemem.records.micro_memories import micro_sizes
from edgemem.targets import BUILT_IN, Region
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.micro_models import MICRO_MODELS
from tests.runtime.test_cli_tflite import edgemem
from tests.runtime.test_firmware import compile_all

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.targets import Target


def model() -> TfliteConverter:
    return TfliteConverter.from_bytes(MICRO_MODELS["mean"]())


def board(*regions: Region) -> Target:
    return replace(BUILT_IN["tflm"], name="board", regions=regions)


def test_a_capacity_is_for_head_and_tail() -> None:
    arenas = micro_arenas(model(), api.plan(model()))
    assert arenas is not None
    total = arenas.planned.total
    assert arenas.planned.head.total < total - 1
    assert api.plan(model(), target=board(Region("sram", total))).best_offsets is not None
    with pytest.raises(BudgetExceededError, match=rf"{total:,} bytes required \(head .*in region 'sram'") as found:
        api.plan(model(), target=board(Region("sram", total - 1)))
    assert (found.value.required, found.value.available) == (total, total - 1)


def test_head_and_tail_go_where_they_fit_and_sources_have_both(tmp_path: Path) -> None:
    plain = api.plan(model())
    graph = model().graph()
    one = micro_sizes(graph, {}, build_of(BUILT_IN["tflm"]))
    assert one.tail < one.one
    target = board(Region("dtcm", one.head), Region("psram ram", cost=12))
    planset = api.plan(model(), target=target, effort="fast")
    best, alone = planset.best_offsets, plain.best_offsets
    assert best is not None
    assert alone is not None
    assert best.size == alone.size
    arenas = micro_arenas(model(), planset)
    assert arenas is not None
    assert arenas.memories is not None
    assert (arenas.memories.head, arenas.memories.tail) == (0, 1)
    assert "(tail) in psram ram: " in str(arenas)
    path, out = tmp_path / "m.tflite", tmp_path / "m.c"
    model().with_plan(planfile.encode(planset), planset).save(path)
    assert api.verify(path) == ()
    done = edgemem("export", "-f", "c-array", path, "-o", out)
    assert done.exit_code == 0, done.output
    text = out.read_text()
    sizes = arenas.memories.sizes
    assert f"#define M_TENSOR_ARENA_SIZE {sizes.head}\n" in text
    assert f"#define M_PERSISTENT_ARENA_SIZE {sizes.tail}\n" in text
    refused = edgemem("export", "-f", "esphome", path, "-o", tmp_path / "esphome")
    assert refused.exit_code != 0
    assert "one arena" in refused.output
    compile_all(out)


@pytest.mark.full
@pytest.mark.parametrize("tail_apart", [False, True])
def test_models_that_share_an_arena_have_no_regions(tail_apart: bool, tmp_path: Path) -> None:
    sizes = micro_sizes(model().graph(), {}, build_of(BUILT_IN["tflm"]))
    target = board(Region("dtcm", sizes.head if tail_apart else None), Region("psram", cost=12))
    paths = []
    for name, rules in (("plain", BUILT_IN["tflm"]), ("apart", target)):
        planset = api.plan(model(), target=rules, effort="fast")
        paths.append(tmp_path / f"{name}.tflite")
        model().with_plan(planfile.encode(planset), planset).save(paths[-1])
    assert [bool(firmware.persistent) for path in paths for firmware in firmware_of([path], "")] == [False, tail_apart]
    for several in (paths, paths[::-1]):
        with pytest.raises(UnsupportedError, match=r"apart\.tflite is planned for a target with regions"):
            firmware_of(several, "both")
    done = edgemem("export", "-f", "c-array", *paths, "-o", tmp_path / "both.c")
    assert (done.exit_code, (tmp_path / "both.c").exists()) == (1, False), done.output


def test_the_head_may_be_in_the_second_region() -> None:
    target = board(Region("dtcm", 64), Region("psram", cost=12))
    planset = api.plan(model(), target=target, effort="fast")
    best = planset.best_offsets
    assert best is not None
    assert best.regions is not None
    assert set(best.regions.tolist()) == {1}
    assert not planset.has_regions
    assert model().with_plan(planfile.encode(planset), planset).offline()


def test_what_no_memory_holds_names_the_largest_tensor_and_the_regions() -> None:
    with pytest.raises(BudgetExceededError, match=r"largest tensor '.*dtcm has 64, psram has 65"):
        api.plan(model(), target=board(Region("dtcm", 64), Region("psram", 65)))
