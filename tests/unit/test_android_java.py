"""The library for Android in Java, on the JVM: what it does over a stand-in of ONNX Runtime (tests/java)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import onnx
import pytest

import edgemem
from edgemem.android.library import OWN_LIBRARY, read_archive
from edgemem.android.sources import find_sources
from tests.android.parts import part
from tests.android.sdk import write_toolchain
from tests.android.tools import JVM, need

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.plans import PlanSet

ROOT = Path(__file__).parents[2]
ANDROID: Final = find_sources() / "android"
OURS: Final = ROOT / "tests" / "java"
_TOOL_S: Final = 300


@dataclass(frozen=True)
class Classes:
    """Folders of classes: stand-ins of ONNX Runtime, the library, its tests."""

    runtime: Path
    library: Path
    tests: Path


def tool(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    options = {"java": JVM, "javac": [f"-J{option}" for option in JVM]}.get(name, ())
    command = [shutil.which(name) or name, *options, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_S, check=False)


def compiled(to: Path, sources: Path, *path: Path, lint: str = "all,-options,-serial,-try") -> Path:
    """Compiles all of a folder with Java 11's rules; a warning is an error."""
    to.mkdir()
    found = sorted(sources.rglob("*.java"))
    given = ["-cp", os.pathsep.join(map(str, path))] if path else ["-cp", str(to)]
    done = tool("javac", "--release", "11", f"-Xlint:{lint}", "-Werror", "-implicit:none", *given, "-d", to, *found)
    assert done.returncode == 0, done.stderr
    return to


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Classes:
    if shutil.which("javac") is None:
        pytest.skip("no JDK: there is no javac")
    folder = tmp_path_factory.mktemp("java")
    runtime = compiled(folder / "runtime", OURS / "ai" / "onnxruntime")
    library = compiled(folder / "library", ANDROID / "java", runtime, lint="all,-options")
    tests = compiled(folder / "tests", OURS / "ai" / "edgemem", library, runtime)
    return Classes(runtime, library, tests)


def described(path: Path, names: Sequence[str]) -> dict[str, tuple[str, frozenset[str]]]:
    """Each class as javap tells it: its head, and its public and protected members with the values of constants."""
    done = tool("javap", "-protected", "-constants", "-cp", path, *names)
    found = {}
    for block in re.split(r"^Compiled from .*\n", done.stdout, flags=re.MULTILINE)[1:]:
        head, *members = block.strip().splitlines()
        head = re.sub(r" implements .*| \{$", "", head).replace("abstract class", "class")
        kind = re.search(r"(?:class|interface) ([\w.$]+)", head)
        assert kind is not None
        plain = (re.sub(r"\b(native|synchronized) ", "", m.strip()) for m in members if m.strip() != "}")
        found[kind[1]] = head, frozenset(plain)
    return found


def names_in(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder))[: -len(".class")].replace(os.sep, ".") for p in folder.rglob("*.class"))


def missing(ours: Path, theirs: Path, names: Sequence[str]) -> list[str]:
    """What our declarations of these classes have and theirs do not."""
    real = described(theirs, names)
    wrong = []
    for name, (head, members) in described(ours, names).items():
        its_head, its_members = real.get(name, ("", frozenset()))
        wrong += [head] if head != its_head else []
        wrong += [f"{name}: {member}" for member in sorted(members - its_members)]
    return wrong


@pytest.mark.full
def test_the_stand_in_of_onnxruntime_is_declared_like_it(classes: Classes, tmp_path: Path) -> None:
    jar = tmp_path / "onnxruntime.jar"
    jar.write_bytes(read_archive(part("onnxruntime-android")).classes)
    used = [name for name in names_in(classes.runtime) if not name.endswith("Alive")]
    wrong = missing(classes.runtime, jar, used)
    # Enumerations have values that are not declared here, so their heads alone are alike.
    assert [w for w in wrong if "TensorInfo getInfo" not in w] == []


def checks(name: str) -> list[str]:
    source = OURS.joinpath(*name.split(".")).with_suffix(".java")
    return re.findall(r"static void (test\w+)\(", source.read_text())


def ran(classes: Classes, name: str) -> dict[str, str]:
    path = os.pathsep.join(map(str, (classes.tests, classes.library, classes.runtime)))
    done = tool("java", "-Dfake.providers=XNNPACK", "-cp", path, "ai.edgemem.Check", name)
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"^(?:ok|failed) (\w+)(.*)$", done.stdout, flags=re.MULTILINE))


def test_of_java_pass(classes: Classes) -> None:
    name = "ai.edgemem.LibraryTests"
    found = ran(classes, name)
    assert found.keys() == set(checks(name))
    assert {test: why for test, why in found.items() if why} == {}


@pytest.fixture(scope="session")
def native(classes: Classes, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], PlanSet]:
    """How to run Java with the library's native half, and the plan of the model that it is told."""
    need(["cmake", "g++"])
    folder = tmp_path_factory.mktemp("native")
    write_toolchain(folder / "host.cmake")
    settings = [f"-DCMAKE_TOOLCHAIN_FILE={folder}/host.cmake", "-DCMAKE_BUILD_TYPE=Release"]
    for step in (["-S", ANDROID / "native", "-B", folder, *settings], ["--build", folder, "--parallel", 2]):
        done = tool("cmake", *step)
        assert done.returncode == 0, done.stderr
    library = folder / OWN_LIBRARY
    plain, planned = folder / "plain.onnx", folder / "planned.onnx"
    plain.write_bytes(chain())
    (planset,) = edgemem.save(plain, edgemem.plan(plain), planned)
    path = os.pathsep.join(map(str, (classes.tests, classes.library, classes.runtime)))
    return [f"-Dlibrary={library}", f"-Dplanned={planned}", f"-Dplain={plain}", "-cp", path], planset


def chain() -> bytes:
    """A model of four operators, each of which gives twice what it gets."""
    float32, names = onnx.TensorProto.FLOAT, "xabcy"
    x = onnx.helper.make_tensor_value_info("x", float32, [1, 64])
    y = onnx.helper.make_tensor_value_info("y", float32, [16, 64])
    nodes = [onnx.helper.make_node("Concat", [a, a], [b], axis=0) for a, b in pairwise(names)]
    graph = onnx.helper.make_graph(nodes, "chain", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    return bytes(model.SerializeToString())


@pytest.mark.full
def test_java_reads_the_plan_that_python_wrote(native: tuple[list[str], PlanSet]) -> None:
    options, planset = native
    done = tool("java", *options, "ai.edgemem.NativeTests")
    assert done.returncode == 0, done.stderr
    told = [line.split("|") for line in done.stdout.splitlines()]
    best = min(planset.offsets, key=lambda plan: plan.size)
    bound = planset.bounds.offsets
    head = ["GRAPH", "generic", best.strategy, "", "", *map(str, (best.size, bound, planset.naive))]
    assert told[0] == ["set", *head, str(best.size == bound).lower()]
    expected = {
        (r.name, f"{r.first_op} {r.last_op} {r.size} {offset}")
        for r, offset in zip(planset.problem.records, best.offsets, strict=True)
    }
    assert {(name, numbers) for _, name, numbers in told[1:]} == expected
    assert len(expected) == 3


@pytest.mark.full
def test_of_java_with_the_native_half_pass(native: tuple[list[str], PlanSet]) -> None:
    options, _ = native
    done = tool("java", *options, "ai.edgemem.Check", "ai.edgemem.NativeTests")
    assert done.returncode == 0, done.stderr
    found = dict(re.findall(r"^(?:ok|failed) (\w+)(.*)$", done.stdout, flags=re.MULTILINE))
    assert found.keys() == set(checks("ai.edgemem.NativeTests"))
    assert {test: why for test, why in found.items() if why} == {}
