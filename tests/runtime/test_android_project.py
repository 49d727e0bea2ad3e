"""`edgemem android project`: the text of the projects, what they carry and refuse, and their Kotlin on a stand-in.

The text is compared with tests/data_android/project. After a change of the templates write it anew, and read the
difference before you commit it:

    EDGEMEM_UPDATE_GOLDEN=1 python -m pytest -n 0 tests/runtime/test_android_project.py
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

import edgemem
from edgemem.android.library import OWN_LIBRARY, read_archive, write_zip
from edgemem.android.project import KOTLIN_COMPILER, fill, make_project, read_template, write_project
from edgemem.android.sdk import run_tool
from edgemem.android.sources import find_sources
from edgemem.cli.main import main
from edgemem.errors import ApkError, ModelError, PlanFileError, StalePlanError, ToolError
from edgemem.formats import load_model
from edgemem.planfile import encode_all
from edgemem.planning.verification import right_plan
from edgemem.system.distribution import VERSION
from models.build import build
from tests import kotlin
from tests.android.parts import part
from tests.snippets.blocks import blocks
from tests.tflite_models import M, O, S, T
from tests.tflite_models import build as build_tflite

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).parents[2]
DATA: Final = ROOT / "tests" / "data_android"
ANDROID: Final = "{http://schemas.android.com/apk/res/android}"
COPIED: Final = re.compile(r"/java/|/assets/model\.|\.aar$")  # byte for byte from elsewhere
SHA256: Final = re.compile(r"\b[0-9a-f]{64}\b")  # of a file whose plan names the installed packages' versions


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A planned net.tflite and net.onnx, and both without a plan as bare.tflite and bare.onnx."""
    place = tmp_path_factory.mktemp("models")
    tensors = [T(f"t{i}", shape=(1, 64)) for i in range(5)]
    ops = [O("RELU", (0,), (1,)), O("RELU", (1,), (2,)), O("RELU", (2,), (3,)), O("MAXIMUM", (1, 3), (4,))]
    (place / "bare.tflite").write_bytes(build_tflite(M([S(tensors, ops, (0,), (4,))])))
    (place / "bare.onnx").write_bytes(build("mobilenet_v2", size="small").SerializeToString(deterministic=True))
    for suffix in (".tflite", ".onnx"):
        bare = place / f"bare{suffix}"
        edgemem.save(bare, edgemem.plan(bare), place / f"net{suffix}")
    return place


def texts(files: Mapping[str, bytes]) -> dict[str, str]:
    """What a project has besides copies; a model's checksum and edgemem's version are left out."""
    kept = {n: SHA256.sub("SHA256", c.decode()) for n, c in files.items() if not COPIED.search(n)}
    return {n: text.replace(VERSION, "VERSION") for n, text in kept.items()}


@pytest.mark.parametrize(("name", "runtime"), [("net.tflite", "litert"), ("net.onnx", "onnxruntime")])
def test_the_text_is_golden(name: str, runtime: str, folder: Path) -> None:
    made = texts(make_project(folder / name).files)
    golden = DATA / "project" / runtime
    if os.environ.get("EDGEMEM_UPDATE_GOLDEN"):
        shutil.rmtree(golden, ignore_errors=True)
        for path, text in made.items():
            (golden / path).parent.mkdir(parents=True, exist_ok=True)
            (golden / path).write_text(text, encoding="utf-8")
    kept = {f.relative_to(golden).as_posix(): f.read_text("utf-8") for f in golden.rglob("*") if f.is_file()}
    assert sorted(made) == sorted(kept)
    for path, text in made.items():
        assert text == kept[path], path


@pytest.mark.parametrize("name", ["net.tflite", "net.onnx"])
def test_the_text_is_tidy_and_what_others_parse_can_be_parsed(name: str, folder: Path) -> None:
    for path, text in texts(make_project(folder / name).files).items():
        assert "@@" not in text, path
        assert text.endswith("\n"), path
        assert not re.search(r"[ \t]+$|\t|\r", text, flags=re.MULTILINE), path
        if path.endswith((".kt", ".kts")):
            code = re.sub(r'"(\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', "", text, flags=re.DOTALL)
            assert [code.count(c) for c in "({["] == [code.count(c) for c in ")}]"], path
        elif path.endswith(".toml"):
            tomllib.loads(text)
        elif path.endswith(".xml"):
            ET.fromstring(text)
        elif path.endswith(".json"):
            json.loads(text)


@pytest.mark.parametrize("name", ["net.tflite", "net.onnx"])
def test_build_files_name_only_what_the_catalogue_of_versions_has(name: str, folder: Path) -> None:
    made = texts(make_project(folder / name).files)
    catalogue = tomllib.loads(made["gradle/libs.versions.toml"])
    known = {f"libs.{entry.replace('-', '.')}" for entry in catalogue["libraries"]}
    known |= {f"libs.plugins.{entry.replace('-', '.')}" for entry in catalogue["plugins"]}
    scripts = [text for path, text in made.items() if path.endswith(".gradle.kts")]
    named = {found for text in scripts for found in re.findall(r"\(((?:libs)\.[\w.]+)\)", text)}
    assert named == known
    for entry in (*catalogue["libraries"].values(), *catalogue["plugins"].values()):
        assert entry["version"]["ref"] in catalogue["versions"]
    modules = re.findall(r'":([\w-]+)"', made["settings.gradle.kts"])
    assert sorted(modules) == sorted(p.split("/")[0] for p in made if p.endswith("/build.gradle.kts"))
    assert len(make_project(folder / name).files) <= 25


def test_the_litert_project_names_both_libraries_and_never_the_gpu_with_the_cpu(folder: Path) -> None:
    made = texts(make_project(folder / "net.tflite").files)
    libraries = tomllib.loads(made["gradle/libs.versions.toml"])["libraries"]
    assert {entry["module"] for entry in libraries.values()} == {
        "com.google.ai.edge.litert:litert",
        "com.google.ai.edge.litert:litert-gpu",
    }
    code = "".join(text for path, text in made.items() if path.endswith(".kt"))
    assert not re.search(r"Options\([^)]*GPU[^)]*CPU|Options\([^)]*CPU[^)]*GPU", code)
    build_file = made["app/build.gradle.kts"]
    assert 'noCompress += listOf("tflite"' in build_file
    assert 'abiFilters += listOf("arm64-v8a", "x86_64")' in build_file


def test_the_app_for_onnx_runtime_has_no_permission_and_no_telemetry(folder: Path) -> None:
    made = texts(make_project(folder / "net.onnx").files)
    manifest = ET.fromstring(made["app/src/main/AndroidManifest.xml"])
    asked = manifest.findall("uses-permission")
    providers = manifest.findall("application/provider")
    assert {e.get("{http://schemas.android.com/tools}node") for e in (*asked, *providers)} == {"remove"}
    assert [p.get(f"{ANDROID}name") for p in providers] == ["ai.onnxruntime.TelemetryInitializer"]
    assert "android.permission.INTERNET" in {p.get(f"{ANDROID}name") for p in asked}


def test_the_model_and_its_plan_are_in_the_assets(folder: Path) -> None:
    planset = right_plan(folder / "net.tflite")[0].planset
    files = make_project(folder / "net.tflite").files
    assert files["app/src/main/assets/model.tflite"] == (folder / "net.tflite").read_bytes()
    asset = json.loads(files["app/src/main/assets/edgemem.json"])
    plan = planset.best_offsets
    assert plan is not None
    assert asset["plan"]["arena"] == plan.size
    records = planset.problem.records
    assert [(p["name"], p["first"], p["last"], p["offset"], p["size"]) for p in asset["plan"]["places"]] == [
        (r.name, r.first_op, r.last_op, int(o), r.size) for r, o in zip(records, plan.offsets, strict=True)
    ]
    assert asset["plan"]["steps"] == 4
    assert [(v["name"], v["dtype"], v["shape"]) for v in asset["inputs"]] == [("t0", "float32", [1, 64])]


def test_the_project_for_onnx_runtime_takes_edgemems_library(folder: Path, tmp_path: Path) -> None:
    library = tmp_path / "edgemem.aar"
    library.write_bytes(write_zip({"classes.jar": b"", f"jni/arm64-v8a/{OWN_LIBRARY}": b""}))
    bare, files = (make_project(folder / "net.onnx", abis=["arm64-v8a"], library=one) for one in (None, library))
    assert not bare.has_library
    assert files.has_library
    assert "app/libs/edgemem.aar" not in bare.files
    assert files.files["app/libs/edgemem.aar"] == library.read_bytes()
    assert files.files["app/src/main/assets/model.onnx"] == (folder / "net.onnx").read_bytes()
    assert "edgemem android aar --onnxruntime" in texts(bare.files)["README.md"]
    assert "edgemem android aar --onnxruntime" not in texts(files.files)["README.md"]
    with pytest.raises(ToolError, match=r"has no libedgemem\.so for x86_64"):
        make_project(folder / "net.onnx", library=library)
    library.write_bytes(b"no archive")
    with pytest.raises(ToolError, match=r"edgemem\.aar is no archive for Android"):
        make_project(folder / "net.onnx", library=library)
    result = edgemem_android(folder / "net.onnx", "-o", tmp_path / "demo")
    assert result.exit_code == 0, result.output
    assert "missing: edgemem android aar makes it" in result.output


def test_equal_models_give_equal_projects_and_hostile_names_stay_out_of_them(folder: Path, tmp_path: Path) -> None:
    hostile = tmp_path / '@"><a b="$(rm)`$HOME`.tflite'
    hostile.write_bytes((folder / "net.tflite").read_bytes())
    files = make_project(hostile).files
    assert files == make_project(hostile).files
    manifest = ET.fromstring(files["app/src/main/AndroidManifest.xml"])
    application = manifest.find("application")
    assert application is not None
    assert application.get(f"{ANDROID}label") == "a_b_rm_HOME"
    assert not any(b"$(rm)" in content or b"$HOME" in content for content in files.values())


def test_a_placeholder_without_a_value_is_told() -> None:
    assert fill("a @@X1@@ b @@X1@@", {"X1": "@@Y@@"}) == "a @@Y@@ b @@Y@@"
    with pytest.raises(KeyError):
        fill("@@Y@@", {"X1": ""})
    assert not [n for n, text in read_template("litert").items() if "@@" in re.sub(r"@@[A-Z0-9_]+@@", "", text)]


def test_the_readme_names_the_compiler_that_compiles_the_kotlin_here(folder: Path) -> None:
    assert kotlin.VERSION == KOTLIN_COMPILER
    assert kotlin.VERSION in texts(make_project(folder / "net.tflite").files)["README.md"]


def edgemem_android(*args: object) -> Result:
    return CliRunner().invoke(main, ["android", "project", *map(str, args)])


def test_the_command_writes_a_new_or_an_empty_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        result = edgemem_android(folder / "net.tflite", "-o", tmp_path / name, "--abi", "arm64-v8a")
        assert result.exit_code == 0, result.output
        assert f"{tmp_path / name}: a Gradle project with LiteRT 2.3.0, " in result.output.replace("\n", "")
        written = {f.relative_to(tmp_path / name).as_posix(): f.read_bytes() for f in (tmp_path / name).rglob("*.*")}
        made = make_project(folder / "net.tflite", abis=["arm64-v8a", "arm64-v8a"]).files
        assert written.items() >= made.items() - written.items() or written == made
        assert b'listOf("arm64-v8a")' in written["app/build.gradle.kts"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "new"]


def test_the_json_lists_the_files(folder: Path, tmp_path: Path) -> None:
    result = edgemem_android(folder / "net.onnx", "-o", tmp_path / "demo", "--json")
    told = json.loads(result.output)
    assert (told["runtime"], told["version"]) == ("onnxruntime", "1.29.0")
    found = [f.relative_to(tmp_path / "demo").as_posix() for f in (tmp_path / "demo").rglob("*") if f.is_file()]
    assert told["files"] == sorted(found)


def test_a_file_without_a_plan_a_wrong_plan_and_other_files_are_refused(folder: Path, tmp_path: Path) -> None:
    for suffix in (".tflite", ".onnx"):
        with pytest.raises(PlanFileError, match=r"carries no plan; make one with: edgemem plan"):
            write_project(folder / f"bare{suffix}", tmp_path / "demo")
        planset = right_plan(folder / f"net{suffix}")[0].planset
        wrong = replace(planset, digest="0" * len(planset.digest))
        stale = tmp_path / f"stale{suffix}"
        load_model(folder / f"bare{suffix}").with_plan(encode_all((wrong,)), wrong).save(stale)
        with pytest.raises(StalePlanError):
            write_project(stale, tmp_path / "demo")
    text = tmp_path / "records.csv"
    text.write_text("name,first,last,size\na,0,1,8\n")
    with pytest.raises(ModelError, match=r"records\.csv is no model for an app"):
        write_project(text, tmp_path / "demo")
    with pytest.raises(ApkError, match=r"armeabi-v7a"):
        write_project(folder / "net.tflite", tmp_path / "demo", abis=["armeabi-v7a"])
    with pytest.raises(ApkError):
        write_project(folder / "net.tflite", tmp_path / "demo", abis=[])
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("name", ["net.tflite", "bare.tflite", "missing.tflite"])
def test_a_folder_with_something_in_it_stays_as_it_is(name: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine").write_text("mine")
    result = edgemem_android(folder / name, "-o", tmp_path / "demo")
    assert result.exit_code != 0
    assert result.output.startswith("edgemem: ")
    assert result.output.count("\n") == 1
    if name == "net.tflite":
        place = tmp_path / "demo"
        assert result.output == f"edgemem: {place} is there already and is no empty folder; name another one [E601]\n"
    assert [f.name for f in (tmp_path / "demo").iterdir()] == ["mine"]
    assert [f.name for f in tmp_path.iterdir()] == ["demo"]


def test_a_failure_leaves_no_part_of_a_project(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if tmp_path in path.parents:
            written.append(path)
            if len(written) > 5:
                raise OSError(28, "No space left on device", str(path))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    result = edgemem_android(folder / "net.tflite", "-o", tmp_path / "demo")
    assert (result.exit_code, result.output) == (1, f"edgemem: {tmp_path / 'demo'}: No space left on device\n")
    assert len(written) == 6
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
@pytest.mark.parametrize("for_android", [True, False])
def test_what_is_said_of_a_recording(tmp_path: Path, *, for_android: bool) -> None:
    pytest.importorskip("onnxruntime")
    bare, planned = tmp_path / "bare.onnx", tmp_path / "net.onnx"
    bare.write_bytes(build("mobilenet_v2", size="small").SerializeToString(deterministic=True))
    options = ["--record", *(["--android"] if for_android else [])]
    done = CliRunner().invoke(main, ["plan", str(bare), *options, "-o", str(planned)])
    assert done.exit_code == 0, done.output
    recorded = make_project(planned).recording
    assert recorded is not None
    assert recorded.recording is not None
    assert recorded.best_offsets is not None
    result = edgemem_android(planned, "-o", tmp_path / "demo")
    readme = (tmp_path / "demo" / "README.md").read_text("utf-8")
    assert f"an arena of {recorded.best_offsets.size:,} bytes" in readme
    assert f"ONNX Runtime {recorded.recording.fingerprint.version} on a desktop" in readme
    assert ("settings that this app has" in readme) == for_android
    assert ("tries it in its first run" in result.output) == for_android
    assert (
        "to ship a plan for the first run: edgemem plan net.onnx --record --android" in result.output
    ) != for_android


@pytest.mark.exhaustive
def test_the_kotlin_says_where_the_model_runs_and_closes_what_it_opened(tmp_path: Path) -> None:
    java = kotlin.jvm("java")
    sources = [find_sources() / "android/template/litert/app/src/main/kotlin", DATA / "stubs"]
    path = os.pathsep.join(map(str, kotlin.compiled(sources, tmp_path)))
    done = subprocess.run([java, "-cp", path, "MainKt"], capture_output=True, text=True, check=True)
    said, on_gpu, no_gpu, failed_run = done.stdout.split("---")
    assert "planned arena 192 bytes (lower bound 128, without sharing 256), strip_packing, target litert" in said
    assert "LiteRT's Android library does not read this plan" in said
    values = "x: 0.0, 0.007843138, 0.015686275, 0.023529412\n"
    timed = "median N us, least N us of 21 runs\n"
    assert on_gpu == f" runs on the GPU, all of it\n{timed}{values}model.tflite on GPU; run; closed: true\n"
    aloud = " RUNS ON THE CPU. The GPU was asked first, and LiteRT said: "
    assert no_gpu == (
        f"{aloud}no GPU here\n{timed}{values}model.tflite on GPU; model.tflite on CPU; run; closed: true\n"
    )
    assert failed_run == (
        f"{aloud}the run failed\n{timed}{values}model.tflite on GPU; run; model.tflite on CPU; closed: true\n"
    )


@pytest.mark.full
def test_the_build_scripts_are_kotlin(folder: Path, tmp_path: Path) -> None:
    names = ("net.tflite", "net.onnx")
    made = {
        f"{n}/{p}": t for n in names for p, t in texts(make_project(folder / n).files).items() if p.endswith(".kts")
    }
    (tmp_path / "wrong").mkdir()
    assert kotlin.syntax_errors({"wrong": "android { compileSdk = = 36 }\n"}, tmp_path / "wrong")
    (tmp_path / "right").mkdir()
    assert kotlin.syntax_errors(made, tmp_path / "right") == []
    assert len(made) == 6


@pytest.mark.full
def test_the_java_of_the_documentation_compiles(tmp_path: Path) -> None:
    javac = kotlin.jvm("javac")
    classes = tmp_path / "onnxruntime.jar"
    classes.write_bytes(read_archive(part("onnxruntime-android")).classes)
    found = [b for b in blocks((ROOT / "docs" / "mobile.md").read_text("utf-8")) if b.language == "java" and b.file]
    assert found
    for block in found:
        (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    sources = find_sources() / "android" / "java"
    options = ["-proc:none", "-Xlint:all,-options", "-cp", str(classes), "-sourcepath", str(sources), "-d", "out"]
    run_tool([javac, *options, *(b.file for b in found)], what="javac", cwd=tmp_path)
    assert (tmp_path / "out" / "Faces.class").is_file()
