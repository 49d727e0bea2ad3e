"""What leaves edgemem as source code or numbers is proved first: firmware has no other check."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner, Result

import edgemem
from edgemem import planfile
from edgemem.cli.main import main
from tests.tflite_models import M, O, S, T, build

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.plans import PlanSet


def _edgemem(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def _onto_each_other(planset: PlanSet) -> PlanSet:
    """The plan set with all records at offset 0."""
    return replace(planset, offsets=tuple(replace(p, offsets=np.zeros_like(p.offsets)) for p in planset.offsets))


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    tensors = [T(f"t{k}", shape=(1, 4, 4, 8)) for k in range(4)]
    ops = [O("TANH", (k,), (k + 1,)) for k in range(2)] + [O("ADD", (1, 2), (3,), (11, (0,)))]
    path = tmp_path / "m.tflite"
    path.write_bytes(build(M([S(tensors, ops, (0,), (3,))])))
    edgemem.save(path, edgemem.plan(path), path)
    return path


@pytest.mark.parametrize("form", ["json", "csv", "c-header", "svg", "tflm-bufferplan", "tflm-metadata"])
def test_a_wrong_plan_is_not_exported(planned: Path, tmp_path: Path, form: str) -> None:
    output = tmp_path / "out"
    assert _edgemem("export", planned, "-f", form, "-o", output).exit_code == 0
    output.unlink()
    model = edgemem.load(planned)
    assert isinstance(model, edgemem.formats.Model)
    data = model.plan()
    assert data is not None
    wrong = _onto_each_other(planfile.decode(data))
    model.with_plan(planfile.encode(wrong), wrong).save(planned)
    result = _edgemem("export", planned, "-f", form, "-o", output)
    assert result.exit_code == 4
    assert "the plan is refused: " in result.output
    assert not output.exists()
    shown = _edgemem("show", planned)
    assert shown.exit_code == 4
    assert "'t1'" in shown.output


def test_wrong_offsets_without_a_plan_are_not_exported(planned: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.tflite"
    assert _edgemem("plan", planned, "-o", alone, "--offsets-only").exit_code == 0
    told = edgemem.api.offline_metadata(edgemem.load(alone))
    wrong = np.frombuffer(told, "<i4").copy()
    wrong[3:] = np.minimum(wrong[3:], 0)  # behind version, subgraph and count; -1 is no offset
    alone.write_bytes(alone.read_bytes().replace(told, wrong.tobytes()))
    for form in ("tflm-metadata", "c-header", "tflm-bufferplan"):
        assert _edgemem("export", alone, "-f", form).exit_code == 4


def test_a_wrong_plan_alone_is_not_exported(planned: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.edgemem"
    planfile.save(_onto_each_other(edgemem.plan(planned)), alone)
    assert _edgemem("export", alone, "-f", "c-header").exit_code == 4
