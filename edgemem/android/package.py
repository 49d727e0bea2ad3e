"""A planned ONNX model becomes an APK, which Android's own tools assemble.

the sample's Java --javac, D8--> classes.dex          aapt2 --> AndroidManifest.xml, resources.arsc
both + edgemem's library + ONNX Runtime + the model --zipalign, apksigner--> APK
"""

from __future__ import annotations

import os
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

from edgemem.android.app_model import INFO, MODEL, describe_model, encode_info, read_model
from edgemem.android.library import (
    ABIS,
    OWN_LIBRARY,
    RUNTIME_LIBRARIES,
    build_library,
    check_abis,
    compile_java,
    read_archive,
    write_zip,
)
from edgemem.android.project import fill, read_template
from edgemem.android.sdk import find_platform, find_tool, run_tool
from edgemem.errors import ModelError
from edgemem.system.distribution import VERSION
from edgemem.system.files import temporary_folder, write_entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.android.app_model import AppModel
    from edgemem.android.library import Archive

__all__ = ["PAGE", "Apk", "Key", "build_apk"]

PAGE: Final = 16384  # Android maps stored libraries where they lie in the APK: at pages of up to 16 KiB

_PACKAGE: Final = "ai.edgemem.demo"
_SDKS: Final = ("--min-sdk-version", "24", "--target-sdk-version", "35")
_SPACES: Final = {
    "android": "http://schemas.android.com/apk/res/android",
    "tools": "http://schemas.android.com/tools",
}
_DEBUG_PASSWORD: Final = "android"  # noqa: S105 - Android's own for debug keys


@dataclass(frozen=True, slots=True)
class Key:
    """What signs an APK: a PKCS#12 or Java key store, and its password."""

    file: Path
    password: str


@dataclass(frozen=True, slots=True)
class Apk:
    """An APK that is not written yet, and what went into it."""

    content: bytes
    model: AppModel
    info: Mapping[str, Any]
    abis: tuple[str, ...]


def build_apk(
    model: Path,
    runtime: Path,
    *,
    library: Path | None = None,
    key: Key | None = None,
    abis: Sequence[str] = ABIS,
    toolchain: Path | None = None,
) -> Apk:
    """The APK of a planned model.

    Args:
        model: an .onnx file that carries its plan.
        runtime: ONNX Runtime's archive for Android (.aar).
        library: edgemem's library (.aar); None builds it.
        key: what signs the APK; None for Android's debug key of this user, which is made if there is none.
        abis: of `library.ABIS`.
        toolchain: as in `build_library`.

    Raises UnknownAbiError, ModelError for a model that does not go into an APK, PlanFileError and InvalidPlanError as
    `read_model`, and ToolError where a tool is missing or fails, or an archive lacks an ABI.
    """
    abis = check_abis(abis)
    if model.suffix.lower() == ".tflite":
        raise ModelError(
            f"{model.name} is a TFLite model, and LiteRT cannot be put into a package here; make a Gradle project, "
            f"which fetches it: edgemem android project {model.name} -o DIR"
        )
    found = read_model(model)
    info = describe_model(found)
    theirs = read_archive(runtime)
    libraries = {f"lib/{abi}/{name}": theirs.library(abi, name) for abi in abis for name in RUNTIME_LIBRARIES}
    with temporary_folder() as work:
        if library is None:
            library = work / "edgemem.aar"
            library.write_bytes(build_library(runtime, abis=abis, toolchain=toolchain))
        ours = read_archive(library)
        libraries |= {f"lib/{abi}/{OWN_LIBRARY}": ours.library(abi, OWN_LIBRARY) for abi in abis}
        members = _link_manifest(found.name, work)
        members |= _compile_app(ours, theirs, work)
        members |= dict(sorted(libraries.items()))
        members |= {MODEL: found.content, INFO: encode_info(info), "assets/NOTICES.txt": _notices(theirs.licence)}
        return Apk(_sign(write_zip(members), key, work), found, info, abis)


def _link_manifest(label: str, work: Path) -> dict[str, bytes]:
    """AndroidManifest.xml as Android reads it, and the table of resources: what aapt2 or aapt makes of the sample's."""
    for prefix, space in _SPACES.items():
        ET.register_namespace(prefix, space)
    root = ET.fromstring(fill(read_template("onnxruntime")["app/src/main/AndroidManifest.xml"], {"LABEL": label}))  # noqa: S314 - edgemem's own text
    root.set("package", _PACKAGE)
    for parent in root.iter():
        for child in list(parent):
            if (
                child.get(f"{{{_SPACES['tools']}}}node") == "remove"
            ):  # tells Gradle what to leave out of other manifests
                parent.remove(child)
    for application in root.iter("application"):
        application.set(f"{{{_SPACES['android']}}}extractNativeLibs", "false")
    manifest, linked = work / "AndroidManifest.xml", work / "linked.apk"
    manifest.write_bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))
    major, minor, patch = (int(part) for part in re.findall(r"\d+", f"{VERSION}.0.0")[:3])
    code = str(major * 10_000 + minor * 100 + patch)
    given = (*_SDKS, "--version-code", code, "--version-name", VERSION, "-I", find_platform())
    tool = find_tool("aapt2", "aapt")
    if tool.name == "aapt2":
        command: list[str | Path] = [tool, "link", "-o", linked, "--manifest", manifest, *given]
    else:
        command = [tool, "package", "-f", "-F", linked, "-M", manifest, *given]
    run_tool(command, cwd=work)
    with zipfile.ZipFile(linked) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _compile_app(ours: Archive, theirs: Archive, work: Path) -> dict[str, bytes]:
    """classes.dex, classes2.dex and so on: the sample's code, edgemem's library and ONNX Runtime's classes."""
    jars = {name: work / f"{name}.jar" for name in ("app", "edgemem", "onnxruntime")}
    jars["edgemem"].write_bytes(ours.classes)
    jars["onnxruntime"].write_bytes(theirs.classes)
    platform, sources = find_platform(), work / "sources"
    for name, text in read_template("onnxruntime").items():
        if name.endswith(".java"):
            file = sources / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    path = (platform, jars["edgemem"], jars["onnxruntime"])
    jars["app"].write_bytes(compile_java(sources.rglob("*.java"), path, work / "app"))
    dex = work / "dex"
    dex.mkdir()
    run_tool(
        [find_tool("d8"), "--release", "--min-api", "24", "--lib", platform, "--output", dex, *jars.values()], cwd=work
    )
    return {file.name: file.read_bytes() for file in sorted(dex.glob("*.dex"), key=lambda f: (len(f.name), f.name))}


def _notices(licence: str) -> bytes:
    """The licences of what is in the APK besides the model."""
    text = (
        f"edgemem {VERSION} is under the Apache License 2.0 (https://www.apache.org/licenses/LICENSE-2.0).\n"
        "libedgemem.so has parts of LLVM's C++ library, under the same licence with the LLVM exceptions.\n\n"
        "ONNX Runtime is under the MIT licence (https://github.com/microsoft/onnxruntime).\n\n"
    )
    return f"{text}{licence}".encode()


def _sign(package: bytes, key: Key | None, work: Path) -> bytes:
    """The package with its files aligned, and signed."""
    plain, aligned, signed = work / "plain.apk", work / "aligned.apk", work / "signed.apk"
    plain.write_bytes(package)
    run_tool([find_tool("zipalign"), "-f", str(PAGE), plain, aligned], cwd=work)
    given: list[str | Path] = ["--out", signed]
    if key is None:
        key = Key(_find_debug_key(work), _DEBUG_PASSWORD)
        given += ["--ks-key-alias", "androiddebugkey"]
    command = [find_tool("apksigner"), "sign", "--ks", key.file.absolute(), "--ks-pass", "env:EDGEMEM_KEY", *given]
    run_tool([*command, aligned], cwd=work, env={"EDGEMEM_KEY": key.password})
    return signed.read_bytes()


def _find_debug_key(work: Path) -> Path:
    """Android's debug key of this user, which Gradle uses, too; made if there is none."""
    home = os.environ.get("ANDROID_USER_HOME", "").strip()
    path = (Path(home) if home else Path.home() / ".android") / "debug.keystore"
    if not path.is_file():
        new = work / "debug.keystore"
        run_tool(
            [
                *(find_tool("keytool"), "-genkeypair", "-keystore", new, "-alias", "androiddebugkey"),
                *("-storepass", _DEBUG_PASSWORD, "-keypass", _DEBUG_PASSWORD, "-storetype", "PKCS12"),
                *(
                    "-keyalg",
                    "RSA",
                    "-keysize",
                    "2048",
                    "-validity",
                    "10950",
                    "-dname",
                    "CN=Android Debug,O=Android,C=US",
                ),
            ],
            cwd=work,
        )
        write_entry(path, new.read_bytes())
    return path
