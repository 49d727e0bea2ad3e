"""A package with ONNX Runtime, the app's code and our library as users get them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import onnx
import pytest
from click.testing import CliRunner, Result

from edgemem.cli.main import main
from edgemem.system.caches import cache_folder
from models.build import build
from tests.android.accepted import ANDROIDS, accepted
from tests.android.tools import need

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("cryptography")
pytest.importorskip("onnxruntime")


def edgemem(*args: object) -> Result:
    done = CliRunner().invoke(main, [str(a) for a in args])
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    path, output = tmp_path / "faces.onnx", tmp_path / "faces.planned.onnx"
    onnx.save(build("blazeface", size="small"), path)
    edgemem("plan", path, "--record", "--android", "-o", output)
    return output


def test_androids_own_tools_and_ours_accept_it(planned: Path, tmp_path: Path) -> None:
    folder = cache_folder("android")
    if folder is None or not any(folder.glob("onnxruntime-*/onnxruntime.aar")):
        pytest.skip("ONNX Runtime for Android was not downloaded: python android/fetch_aar.py")
    need(("javac", *ANDROIDS))
    path, again = tmp_path / "demo.apk", tmp_path / "again.apk"
    for output in (path, again):
        edgemem("android", "package", planned, "-o", output)
    assert path.read_bytes() == again.read_bytes()
    badging = accepted(path)
    assert "launchable-activity: name='ai.edgemem.demo.MainActivity'" in badging
    assert "native-code: 'arm64-v8a' 'x86_64'" in badging
    found = json.loads(edgemem("android", "verify", path, "--json").stdout)
    assert found["right"]
    assert found["abis"] == ["arm64-v8a", "x86_64"]
