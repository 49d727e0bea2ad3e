"""A skip that is not on the list fails in CI, alone and with worker processes, in a test and in a whole module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.data import shared_file
from tests.skips import allowed

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

def test_known():
    pytest.skip("no /proc here")

def test_offline():
    pytest.skip("tiny==1 was not downloaded; check the network")

def test_unknown():
    pytest.skip("out of sorts")

@pytest.mark.skipif(True, reason="a mark of its own")
def test_marked():
    raise AssertionError

@pytest.mark.xfail(strict=True)
def test_known_to_fail():
    raise AssertionError
"""
MODULE = "import pytest\npytest.skip('the whole module', allow_module_level=True)\n"


def suite(folder: Path, *options: str, **env: str) -> tuple[int, str]:
    """Exit status and output of a run over the tests above."""
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "pytest.ini").write_text("[pytest]\n")
    quiet = {k: v for k, v in os.environ.items() if k not in {"CI", "EDGEMEM_STRICT_SKIPS", "PYTEST_ADDOPTS"}}
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", *options]
    run = subprocess.run(command, cwd=folder, env=quiet | env, capture_output=True, text=True, check=False)
    return run.returncode, run.stdout + run.stderr


@pytest.mark.full
@pytest.mark.parametrize(("how", "workers"), [("--strict-skips", "2"), ("CI", "0"), ("EDGEMEM_STRICT_SKIPS", "0")])
def test_in_ci_a_skip_that_is_not_on_the_list_fails(how: str, workers: str, tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    options, env = ([how], {}) if how.startswith("-") else ([], {how: "1"})
    code, said = suite(tmp_path, "-n", workers, *options, **env)
    assert code == 1
    assert "2 failed, 1 skipped, 1 xfailed, 1 error" in said
    for reason in ("out of sorts", "a mark of its own", "tiny==1 was not downloaded"):
        assert f"skipped: {reason}" in said
    assert "No entry of tests/skips.py" in said


def test_elsewhere_it_is_listed(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    code, said = suite(tmp_path, "-n", "2")
    assert code == 0
    listed = said.partition("skips that tests/skips.py does not allow")[2]
    assert "out of sorts" in listed.partition("short test summary")[0]
    assert "tiny==1" not in listed.partition("short test summary")[0]


@pytest.mark.full
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_module_that_is_left_out_fails_too(workers: str, tmp_path: Path) -> None:
    (tmp_path / "test_module.py").write_text(MODULE)
    code, said = suite(tmp_path, "-n", workers, "--strict-skips")
    assert code in {1, 2}
    assert "skipped: the whole module" in said


def test_what_ci_has_it_does_not_miss() -> None:
    missing = "could not import 'onnxruntime': No module named 'onnxruntime'"
    assert allowed(missing, in_ci=False)
    assert not allowed(missing, in_ci=True)
    assert not allowed("checksum of a in tiny==1 is 00, not 11", in_ci=False)


def test_data_of_others_may_be_absent_but_not_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEMEM_SHARED", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=r"no instances/mm_A\.csv in") as skipped:
        shared_file("instances/mm_A.csv")
    assert allowed(str(skipped.value), in_ci=True)
    (tmp_path / "data" / "instances").mkdir(parents=True)
    (tmp_path / "data" / "instances" / "mm_A.csv").write_text("id,lower,upper,size\n")
    with pytest.raises(pytest.fail.Exception, match=r"not the one in tests/shared\.sha256"):
        shared_file("instances/mm_A.csv")
