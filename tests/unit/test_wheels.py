"""The script that builds wheels: names of platforms, and what it refuses."""

from __future__ import annotations

import re
import sysconfig
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import loaded_script
from tests.skips import needs_checkout

pytestmark = needs_checkout

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "wheels.py"
GOOD = ("edgemem/__init__.py", "edgemem/_arena.so", "edgemem/_kernels.abi3.so")


@pytest.fixture(scope="module")
def wheels() -> Any:
    return loaded_script(SCRIPT)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("manylinux_2_28_x86_64", "x86_64-linux-gnu.2.28"),
        ("manylinux_2_28_aarch64", "aarch64-linux-gnu.2.28"),
        ("musllinux_1_2_x86_64", "x86_64-linux-musl"),
        ("musllinux_1_2_aarch64", "aarch64-linux-musl"),
    ],
)
def test_zig_compiles_for_the_c_library_of_the_platform(wheels: Any, name: str, target: str) -> None:
    assert name in wheels.PLATFORMS
    assert wheels.zig_target(name) == target


def test_an_unknown_platform_is_refused(wheels: Any) -> None:
    with pytest.raises(SystemExit, match="win_amd64"):
        wheels.zig_target("win_amd64")


def test_a_module_is_named_as_this_python_names_it(wheels: Any) -> None:
    *_, machine, _, libc = str(sysconfig.get_config_var("SOABI")).split("-")
    name = f"{'manylinux_2_28' if libc == 'gnu' else 'musllinux_1_2'}_{machine}"
    version = str(sysconfig.get_config_var("VERSION"))
    assert wheels.extension_suffix(version, name) == sysconfig.get_config_var("EXT_SUFFIX")
    assert wheels.extension_suffix("3.11", "musllinux_1_2_aarch64") == ".cpython-311-aarch64-linux-musl.so"


@pytest.mark.parametrize("told", ["4 4 4 0 3.11", "8 8 4 1 3.11", "8 4 2 None 3.11"])
def test_headers_of_another_kind_of_machine_are_refused(wheels: Any, told: str) -> None:
    assert wheels.check_headers("8 8 4 0 3.12") == "3.12"
    with pytest.raises(SystemExit, match=r"3\.11"):
        wheels.check_headers(told)


@pytest.mark.parametrize(
    ("tag", "right"),
    [
        ("manylinux_2_17_aarch64", True),
        ("manylinux_2_28_aarch64", True),
        ("manylinux_2_31_aarch64", False),
        ("manylinux_2_17_x86_64", False),
        ("musllinux_1_2_aarch64", False),
        ("linux_aarch64", False),
    ],
)
def test_a_wheel_that_needs_a_newer_or_another_system_is_refused(wheels: Any, tag: str, right: bool) -> None:
    told = f'edgemem.whl\nis consistent with the following platform tag:\n"{tag}".\n'
    if right:
        wheels.check_policy(told, "manylinux_2_28_aarch64")
        return
    with pytest.raises(SystemExit, match="not fit for manylinux_2_28_aarch64"):
        wheels.check_policy(told, "manylinux_2_28_aarch64")


@pytest.mark.parametrize("extra", ["edgemem_planner.libs/libstdc++.so.6", "edgemem/android.so"])
def test_a_wheel_has_our_two_compiled_files_alone(wheels: Any, extra: str, tmp_path: Path) -> None:
    wheel = tmp_path / "edgemem.whl"
    with pytest.raises(SystemExit, match="names no ABI"):
        wheels.check_content(Path(__file__).with_name("edgemem-1-cp311-none-linux_x86_64.whl"))
    for names, right in ((GOOD, True), (GOOD[:2], False), ((*GOOD, extra), False)):
        with zipfile.ZipFile(wheel, "w") as archive:
            for name in names:
                archive.writestr(name, b"")
        if right:
            wheels.check_content(wheel)
            continue
        with pytest.raises(SystemExit, match="compiled files"):
            wheels.check_content(wheel)


def test_a_wheel_has_six_mebibytes_at_most(wheels: Any, tmp_path: Path) -> None:
    wheel = tmp_path / "edgemem.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in GOOD:
            archive.writestr(name, b"")
        archive.writestr("edgemem/large", bytes(6 << 20))
    with pytest.raises(SystemExit, match="bytes"):
        wheels.check_content(wheel)


def test_one_wheel_serves_python_from_the_first_with_the_stable_abi_of_nanobind() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert project["scikit-build"]["wheel"]["py-api"] == "cp312"


def test_hosted_ci_builds_the_same_wheels_and_tests_them_on_every_python(wheels: Any) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hosted = project["tool"]["cibuildwheel"]
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(project["project"]["classifiers"]))
    assert [name.removesuffix("-*") for name in hosted["build"]] == [f"cp{p.replace('.', '')}" for p in pythons]
    images = [(image, key.split("-")[1]) for key, image in hosted["linux"].items() if key.endswith("-image")]
    assert {f"{image}_{machine}" for image, machine in images} == {*wheels.PLATFORMS}
    assert {*hosted["test-extras"]} <= project["project"]["optional-dependencies"].keys()
    named = [*hosted["test-sources"], *(word for word in hosted["test-command"].split() if word.startswith("tests/"))]
    assert [name for name in named if not (ROOT / name).exists()] == []
