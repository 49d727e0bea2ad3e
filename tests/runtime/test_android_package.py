"""`edgemem android aar`, `package` and `verify` with Android's own tools, and the packaged app on this machine's JVM.

libedgemem.so is compiled by this machine's compiler, and Android's classes are stand-ins; ONNX Runtime for Android, its
Java classes, the app's Java code and the model are those of the package. No phone is here.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

from edgemem.android.library import write_zip
from edgemem.android.package import Key, _sign
from edgemem.android.sdk import run_tool
from edgemem.android.sources import find_sources
from edgemem.cli.main import main
from edgemem.formats import load_model
from edgemem.planfile import decode_all
from edgemem.system.distribution import VERSION
from models.build import build
from tests.android.parts import part
from tests.android.sdk import make_sdk
from tests.android.shim import build_shim
from tests.android.subjects import make

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.full


def edgemem(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


def done(*args: object) -> str:
    result = edgemem(*args)
    assert result.exit_code == 0, result.output
    return result.stdout


def refusal(result: Result, code: int) -> str:
    """The one line on stderr of a command that failed with this exit code."""
    assert result.exit_code == code, result.output
    said = [line for line in result.stderr.splitlines() if not line.endswith(" ...")]
    assert len(said) == 1, result.stderr
    return said[0]


@dataclass(frozen=True)
class Kit:
    """ONNX Runtime's archive, edgemem's, and what is read and made."""

    folder: Path
    runtime: Path
    library: Path

    def package(self, model: Path, name: str, *options: object) -> Path:
        path = self.folder / name
        given = ("--onnxruntime", self.runtime, "--library", self.library, "--abi", "x86_64")
        done("android", "package", model, "-o", path, *given, *options)
        return path

    def planned(self, name: str, *options: str) -> Path:
        path = self.folder / f"{name}{'.'.join(options)}.onnx"
        if not path.exists():
            source = make(name, self.folder).path
            sizes = ("--dim", "T=5") if name == "dynamic" else ()
            done("plan", source, *sizes, *options, "-o", path)
        return path


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kit]:
    folder = tmp_path_factory.mktemp("android")
    sdk = make_sdk(folder / "sdk")
    runtime, library = part("onnxruntime-android"), folder / "edgemem.aar"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANDROID_HOME", str(sdk))
        patch.setenv("ANDROID_USER_HOME", str(folder / "user"))
        given = ("--abi", "x86_64", "--toolchain", sdk / "host.cmake")
        said = done("android", "aar", "--onnxruntime", runtime, "-o", library, *given)
        assert re.fullmatch(rf"{library}: [\d.]+ [KM]iB, edgemem's library for x86_64\n", said)
        yield Kit(folder, runtime, library)


@pytest.fixture(scope="module")
def apk(kit: Kit) -> Path:
    return kit.package(kit.planned("mobilenet_v2", "--record", "--android"), "demo.apk")


def test_the_library_is_an_archive_for_android(kit: Kit) -> None:
    with zipfile.ZipFile(kit.library) as archive:
        assert archive.namelist() == [
            *("AndroidManifest.xml", "R.txt", "proguard.txt", "classes.jar", "jni/x86_64/libedgemem.so")
        ]
        assert b'package="ai.edgemem"' in archive.read("AndroidManifest.xml")
        with archive.open("classes.jar") as jar, zipfile.ZipFile(jar) as classes:
            names = classes.namelist()
    assert {"ai/edgemem/PlannedModel.class", "ai/edgemem/Native.class"} <= set(names)
    assert all(name.startswith("ai/edgemem/") for name in names)


def test_a_package_is_right_and_the_same_again(kit: Kit, apk: Path) -> None:
    model = kit.planned("mobilenet_v2", "--record", "--android")
    again = kit.package(model, "again.apk")
    assert again.read_bytes() == apk.read_bytes()
    found = json.loads(done("android", "verify", apk, "--json"))
    assert found["right"]
    assert found["abis"] == ["x86_64"]
    says = {c["check"]: c["message"] for c in found["checks"]}
    assert says["signature"].startswith("CN=Android Debug")
    assert says["manifest"] == f"ai.edgemem.demo {VERSION}, from API level 24"
    assert says["alignment"].startswith("3 libraries at 16 KiB")
    with zipfile.ZipFile(apk) as archive:
        assert archive.read("assets/model.onnx") == model.read_bytes()
        assert archive.read("classes.dex")[:4] == b"dex\n"
    if shutil.which("aapt"):
        said = run_tool(["aapt", "dump", "permissions", apk], cwd=kit.folder)
        assert "uses-permission" not in said
        assert run_tool(["zipalign", "-c", "-p", "4", apk], cwd=kit.folder) == ""


def on_the_jvm(apk: Path, folder: Path) -> str:
    """What the packaged app shows on its screen."""
    classes, libraries = folder / "classes", folder / "lib"
    for place in (classes, libraries):
        place.mkdir(parents=True)
    with zipfile.ZipFile(apk) as archive:
        for entry in archive.namelist():
            if entry.startswith("lib/x86_64/"):
                (libraries / Path(entry).name).write_bytes(archive.read(entry))
    shim, home = build_shim(folder / "shim"), Path(os.environ["ANDROID_HOME"])
    with zipfile.ZipFile(part("onnxruntime-android")) as archive:
        (folder / "onnxruntime.jar").write_bytes(archive.read("classes.jar"))
    with zipfile.ZipFile(home.parent / "edgemem.aar") as archive:
        (folder / "edgemem.jar").write_bytes(archive.read("classes.jar"))
    jars = [folder / "onnxruntime.jar", folder / "edgemem.jar", home / "platforms" / "android-29" / "android.jar"]
    path = os.pathsep.join(map(str, [classes, *jars]))
    sources = find_sources() / "android/template/onnxruntime/app/src/main/java"
    run_tool(["javac", "-Xlint:all", "-Werror", "-cp", path, "-d", classes, *sources.rglob("*.java")], cwd=folder)
    options = [f"-Dapk={apk}", f"-Djava.library.path={libraries}", f"-Donnxruntime.native.path={libraries}"]
    environment = {"LD_LIBRARY_PATH": f"{shim}:{libraries}", "ORT_DISABLE_TELEMETRY": "1"}
    command = ["java", *options, "-cp", path, "android.app.Activity", "ai.edgemem.demo.MainActivity"]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True, timeout=300
    ).stdout


def fed(model: Path, opened: int) -> dict[str, Any]:
    """What the app feeds: element k of input i is the upper 24 bits of (k + 1) 2654435761 + i, as a fraction."""
    graph = onnx.load(model, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    made: dict[str, Any] = {}
    for i, info in enumerate(value for value in graph.input if value.name not in constants):
        dims = info.type.tensor_type.shape.dim
        shape = tuple(d.dim_value or (opened if at else 1) for at, d in enumerate(dims))
        dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        k = np.arange(1, math.prod(shape) + 1, dtype=np.uint64)
        bits = (k * np.uint64(2654435761) + np.uint64(i)) % np.uint64(1 << 32)
        values = (bits >> np.uint64(8)).astype(np.float32) / np.float32(1 << 24)
        made[info.name] = (values if dtype.kind == "f" else np.round(values)).astype(dtype).reshape(shape)
    return made


def on_the_desktop(path: Path, feeds: Mapping[str, Any]) -> str:
    """The SHA-256 of the outputs of ONNX Runtime for desktops."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return hashlib.sha256(
        b"".join(np.asarray(output).tobytes() for output in session.run(None, dict(feeds)))
    ).hexdigest()


@pytest.mark.parametrize(
    ("name", "options", "source"),
    [
        ("mobilenet_v2", ("--record", "--android"), "file"),
        ("dynamic", ("--record", "--android"), "file"),
        ("convolutions", (), "made on this device"),
        ("convolutions", ("--record",), "made on this device"),
    ],
)
def test_the_app_runs_in_the_plan(kit: Kit, tmp_path: Path, name: str, options: tuple[str, ...], source: str) -> None:
    model = kit.planned(name, *options)
    said = on_the_jvm(kit.package(model, "app.apk"), tmp_path)
    assert f"plan: {source}\n" in said
    assert "in ONNX Runtime 1.29.0 on CPU\n" in said
    hits = re.search(r"^(\S+) of (\S+) requests from the arena, 0 bytes from the heap$", said, re.MULTILINE)
    planned = re.search(r"^planned (\S+) bytes, measured (\S+) bytes$", said, re.MULTILINE)
    assert hits is not None, said
    assert planned is not None, said
    assert hits[1] == hits[2] != "0"
    assert planned[1] == planned[2] != "0"
    assert said.rstrip().endswith("the same without the plan")
    assert f"outputs: sha256 {on_the_desktop(model, fed(model, 5))}\n" in said


def signed(members: Mapping[str, bytes], folder: Path) -> Path:
    """A signed package of these files."""
    work = folder / "signing"
    work.mkdir()
    path = folder / "changed.apk"
    path.write_bytes(_sign(write_zip(members), None, work))
    return path


def content(apk: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(apk) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.startswith("META-INF/")}


@pytest.mark.usefixtures("kit")
def test_what_is_wrong_in_a_package_is_told(apk: Path, tmp_path: Path) -> None:
    data, cut = apk.read_bytes(), tmp_path / "cut.apk"
    cut.write_bytes(data[: len(data) // 2])
    assert str(cut) in refusal(edgemem("android", "verify", cut), 1)
    middle = data.index(content(apk)["assets/NOTICES.txt"]) + 20
    cut.write_bytes(data[:middle] + b"X" + data[middle + 1 :])
    assert "NOTICES.txt' is damaged" in refusal(edgemem("android", "verify", cut), 1)
    unsigned = tmp_path / "unsigned.apk"
    with zipfile.ZipFile(unsigned, "w") as archive:
        archive.writestr("AndroidManifest.xml", content(apk)["AndroidManifest.xml"])
    assert "apksigner failed" in refusal(edgemem("android", "verify", unsigned), 1)

    files = content(apk)
    del files["lib/x86_64/libedgemem.so"], files["classes.dex"]
    result = edgemem("android", "verify", signed(files, tmp_path))
    assert result.exit_code == 1, result.output
    assert "WRONG: there is no classes.dex" in result.stdout
    assert "WRONG: there is no lib/x86_64/libedgemem.so" in result.stdout


@pytest.mark.usefixtures("kit")
def test_a_wrong_plan_in_a_right_package_is_the_plans_fault(apk: Path, tmp_path: Path) -> None:
    files = content(apk)
    bare = tmp_path / "bare.onnx"
    onnx.save(build("blazeface", size="small"), bare)
    (tmp_path / "of.onnx").write_bytes(files["assets/model.onnx"])
    right = load_model(tmp_path / "of.onnx")
    plan = right.plan()
    assert plan is not None
    planned = tmp_path / "stale.onnx"
    load_model(bare).with_plan(plan, decode_all(plan)[0]).save(planned)
    files["assets/model.onnx"] = planned.read_bytes()
    info = json.loads(files["assets/edgemem.json"])
    info["sha256"] = hashlib.sha256(planned.read_bytes()).hexdigest()
    files["assets/edgemem.json"] = json.dumps(info).encode()
    result = edgemem("android", "verify", signed(files, tmp_path))
    assert result.exit_code == 4, result.output


@pytest.mark.exhaustive
def test_a_key_of_ones_own_signs(kit: Kit, tmp_path: Path) -> None:
    key = tmp_path / "key.p12"
    run_tool(
        [
            *("keytool", "-genkeypair", "-keystore", key, "-alias", "mine", "-storepass", "secret", "-keyalg", "EC"),
            *("-storetype", "PKCS12", "-dname", "CN=somebody", "-validity", "10000"),
        ],
        cwd=tmp_path,
    )
    model = kit.planned("mobilenet_v2", "--record", "--android")
    path = kit.package(model, "mine.apk", "--key", key, "--key-password", "secret")
    assert "CN=somebody" in done("android", "verify", path)
    given = ("--onnxruntime", kit.runtime, "--library", kit.library, "--abi", "x86_64", "--key", key)
    said = refusal(
        edgemem("android", "package", model, "-o", tmp_path / "no.apk", *given, "--key-password", "wrong"), 1
    )
    assert "apksigner failed" in said
    assert not (tmp_path / "no.apk").exists()
    assert Key(key, "secret").file == key


def test_what_cannot_be_packaged_is_refused(kit: Kit, tmp_path: Path) -> None:
    model, out = kit.planned("mobilenet_v2", "--record", "--android"), tmp_path / "out.apk"
    given = ("-o", out, "--onnxruntime", kit.runtime, "--library", kit.library)
    bare = tmp_path / "bare.onnx"
    onnx.save(build("blazeface", size="small"), bare)
    said = refusal(edgemem("android", "package", bare, *given), 4)
    assert "carries no plan; make one with: edgemem plan bare.onnx --record --android -o PLANNED" in said
    said = refusal(edgemem("android", "package", model, *given, "--abi", "armeabi-v7a"), 2)
    assert "there are no libraries for the ABI 'armeabi-v7a'; take arm64-v8a or x86_64" in said
    said = refusal(edgemem("android", "package", model, *given), 1)
    assert "has no libedgemem.so for arm64-v8a" in said
    lite = tmp_path / "net.tflite"
    lite.write_bytes(b"")
    said = refusal(edgemem("android", "package", lite, *given), 1)
    assert "make a Gradle project" in said
    said = refusal(edgemem("android", "package", model, "-o", out, "--onnxruntime", model, "--library", kit.library), 1)
    assert "is no archive for Android" in said
    result = edgemem("android", "package", model, "-o", model, "--onnxruntime", kit.runtime)
    assert result.exit_code == 2
    assert "would be overwritten" in result.stderr
    assert not out.exists()
