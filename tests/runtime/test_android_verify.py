"""`edgemem android verify`: packages that were cut, changed, or made wrongly and signed rightly."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from edgemem.android import manifest
from edgemem.android.archive import Entry, read_archive, write_archive
from edgemem.android.contents import INFO, MANIFEST, MODEL
from edgemem.android.keys import SigningKey, debug_key
from edgemem.android.signing import sign
from edgemem.runtime.onnxruntime.file import plans_in, with_plans
from tests.android.accepted import ANDROIDS, ran
from tests.android.packaged import edgemem, make_models, new_key, package_of, refusal, tools_replaced
from tests.android.tools import need
from tests.android_parts import NATIVE, RUNTIME, RUNTIME_JNI, dex_file, elf, libraries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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
def apk(packaged: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "demo.apk"
    path.write_bytes(packaged)
    return path


def test_a_truncated_package(apk: Path, tmp_path: Path) -> None:
    data, cut = apk.read_bytes(), tmp_path / "cut.apk"
    for length in (0, 1, 21, 4096, len(data) // 2, len(data) - 22, len(data) - 1):
        cut.write_bytes(data[:length])
        assert refusal(edgemem("android", "verify", cut), 1).startswith(f"edgemem: {cut}: ")
    cut.write_bytes(data + b"\0")
    refusal(edgemem("android", "verify", cut), 1)


def test_one_flipped_byte_anywhere(apk: Path, tmp_path: Path) -> None:
    data, changed = apk.read_bytes(), tmp_path / "changed.apk"
    rng = np.random.default_rng(1)
    for place in [0, *rng.integers(0, len(data), 40), *range(len(data) - 22, len(data))]:
        flipped = bytearray(data)
        flipped[place] ^= 1 << int(rng.integers(8))
        changed.write_bytes(flipped)
        assert str(changed) in refusal(edgemem("android", "verify", changed), 1), place


def changed(entry: str, **values: Any) -> Callable[[dict[str, Entry]], None]:
    """A change of one file of a package."""

    def change(entries: dict[str, Entry]) -> None:
        entries[entry] = replace(entries[entry], **values)

    return change


def without(name: str) -> Callable[[dict[str, Entry]], None]:
    def change(entries: dict[str, Entry]) -> None:
        del entries[name]

    return change


def said_in_info(**values: Any) -> Callable[[dict[str, Entry]], None]:
    def change(entries: dict[str, Entry]) -> None:
        data = json.loads(entries[INFO].data) | values
        entries[INFO] = replace(entries[INFO], data=json.dumps(data).encode())

    return change


def in_manifest(attribute: str, value: str) -> Callable[[dict[str, Entry]], None]:
    """Another value of an attribute of the manifest."""

    def change(entries: dict[str, Entry]) -> None:
        root = manifest.decode(entries[MANIFEST].data)
        name = f"{{http://schemas.android.com/apk/res/android}}{attribute}"
        element = next(e for e in root.iter() if name in e.keys())  # noqa: SIM118 - an element has no `in` of its own
        element.set(name, value)
        text = ET.tostring(root, encoding="unicode")
        entries[MANIFEST] = replace(entries[MANIFEST], data=manifest.encode(text))

    return change


FAULTS: dict[str, tuple[Callable[[dict[str, Entry]], None], str, str]] = {
    "unaligned library": (changed(f"lib/x86_64/{RUNTIME}", alignment=4096), "alignment", "no multiple of 16,384"),
    "packed library": (changed(f"lib/x86_64/{NATIVE}", stored=False), "alignment", "Android cannot map it"),
    "packed model": (changed(MODEL, stored=False), "alignment", "Android cannot map it"),
    "library of one ABI is missing": (
        without(f"lib/x86_64/{RUNTIME_JNI}"),
        "libraries",
        f"lib/x86_64 has no {RUNTIME_JNI}",
    ),
    "library for another machine": (
        changed(f"lib/x86_64/{NATIVE}", data=libraries("arm64-v8a")[NATIVE]),
        "libraries",
        "is for arm64-v8a, not for x86_64",
    ),
    "library for small pages": (
        changed(f"lib/x86_64/{RUNTIME}", data=elf("x86_64", RUNTIME, defined=("OrtGetApiBase",), alignment=4096)),
        "libraries",
        "aligned to 4,096 bytes",
    ),
    "library that needs another": (
        changed(f"lib/arm64-v8a/{RUNTIME}", data=elf("arm64-v8a", RUNTIME, needed=("libomp.so",))),
        "libraries",
        "needs libomp.so",
    ),
    "library without what Java calls": (
        changed(f"lib/arm64-v8a/{NATIVE}", data=elf("arm64-v8a", NATIVE, defined=("RegisterCustomOps",))),
        "libraries",
        "it is another library",
    ),
    "library that is cut short": (
        changed(f"lib/x86_64/{NATIVE}", data=libraries("x86_64")[NATIVE][:200]),
        "libraries",
        f"lib/x86_64/{NATIVE}: ",
    ),
    "code that is damaged": (changed("classes2.dex", data=dex_file(3)[:-1] + b"\7"), "code", "classes2.dex is damaged"),
    "code that is cut short": (changed("classes.dex", data=dex_file(3)[:100]), "code", "classes.dex is no dex file"),
    "no code": (without("classes.dex"), "code", "there is no classes.dex"),
    "no manifest": (without(MANIFEST), "manifest", f"there is no {MANIFEST}"),
    "manifest for older devices": (in_manifest("minSdkVersion", "21"), "manifest", "minSdkVersion is 21"),
    "libraries would be copied": (
        in_manifest("extractNativeLibs", "true"),
        "manifest",
        "extractNativeLibs is not false",
    ),
    "no model": (without(MODEL), "model", f"there is no {MODEL}"),
    "no description": (without(INFO), "model", f"there is no {INFO}"),
    "description of another model": (said_in_info(sha256="0" * 64), "model", "is not the file whose sha256"),
    "description without shapes": (said_in_info(shapes=None), "model", "is damaged"),
    "description with other sizes": (said_in_info(shapes={"image": [1, 3, 96, 96]}), "model", "other inputs or sizes"),
    "labels that are not there": (said_in_info(labels="labels.txt"), "model", "there is no assets/labels.txt"),
    "licence left out": (without("assets/NOTICES.txt"), "model", "there is no assets/NOTICES.txt"),
}


def signed(apk: Path, change: Callable[[dict[str, Entry]], None], key: SigningKey) -> None:
    """Change a package's files, and sign it again."""
    entries = {e.name: e for e in read_archive(apk.read_bytes())}
    change(entries)
    apk.write_bytes(sign(write_archive(entries.values()), key))


@pytest.mark.full
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_under_a_right_signature(apk: Path, fault: str) -> None:
    change, check, said = FAULTS[fault]
    signed(apk, change, debug_key())
    done = edgemem("android", "verify", apk, "--json")
    assert done.exit_code == 1, done.output
    wrong = [c for c in json.loads(done.stdout)["checks"] if not c["right"]]
    assert [c["check"] for c in wrong] == [check]
    assert said in wrong[0]["message"]
    shown = edgemem("android", "verify", apk)
    assert shown.exit_code == 1
    assert re.search(r": 1 of \d+ checks failed, ", shown.output.splitlines()[0])
    assert "WRONG: " in shown.output


def with_model(content: bytes) -> Callable[[dict[str, Entry]], None]:
    """Another model in the place of the package's, and described rightly."""
    import hashlib

    def change(entries: dict[str, Entry]) -> None:
        entries[MODEL] = replace(entries[MODEL], data=content)
        said_in_info(sha256=hashlib.sha256(content).hexdigest())(entries)

    return change


def test_a_model_inside_whose_plan_is_missing_or_stale(apk: Path, models: Path, recorded: Path) -> None:
    before = apk.read_bytes()
    plain = (models / "classes.onnx").read_bytes()
    stale = with_plans(plain, plans_in(recorded.read_bytes()))
    damaged = recorded.read_bytes().replace(b"edgemem.plan", b"edgemem.plam")
    for content, said in ((plain, "carries no plan"), (stale, "another graph"), (damaged, "carries no plan")):
        apk.write_bytes(before)
        signed(apk, with_model(content), debug_key())
        done = edgemem("android", "verify", apk, "--json")
        assert done.exit_code == 4, done.output
        wrong = [c for c in json.loads(done.stdout)["checks"] if not c["right"]]
        assert any(said in c["message"] for c in wrong)
        assert {c["check"] for c in wrong} <= {"plan", "proof"}


def test_no_package(tmp_path: Path, recorded: Path) -> None:
    assert "no file" in refusal(edgemem("android", "verify", tmp_path / "none.apk"), 1)
    assert str(recorded) in refusal(edgemem("android", "verify", recorded), 1)


@pytest.mark.full
def test_a_package_that_apksigner_signed_again_is_right(apk: Path, tmp_path: Path) -> None:
    need(ANDROIDS)
    path, key = tmp_path / "again.apk", new_key(tmp_path)
    ran(
        *("apksigner", "sign", "--ks", key, "--ks-type", "PKCS12", "--ks-pass", "pass:secret"),
        *("--min-sdk-version", "24", "--out", path, apk),
    )
    done = edgemem("android", "verify", path)
    assert done.exit_code == 0, done.output
    assert "CN=somebody" in done.output
