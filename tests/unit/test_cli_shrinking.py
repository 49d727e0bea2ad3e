"""Options of `edgemem plan` that go below the classical bound: what they refuse, and what is said of their price."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from edgemem.cli.main import main
from edgemem.commands.changed_model import change_model
from edgemem.commands.cost import price_of
from edgemem.formats import Model
from edgemem.targets import BUILT_IN
from models.build import build
from models.fetch import FetchError, fetch
from models.tflite_networks import mobilenet_v2

if TYPE_CHECKING:
    from pathlib import Path


def edgemem(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "m.tflite"
    path.write_bytes(mobilenet_v2(alpha=0.3, size=80, int8=True, classes=2))
    return path


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--stream", "0:3:3", "--max-ops", "7"), "--max-ops limits stages that --stream chooses itself"),
        (("--stream", "0:3:3", "--max-file-growth", "1"), "--max-file-growth limits stages"),
        (("--tile", "0:3:2x1", "--max-macs", "1.1"), "--max-macs limits stages that --tile chooses itself"),
        (("--max-macs", "1.1"), "--max-macs is a limit of --tile or --recompute, which is not given"),
        (("--stream", "auto", "--max-file-growth", "nan"), "nan is no ratio"),
        (("--tile", "auto", "--max-macs", "inf"), "inf is no ratio"),
    ],
)
def test_limits_that_would_have_no_effect(model: Path, options: tuple[str, ...], told: str) -> None:
    done = edgemem("plan", model, *options)
    assert done.exit_code == 2
    assert told in " ".join(done.output.split())


def test_no_stages_at_all_are_refused(model: Path) -> None:
    done = edgemem("plan", model, "--stream", "")
    assert done.exit_code == 1
    assert "a stage is FIRST:LAST:STRIPES" in done.output


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (("--budget", "1MiB"), "the plan fits the budget as it is"),
        (("--max-ops", "64"), "no stages take less memory"),
    ],
)
def test_a_change_that_was_not_made_is_told(model: Path, limits: tuple[str, ...], why: str) -> None:
    done = edgemem("plan", model, "--stream", "auto", *limits)
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == f"--stream auto changed nothing: {why}"
    assert "price" not in done.output


@pytest.mark.full
def test_the_price_has_the_tail_of_micro(model: Path) -> None:
    stages = ("--overlap", "tflm-reference", "--stream", "0:5:4", "--effort", "fast")
    table = edgemem("plan", model, "-t", "tflm", *stages)
    assert table.exit_code == 0, table.output
    assert "side by side; they overlap in the plan" in table.output
    price = json.loads(edgemem("plan", model, "-t", "tflm", *stages, "--json").output)["price"]
    before, after = price["tail"]["before"], price["tail"]["after"]
    assert before < after
    assert any(
        line.split()[:4] == ["tail", "(predicted)", f"{before:,}", f"{after:,}"] for line in table.output.splitlines()
    )


@pytest.mark.full
def test_the_price_is_of_the_file_that_was_given(tmp_path: Path) -> None:
    """Not of the folded one, whose constants are stored plain and take twice the bytes."""
    try:
        path = fetch("mp_face_detection_short")
    except FetchError as e:
        pytest.skip(f"no mp_face_detection_short: {e}")
    prepared = change_model(path, tmp_path, {"fold": {}, "stream": {"stages": "0:5:2"}}, target="tflm")
    assert isinstance(prepared.model, Model)
    assert prepared.given is not None
    price = price_of(prepared.given, prepared.model, BUILT_IN["tflm"], path)
    assert price.file[0] == path.stat().st_size
    assert price.file[1] > 1.8 * price.file[0]


def test_a_profile_is_of_tflite_files_and_the_model_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(build("blazeface", size="small").SerializeToString())
    before = path.read_bytes()
    assert "leave --overlap out" in edgemem("plan", path, "--overlap", "tflm-reference").output
    assert "write it into another file" in edgemem("plan", path, "--tile", "auto", "-o", path).output
    assert path.read_bytes() == before


@pytest.mark.full
def test_a_budget_that_tiles_cannot_meet_is_approached(tmp_path: Path) -> None:
    """The error says how far the best tiles come, and the arena of a session counts, too."""
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    path.write_bytes(build("mobilenet_v2", size="small").SerializeToString())
    least = json.loads(edgemem("plan", path, "--tile", "auto", "--json").output)["plans"][0]["size"]
    refused = edgemem("plan", path, "--tile", "auto", "--budget", "1KiB")
    assert refused.exit_code == 3
    assert int(refused.output.split()[1].replace(",", "")) <= 1.05 * least
    fits = edgemem("plan", path, "--tile", "auto", "--budget", str(2 * least), "-o", out)
    assert fits.exit_code == 0, fits.output
    out.unlink()
    recorded = edgemem("plan", path, "--budget", str(least + 64), "--tile", "auto", "--record", "-o", out)
    assert recorded.exit_code == 3 or "recorded arena" in recorded.output
    assert out.exists() == (recorded.exit_code == 0)
