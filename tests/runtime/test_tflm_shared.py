"""Several models in one arena: what it takes is what is predicted, and each gives its outputs in any order of runs."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from edgemem import api
from edgemem.records.micro_arena import MicroModel, shared_arena
from edgemem.records.micro_builds import INSTALLED, build_of
from edgemem.runtime.tflm.execution import execute, input_values
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from models.fetch import FetchError
from tests.runtime.micro_models import MICRO_MODELS
from tests.runtime.test_cli_tflite import edgemem
from tests.tflite_models import M, O, S, T, build

pytest.importorskip("tflite_micro")

ROOT: Final = Path(__file__).parents[2]
POISON: Final = 0xA5
# Bytes in use with 32-bit pointers: tflite-micro 90b983c2b3f1 with reference kernels, built by GCC 12 for
# arm-linux-gnueabihf and run in qemu-arm on 2026-11-26. In arenas 16 bytes smaller than predicted they did not run.
DEVICE: Final = {
    ("mean of all pixels of int8", "mean"): 1_624,
    ("mean of all pixels of int8", "anomaly detection"): 4_808,
    ("person detection", "keyword spotting"): 107_116,
    ("keyword spotting", "person detection", "mean"): 107_352,
}


def model_of(name: str, *, is_planned: bool = False) -> TfliteConverter:
    try:
        model = TfliteConverter.from_bytes(MICRO_MODELS[name]())
    except FetchError as e:
        pytest.skip(str(e))
    return model.with_plan(b"", api.plan(model, target="tflm", effort="fast")) if is_planned else model


def run_shared(models: list[TfliteConverter], arena: int, steps: list[Any], folder: Path) -> dict[str, Any] | None:
    """What the steps of `tests.runtime.micro_shared` gave; None if the arena is too small."""
    paths = [folder / f"{k}.tflite" for k in range(len(models))]
    for path, model in zip(paths, models, strict=True):
        model.save(path)
    job = {"models": [str(path) for path in paths], "arena": arena, "steps": steps, "fill": POISON}
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.micro_shared", json.dumps(job)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if "the arena is too small" in done.stderr:
        return None
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def predicted(models: list[TfliteConverter]) -> Any:
    return shared_arena([MicroModel(model.graph(), model.offline()) for model in models], INSTALLED)


def digests_alone(model: TfliteConverter, seeds: list[int]) -> list[str]:
    """Of runs in an arena of its own, one after the other."""
    first, *rest = (input_values(model.graph(), seed=seed) for seed in seeds)
    ran = execute(model.content(), first, then=rest, outputs=len(model.graph().outputs))
    return [hashlib.sha256(b"".join(o.tobytes() for o in outputs)).hexdigest() for outputs in ran.each]


def check_shared(models: list[TfliteConverter], order: list[int], folder: Path) -> None:
    """In the predicted arena: its parts, and the outputs of runs in the order given. 16 bytes less are too few."""
    arena = predicted(models)
    steps = [(number, order[:k].count(number)) for k, number in enumerate(order)]
    ran = run_shared(models, arena.total, steps, folder)
    assert ran is not None
    assert (ran["head"], ran["tail"]) == (arena.head.total, arena.tail)
    for number in set(order):
        own = [digest for digest, (k, _) in zip(ran["digests"], steps, strict=True) if k == number]
        assert own == digests_alone(models[number], [seed for k, seed in steps if k == number])
    assert run_shared(models, arena.total - 16, [], folder) is None


def test_two_models(tmp_path: Path) -> None:
    check_shared([model_of(name) for name in ("mean", "if_in_while0")], [0, 1, 1, 0, 0, 1], tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("names", [("keyword spotting", "mean"), ("mean", "keyword spotting")], ids=" ".join)
def test_the_larger_head_first_or_last(names: tuple[str, ...], tmp_path: Path) -> None:
    check_shared([model_of(name, is_planned=True) for name in names], [0, 1, 1, 0, 0, 1], tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("is_planned", [False, True], ids=["as they are", "planned"])
@pytest.mark.parametrize("seed", range(8))
def test_three_models(seed: int, tmp_path: Path, *, is_planned: bool) -> None:
    """Wake words have resource variables, the LSTM variables: both keep their values while others run."""
    rng = random.Random(seed)
    names = rng.sample(sorted(MICRO_MODELS), 2) + rng.sample(("mww_alexa", "mww_okay_nabu", "lstm"), 1)
    rng.shuffle(names)
    models = [model_of(name, is_planned=is_planned) for name in names]
    order = [0, 1, 2] * 3
    rng.shuffle(order)
    check_shared(models, order, tmp_path)


@pytest.mark.parametrize("names", DEVICE, ids=", ".join)
def test_the_arena_on_a_device(names: tuple[str, ...]) -> None:
    models = [model_of(name) for name in names]
    arena = shared_arena([MicroModel(m.graph(), m.offline()) for m in models], build_of(BUILT_IN["tflm"]))
    assert arena.head.total + arena.tail == DEVICE[names]


def negated(size: int) -> TfliteConverter:
    """x -> NEG -> a -> ABS -> y, where the input is not where the output is."""
    tensors = [T(name, shape=(1, size)) for name in "xay"]
    return TfliteConverter.from_bytes(build(M([S(tensors, [O("NEG", (0,), (1,)), O("ABS", (1,), (2,))], (0,), (2,))])))


def test_the_output_of_one_is_moved_to_the_input_of_the_next(tmp_path: Path) -> None:
    """A pipeline needs no arena of its own for either model."""
    models = [negated(64), negated(64)]
    arena = predicted(models)
    ran = run_shared(models, arena.total, [(0, 3), (1, "output"), (0, "output")], tmp_path)
    (x,) = input_values(models[0].graph(), seed=3)
    expected = hashlib.sha256(np.abs(x).tobytes()).hexdigest()
    assert ran is not None
    assert ran["digests"] == [expected] * 3


def test_size_and_export_say_what_is_needed(tmp_path: Path) -> None:
    paths = []
    models = [model_of(name, is_planned=True) for name in ("mean", "sum")]
    for k, model in enumerate(models):
        paths.append(tmp_path / f"m{k}.tflite")
        api.save(model, api.plan(model, target="tflm", effort="fast"), paths[-1])
    made = json.loads(edgemem("size", *paths, "--share", "sequential", "--json").stdout)
    apart = json.loads(edgemem("size", *paths, "--share", "interleaved", "--json").stdout)
    alone = [shared_arena([MicroModel(m.graph(), m.offline())], build_of(BUILT_IN["tflm"])).total for m in models]
    assert made["computer"] == predicted(models).total
    assert made["head"] == max(each["head"] for each in made["models"])
    assert apart["arena"] == sum(alone) > made["arena"]
    for budget, code in ((made["arena"], 0), (made["arena"] - 1, 3)):
        assert edgemem("size", *paths, "--share", "sequential", "--budget", str(budget)).exit_code == code
    assert edgemem("size", *paths).exit_code == 2
    assert edgemem("size", paths[0], "--share", "sequential").exit_code == 2
    header = tmp_path / "both.h"
    assert edgemem("export", *paths, "-f", "c-array", "-o", header).exit_code == 0
    assert f"#define BOTH_TENSOR_ARENA_SIZE {predicted(models).total}\n" in header.read_text()
    assert edgemem("export", *paths, "-f", "esphome", "-o", tmp_path / "out").exit_code == 2
    assert edgemem("export", paths[0], paths[0], "-f", "c-array").exit_code == 1
