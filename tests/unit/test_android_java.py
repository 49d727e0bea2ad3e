"""The Java half of the Android demo, on the JVM: that it compiles against stubs of Android's API, that these stubs are
right, and what the library and the app do over a stand-in of ONNX Runtime (tests/java)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import onnx
import pytest

import edgemem
from edgemem.replay.library import find_library
from edgemem.system.caches import cache_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.plans import PlanSet

ROOT = Path(__file__).parents[2]
ANDROID: Final = ROOT / "android"
OURS: Final = ROOT / "tests" / "java"
MODEL: Final = "in x FLOAT 1,3,8,8\nout y FLOAT"
ACTIVITY: Final = "ai.edgemem.demo.MainActivity"
_TOOL_S: Final = 300
_DONE = ["until", "status", "5 runs"]
_IDLE = ["until", "status", "done"]


@dataclass(frozen=True)
class Classes:
    """Folders of classes: compile-only stubs, stand-ins of ONNX Runtime, library and app, what runs them, tests."""

    stubs: Path
    runtime: Path
    app: Path
    host: Path
    tests: Path


def tool(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [shutil.which(name) or name, *map(str, arguments)]
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
    stubs = compiled(folder / "stubs", ANDROID / "stubs")
    runtime = compiled(folder / "runtime", OURS / "ai" / "onnxruntime")
    app = compiled(folder / "app", ANDROID / "java", stubs, runtime, lint="all,-options")
    host = compiled(folder / "host", ANDROID / "host", app)
    tests = compiled(folder / "tests", OURS / "ai" / "edgemem", app, runtime)
    return Classes(stubs, runtime, app, host, tests)


def cached(name: str) -> Path:
    folder = cache_folder("android")
    if folder is None:
        pytest.skip("no folder for caches here")
    return folder / name


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


def test_stubs_are_declared_as_in_android(classes: Classes) -> None:
    sdk = cached("android-23.jar")
    if not sdk.is_file():
        pytest.skip(f"no android.jar of API 23 in {sdk.parent}")
    names = names_in(classes.stubs)
    assert len(names) > 40
    assert missing(classes.stubs, sdk, names) == []


# What javac wants to see where a lambda is: API 23 has none of it, and a dexer makes ordinary classes of lambdas.
LAMBDAS: Final = {
    "CallSite": "",
    "MethodHandle": "",
    "MethodType": "",
    "SerializedLambda": "",
    "MethodHandles": "public static class Lookup {}",
    "LambdaMetafactory": "public static CallSite metafactory(MethodHandles.Lookup l, String n, MethodType t,"
    " MethodType s, MethodHandle h, MethodType i) { return null; }",
}


def test_the_app_needs_nothing_newer_than_api_23(classes: Classes, tmp_path: Path) -> None:
    sdk = cached("android-23.jar")
    if not sdk.is_file():
        pytest.skip(f"no android.jar of API 23 in {sdk.parent}")
    invoke, made = tmp_path / "java" / "lang" / "invoke", tmp_path / "made"
    invoke.mkdir(parents=True)
    made.mkdir()
    for name, body in LAMBDAS.items():
        invoke.joinpath(f"{name}.java").write_text(f"package java.lang.invoke; public class {name} {{ {body} }}")
    old = ["-nowarn", "-source", "8", "-target", "8", "-Xlint:-options", "-d", made, "-bootclasspath"]
    done = tool("javac", *old, sdk, *invoke.glob("*.java"))
    assert done.returncode == 0, done.stderr
    ours = sorted((ANDROID / "java").rglob("*.java"))
    done = tool("javac", *old, f"{made}{os.pathsep}{sdk}", "-cp", classes.runtime, *ours)
    assert done.returncode == 0, done.stderr


def test_the_app_finds_every_stub_in_its_host(classes: Classes) -> None:
    for name, (_, members) in described(classes.stubs, names_in(classes.stubs)).items():
        stand_in = described(classes.host, [name])[name][1]
        assert not {m for m in members if not re.search(r"= \S+;$", m)} - stand_in, name


def test_the_stand_in_of_onnxruntime_is_declared_like_it(classes: Classes) -> None:
    folder = cached("classes")  # edgemem.android.toolchain puts it there
    jars = sorted(folder.glob("*.jar"))
    if not jars:
        pytest.skip(f"no classes of ONNX Runtime in {folder}")
    used = [name for name in names_in(classes.runtime) if not name.endswith("Alive")]
    wrong = missing(classes.runtime, jars[0], used)
    # Enumerations have values that are not declared here, so their heads alone are alike.
    assert [w for w in wrong if "TensorInfo getInfo" not in w] == []


def checks(name: str) -> list[str]:
    source = OURS.joinpath(*name.split(".")).with_suffix(".java")
    return re.findall(r"static void (test\w+)\(", source.read_text())


def ran(classes: Classes, name: str) -> dict[str, str]:
    path = os.pathsep.join(map(str, (classes.tests, classes.app, classes.runtime)))
    done = tool("java", "-Dfake.providers=XNNPACK", "-cp", path, "ai.edgemem.Check", name)
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"^(?:ok|failed) (\w+)(.*)$", done.stdout, flags=re.MULTILINE))


@pytest.mark.parametrize("name", ["ai.edgemem.LibraryTests", "ai.edgemem.demo.DemoTests"])
def test_of_java_pass(classes: Classes, name: str) -> None:
    found = ran(classes, name)
    assert found.keys() == set(checks(name))
    assert {test: why for test, why in found.items() if why} == {}


@pytest.fixture(scope="session")
def native(classes: Classes, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], PlanSet]:
    """How to run Java with the library's native half, and the plan of the model that it is told."""
    library = find_library()
    assert library is not None
    if b"Java_ai_edgemem_Native_abi" not in library.read_bytes():
        pytest.skip("no JNI in edgemem/_arena.so: it was built without a JDK")
    folder = tmp_path_factory.mktemp("native")
    plain, planned = folder / "plain.onnx", folder / "planned.onnx"
    plain.write_bytes(chain())
    (planset,) = edgemem.save(plain, edgemem.plan(plain), planned)
    path = os.pathsep.join(map(str, (classes.tests, classes.app, classes.runtime)))
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


def test_of_java_with_the_native_half_pass(native: tuple[list[str], PlanSet]) -> None:
    options, _ = native
    done = tool("java", *options, "ai.edgemem.Check", "ai.edgemem.NativeTests")
    assert done.returncode == 0, done.stderr
    found = dict(re.findall(r"^(?:ok|failed) (\w+)(.*)$", done.stdout, flags=re.MULTILINE))
    assert found.keys() == set(checks("ai.edgemem.NativeTests"))
    assert {test: why for test, why in found.items() if why} == {}


class App:
    """The app in a file whose assets a test chose."""

    def __init__(self, classes: Classes, folder: Path) -> None:
        self.classes = classes
        self.path = folder / "app.apk"
        self.write({"model": "model.onnx"}, MODEL)

    def write(self, config: Mapping[str, object] | str | None, model: str | None, **others: str) -> App:
        with zipfile.ZipFile(self.path, "w") as file:
            if config is not None:
                file.writestr("assets/edgemem.json", config if isinstance(config, str) else json.dumps(config))
            if model is not None:
                file.writestr("assets/model.onnx", model)
            for name, text in others.items():
                file.writestr(f"assets/{name}.txt", text)
        return self

    def act(self, *actions: object, options: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Runs the app without a plan and does these actions; the screens that were dumped, by the tags of views."""
        path = os.pathsep.join(map(str, (self.classes.host, self.classes.app, self.classes.runtime)))
        given = [f"-Dapk={self.path}", "-Djava.awt.headless=true", "-Dhost.seconds=30", *options, "-cp", path, "Host"]
        done = tool("java", *given, ACTIVITY, "press", "planned", *actions, "finish")
        assert done.returncode == 0, done.stderr + done.stdout
        assert done.stderr.splitlines()[-1:] in ([], ["alive: 0 tensors, 0 sessions, 0 options"]), done.stderr
        return [{view["tag"]: view for view in json.loads(line)} for line in done.stdout.splitlines()]


@pytest.fixture
def app(classes: Classes, tmp_path: Path) -> App:
    return App(classes, tmp_path)


def test_the_app_shows_what_the_model_gave(app: App) -> None:
    (screen,) = app.act(*_DONE, "dump")
    assert screen["title"]["text"] == "model.onnx in ONNX Runtime 0.0 on CPU"
    assert screen["headline"]["text"] == "Without a plan"
    assert screen["source"]["text"] == "plan: off"
    assert re.fullmatch(r"y FLOAT\[1, 3, 8, 8\]: \S+ to \S+, mean \S+", screen["answer"]["text"])
    assert re.fullmatch(r"outputs: sum \S+, sha256 [0-9a-f]{64}", screen["digest"]["text"])
    assert re.fullmatch(r"first run .* ms; last 4: median .* ms, 90% within .* ms", screen["latency"]["text"])
    assert screen["picture"]["drawn"][0].startswith("bitmap 320 x 320")
    assert not screen["notes"]["visible"]
    assert screen["map"]["drawn"][-1].endswith("no plan in use")


def test_the_last_fifty_runs_are_timed(app: App) -> None:
    (screen,) = app.act(*_DONE, "press", "again", "until", "status", "55 runs", "dump")
    assert "last 50: median" in screen["latency"]["text"]


def test_classes_have_labels(app: App) -> None:
    app.write({"model": "model.onnx", "task": "classes", "labels": "labels.txt"}, MODEL, labels="cat\r\ndog\n")
    (screen,) = app.act(*_DONE, "dump")
    assert len(screen["answer"]["text"].splitlines()) == 5


@pytest.mark.parametrize(
    ("config", "model", "said"),
    [
        (None, MODEL, "assets/edgemem.json is missing from the app"),
        ({"model": "model.onnx"}, None, "assets/model.onnx is missing from the app"),
        ("{", MODEL, "edgemem.json is no JSON: the text ends at character 1"),
        ({"model": "model.onnx"}, "rubbish", "this is no model"),
        ({"model": "model.onnx"}, "fails\n" + MODEL, "the run failed"),
        ({"model": "model.onnx", "labels": "no.txt"}, MODEL, "assets/no.txt is missing from the app"),
    ],
)
def test_what_does_not_run_is_told_in_one_line(app: App, config: Any, model: str | None, said: str) -> None:
    app.write(config, model)
    # Before "planned" is pressed the screen may say for a while that there is no native library.
    (screen,) = app.act("until", "subline", said, "dump")
    assert (screen["headline"]["text"], screen["subline"]["text"]) == ("It does not run", said)


def test_another_model_than_the_one_described_is_refused(app: App) -> None:
    app.write({"model": "model.onnx", "sha256": "0" * 64}, MODEL)
    (screen,) = app.act("until", "subline", "is not the model", "dump")
    assert screen["subline"]["text"].startswith("assets/model.onnx is not the model that edgemem.json names (SHA-256 ")


def test_without_the_native_library_the_screen_says_so(app: App) -> None:
    (screen,) = app.act("press", "planned", "until", "headline", "not", "dump")
    assert screen["planned"]["checked"]
    assert screen["subline"]["text"].startswith("no edgemem in java.library.path")


def test_a_provider_that_is_missing_is_said_aloud(app: App) -> None:
    (screen,) = app.act("press", "NNAPI", "until", "notes", "NNAPI", *_DONE, "dump")
    assert screen["title"]["text"].endswith("on CPU")
    assert screen["notes"]["visible"]
    assert "NNAPI is not used: this build of ONNX Runtime does not have it" in screen["notes"]["text"]
    assert screen["NNAPI"]["checked"]
    assert not screen["CPU"]["checked"]


def test_the_runs_and_the_choices_survive_a_turn_of_the_screen(app: App) -> None:
    options = ["-Dfake.providers=XNNPACK"]
    chosen = ["press", "XNNPACK", "until", "title", "XNNPACK", *_DONE]
    before, turned, back = app.act(*chosen, "dump", "rotate", "dump", "leave", "back", "dump", options=options)
    assert turned == before  # nothing ran again
    assert back == before


def test_the_choices_survive_the_end_of_the_process(app: App) -> None:
    options = ["-Dfake.providers=XNNPACK"]
    (screen,) = app.act("press", "XNNPACK", "until", "title", "XNNPACK", "kill", *_DONE, "dump", options=options)
    assert screen["title"]["text"].endswith("on XNNPACK")
    assert screen["XNNPACK"]["checked"]
    assert not screen["planned"]["checked"]


def test_runs_that_wait_are_dropped_in_the_background(app: App) -> None:
    app.write({"model": "model.onnx", "shapes": {"x": [1, 3, 1024, 1024]}}, "in x FLOAT 1,3,H,W\nout y FLOAT")
    (screen,) = app.act(
        "until", "status", "running", "press", "again", "leave", "back", "until", "status", "done", "dump"
    )
    assert int(screen["status"]["text"].split()[0]) < 55


def png(path: Path, colour: tuple[int, int, int]) -> Path:
    """A picture of 2 x 2 pixels of one colour."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes(colour) * 2) * 2
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    return path


def test_a_picture_that_was_chosen_is_run(app: App, tmp_path: Path) -> None:
    white = png(tmp_path / "white.png", (255, 255, 255))
    (screen,) = app.act(*_DONE, "press", "choose", "pick", white, "until", "status", "6 runs", "dump")
    assert screen["answer"]["text"] == "y FLOAT[1, 3, 8, 8]: 3.0000 to 3.0000, mean 3.0000"  # twice 1, plus 1
    assert screen["picture"]["drawn"][0].startswith("bitmap 2 x 2")


def test_a_file_that_is_no_picture_is_told(app: App) -> None:
    (screen,) = app.act(*_DONE, "press", "choose", "pick", ROOT / "LICENSE", "until", "notes", "picture", "dump")
    assert screen["notes"]["text"] == "the last picture stays: this is no picture that Android can read"
    assert screen["headline"]["text"] == "Without a plan"


def test_no_app_with_pictures_is_told(app: App) -> None:
    (screen,) = app.act(*_DONE, "press", "choose", "dump", options=["-Dhost.alone=true"])
    assert screen["notes"]["text"] == "no app on this device offers pictures"
