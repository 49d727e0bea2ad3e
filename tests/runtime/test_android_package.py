"""`edgemem android package` from end to end, with small stand-ins for ONNX Runtime and our library."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import onnx
import pytest
from onnx import numpy_helper

from edgemem.android import manifest
from edgemem.android.archive import read_archive
from edgemem.android.contents import INFO, MANIFEST, MODEL, decode_info
from edgemem.runtime.onnxruntime.file import plans_in, with_plans
from tests.android.accepted import ANDROIDS, accepted, ran
from tests.android.packaged import edgemem, make_models, new_key, package_of, refusal, tools_replaced
from tests.android.tools import need
from tests.android_parts import ABIS, NATIVE, RUNTIME, RUNTIME_JNI, archive_of_runtime, elf, libraries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("cryptography")
pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def recorded(models: Path) -> Path:
    return models / "recorded.planned.onnx"


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with tools_replaced(tmp_path_factory.mktemp("tools")) as aar:
        yield aar


@pytest.fixture(scope="module")
def packaged(stand_ins: Path, models: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return package_of(models / "recorded.planned.onnx", stand_ins, tmp_path_factory.mktemp("packages"))


@pytest.fixture
def tools(stand_ins: Path, tmp_path: Path) -> Path:
    """The archive, in a folder of the test's own."""
    path = tmp_path / "onnxruntime.aar"
    path.write_bytes(stand_ins.read_bytes())
    return path


@pytest.fixture
def apk(packaged: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "demo.apk"
    path.write_bytes(packaged)
    return path


def test_a_package_has_the_app_the_runtime_and_the_model_and_is_right(apk: Path, recorded: Path) -> None:
    entries = {e.name: e for e in read_archive(apk.read_bytes())}
    natives = [f"lib/{abi}/{name}" for abi in ABIS for name in sorted((NATIVE, RUNTIME, RUNTIME_JNI))]
    assets = ["assets/NOTICES.txt", INFO, MODEL]
    assert list(entries) == [MANIFEST, "classes.dex", "classes2.dex", *natives, *assets]
    assert entries[MODEL].data == recorded.read_bytes()
    notices = entries["assets/NOTICES.txt"].data.decode()
    assert "edgemem 0.1.0 is under the Apache License 2.0" in notices
    assert notices.endswith("ONNX Runtime 1.29.0:\n\nA licence.\n")
    info = decode_info(entries[INFO].data)
    assert (info.task, info.runtime, info.shapes) == ("faces", "1.29.0", {"image": (1, 3, 64, 64)})
    assert [n for n in natives if not entries[n].stored or (entries[n].offset or 1) % 16384] == []
    done = edgemem("android", "verify", apk)
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{apk}: right, ")
    assert "WRONG" not in done.output
    data = json.loads(edgemem("android", "verify", apk, "--json").output)
    assert data["right"]
    assert data["abis"] == list(ABIS)
    names = [c["check"] for c in data["checks"]]
    assert set(names) == {"signature", "alignment", "manifest", "code", "libraries", "model", "plan", "proof"}


def test_the_first_line_is_the_answer_in_80_columns(tools: Path, recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "demo.apk"
    done = edgemem("android", "package", recorded, "-o", path, "--aar", tools)
    first = done.stdout.splitlines()[0]
    assert first.startswith(f"{path}: ")
    assert re.search(r"arena \d+\.\d+ [KM]iB as recorded, ONNX Runtime 1\.29\.0$", first)
    shown = done.stdout.splitlines()[1:] + edgemem("android", "verify", path).output.splitlines()[1:]
    assert max(len(line.replace(str(path), "demo.apk")) for line in shown) <= 80


@pytest.mark.full
def test_the_same_files_and_key_give_the_same_bytes(apk: Path, tools: Path, recorded: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    again, copy = elsewhere / "again.apk", elsewhere / "copy.onnx"
    copy.write_bytes(recorded.read_bytes())
    assert edgemem("android", "package", copy, "-o", again, "--aar", tools).exit_code == 0
    assert again.read_bytes() == apk.read_bytes()
    other = new_key(tmp_path)
    options = ("--aar", tools, "--key", other, "--key-password", "secret")
    assert edgemem("android", "package", recorded, "-o", again, *options).exit_code == 0
    first, second = again.read_bytes(), apk.read_bytes()
    assert first != second
    assert read_archive(first) == read_archive(second)
    report = json.loads(edgemem("android", "package", recorded, "-o", again, *options, "--json").stdout)
    assert again.read_bytes() == first
    assert report["bytes"] == len(first)
    assert report["recorded_arena"] == max(
        p.best_offsets.size for p in plans_in(recorded.read_bytes()) if p.recording and p.best_offsets
    )


def test_the_password_of_a_key(tools: Path, recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, key = tmp_path / "demo.apk", new_key(tmp_path)
    command = ("android", "package", recorded, "-o", path, "--aar", tools, "--key", key)
    without = edgemem(*command)
    assert without.exit_code == 2
    assert "EDGEMEM_KEY_PASSWORD" in without.stderr
    monkeypatch.setenv("EDGEMEM_KEY_PASSWORD", "wrong")
    assert "password is wrong" in refusal(edgemem(*command), 1)
    assert not path.exists()
    monkeypatch.setenv("EDGEMEM_KEY_PASSWORD", "secret")
    done = edgemem(*command)
    assert done.exit_code == 0, done.output
    assert "CN=somebody" in done.output
    assert "secret" not in done.output


def test_a_model_without_a_plan(tools: Path, models: Path, tmp_path: Path) -> None:
    done = edgemem("android", "package", models / "faces.onnx", "-o", tmp_path / "demo.apk", "--aar", tools)
    said = "faces.onnx carries no plan; make one with: edgemem plan faces.onnx --record --android -o PLANNED"
    assert refusal(done, 4) == f"edgemem: {said}"
    assert list(tmp_path.glob("*.apk")) == []


def test_a_plan_of_another_model(tools: Path, models: Path, recorded: Path, tmp_path: Path) -> None:
    """Nothing is written: a package that was there stays as it was."""
    wrong, path = tmp_path / "wrong.onnx", tmp_path / "demo.apk"
    wrong.write_bytes(with_plans((models / "classes.onnx").read_bytes(), plans_in(recorded.read_bytes())))
    path.write_text("of before")
    done = edgemem("android", "package", wrong, "-o", path, "--aar", tools)
    assert "another graph" in refusal(done, 4)
    assert path.read_text() == "of before"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["demo.apk", "onnxruntime.aar", "wrong.onnx"]


def test_a_recording_of_other_weights(tools: Path, recorded: Path, tmp_path: Path) -> None:
    """The plan of the graph is right for a retrained model; the recording is of the model file that was run."""
    trained = onnx.load(recorded)
    tensor = next(t for t in trained.graph.initializer if t.data_type == onnx.TensorProto.FLOAT and len(t.dims) == 4)
    tensor.raw_data = (numpy_helper.to_array(tensor) * 2).tobytes()
    onnx.save(trained, tmp_path / "trained.onnx")
    assert edgemem("verify", tmp_path / "trained.onnx").exit_code == 0
    done = edgemem("android", "package", tmp_path / "trained.onnx", "-o", tmp_path / "demo.apk", "--aar", tools)
    assert "recording of another model" in refusal(done, 4)
    assert not (tmp_path / "demo.apk").exists()


def test_a_model_without_a_recording_is_packaged_with_a_warning(tools: Path, models: Path, tmp_path: Path) -> None:
    path = tmp_path / "demo.apk"
    done = edgemem("android", "package", models / "faces.planned.onnx", "-o", path, "--aar", tools)
    assert done.exit_code == 0
    assert "planned on the device, ONNX Runtime" in done.stdout.splitlines()[0]
    (warning,) = done.stderr.splitlines()
    assert "edgemem plan faces.planned.onnx --record --android -o PLANNED" in warning
    assert edgemem("android", "verify", path).exit_code == 0


def test_models_that_do_not_go_into_a_package(tools: Path, tmp_path: Path) -> None:
    for name, said in (
        ("hand.tflite", "edgemem android project hand.tflite -o DIR"),
        ("plan.edgemem", "give an .onnx or .tflite file"),
        ("empty.onnx", "empty.onnx"),
    ):
        (tmp_path / name).write_bytes(b"")
        done = edgemem("android", "package", tmp_path / name, "-o", tmp_path / "demo.apk", "--aar", tools)
        assert said in refusal(done, 1)
    absent = edgemem("android", "package", tmp_path / "none.onnx", "-o", tmp_path / "demo.apk")
    assert "no file" in refusal(absent, 1)


def test_a_recording_of_a_session_on_a_desktop(tools: Path, models: Path, tmp_path: Path) -> None:
    """Its requests are others than an app's: the app would not run its plan."""
    path, source = tmp_path / "demo.apk", tmp_path / "desktop.onnx"
    assert edgemem("plan", models / "faces.onnx", "--record", "-o", source).exit_code == 0
    done = edgemem("android", "package", source, "-o", path, "--aar", tools)
    assert done.exit_code == 0
    assert "planned on the device" in done.stdout.splitlines()[0]
    assert "desktop.onnx has no recording of a run as apps run" in done.stderr


def test_weights_in_other_files(tools: Path, models: Path, tmp_path: Path) -> None:
    model = onnx.load(models / "faces.onnx")
    onnx.save(model, tmp_path / "split.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    planned = tmp_path / "split.planned.onnx"
    assert edgemem("plan", tmp_path / "split.onnx", "-o", planned).exit_code == 0
    done = edgemem("android", "package", planned, "-o", tmp_path / "demo.apk", "--aar", tools)
    assert "has weights in other files (weights.bin)" in refusal(done, 1)


def test_abis(tools: Path, recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "demo.apk"
    command = ("android", "package", recorded, "-o", path, "--aar")
    said = refusal(edgemem(*command, tools, "--abi", "armeabi-v7a"), 2)
    assert said == "edgemem: there are no libraries for the ABI 'armeabi-v7a'; take arm64-v8a or x86_64"
    assert "the ABI ''" in refusal(edgemem(*command, tools, "--abi", "arm64-v8a,"), 2)
    only = archive_of_runtime(tmp_path / "only.aar", abis=["x86_64"])
    assert "only.aar has no libraries for arm64-v8a" in refusal(edgemem(*command, only), 1)
    assert not path.exists()
    done = edgemem(*command, only, "--abi", "x86_64")
    assert done.exit_code == 0, done.output
    assert json.loads(edgemem("android", "verify", path, "--json").output)["abis"] == ["x86_64"]


@pytest.mark.usefixtures("tools")
def test_an_archive_whose_libraries_android_cannot_load(recorded: Path, tmp_path: Path) -> None:
    small = elf("x86_64", RUNTIME, defined=("OrtGetApiBase",), alignment=4096, more=b"\0VERS_1.29.0\0")
    swapped = libraries("arm64-v8a")[RUNTIME]
    for content, said in ((small, "aligned to 4,096 bytes"), (swapped, "is for arm64-v8a, not for x86_64")):
        aar = archive_of_runtime(tmp_path / "bad.aar", changed={f"jni/x86_64/{RUNTIME}": content})
        done = edgemem("android", "package", recorded, "-o", tmp_path / "demo.apk", "--aar", aar)
        assert said in refusal(done, 1)


def test_inputs_are_not_overwritten(tools: Path, recorded: Path) -> None:
    before = tools.read_bytes()
    done = edgemem("android", "package", recorded, "-o", tools, "--aar", tools)
    assert done.exit_code == 2
    assert "would be overwritten" in done.stderr
    assert tools.read_bytes() == before


@pytest.mark.full
def test_labels(tools: Path, models: Path, tmp_path: Path) -> None:
    path, labels = tmp_path / "demo.apk", tmp_path / "labels.txt"
    classes = models / "classes.planned.onnx"
    command = ("android", "package", classes, "-o", path, "--aar", tools, "--labels", labels)
    count = onnx.load(classes).graph.output[0].type.tensor_type.shape.dim[1].dim_value
    labels.write_text("\n".join(f"class {n}" for n in range(count)) + "\r\n", encoding="utf-8-sig")
    done = edgemem(*command)
    assert done.exit_code == 0, done.output
    entries = {e.name: e.data for e in read_archive(path.read_bytes())}
    assert entries["assets/labels.txt"].decode().splitlines() == [f"class {n}" for n in range(count)]
    assert decode_info(entries[INFO]).labels
    labels.write_text("one\ntwo\n")
    assert f"labels.txt has 2 labels, the model has {count:,} classes" in refusal(edgemem(*command), 1)
    labels.write_bytes(b"\xff\xfe\x00")
    assert "no UTF-8 text" in refusal(edgemem(*command), 1)
    faces = edgemem("android", "package", models / "faces.planned.onnx", *command[3:])
    assert "labels are for a model of one image" in refusal(faces, 1)


def test_names_of_the_app(tools: Path, recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "demo.apk"
    command = ("android", "package", recorded, "-o", path, "--aar", tools, "--label")
    name = '@A "quoted" <name> & ümläut ${label}'
    assert edgemem(*command, name).exit_code == 0
    root = manifest.decode({e.name: e.data for e in read_archive(path.read_bytes())}[MANIFEST])
    application = root.find("application")
    assert application is not None
    assert application.get("{http://schemas.android.com/apk/res/android}label") == f"\\{name}"  # not a reference
    for wrong in ("", " ", "two\nlines", "x" * 51):
        assert "cannot be an app's name" in refusal(edgemem(*command, wrong), 1)


def test_without_cryptography(
    tools: Path, recorded: Path, apk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    output = tmp_path / "other.apk"
    for command in (("package", recorded, "-o", output, "--aar", tools), ("verify", apk)):
        assert "pip install 'edgemem-planner[android]'" in refusal(edgemem("android", *command), 1)
    assert not output.exists()


@pytest.mark.full
def test_androids_own_tools_accept_a_package(apk: Path, tmp_path: Path) -> None:
    need(ANDROIDS)
    badging = accepted(apk)
    assert "package: name='ai.edgemem.demo'" in badging
    assert "sdkVersion:'24'" in badging
    assert "native-code: 'arm64-v8a' 'x86_64'" in badging
    assert 'android:label(0x01010001)="edgemem demo"' in ran("aapt", "dump", "xmltree", apk, MANIFEST)
    data = bytearray(apk.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "flipped.apk").write_bytes(data)
    done = subprocess.run(["apksigner", "verify", tmp_path / "flipped.apk"], capture_output=True, check=False)
    assert done.returncode != 0
