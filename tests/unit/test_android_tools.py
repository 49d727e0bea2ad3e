"""Android's own tools and edgemem agree on packages: apksigner, zipalign and aapt, where they are installed."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgemem.android import manifest
from edgemem.android.archive import Entry, read_archive, write_archive
from edgemem.android.signing import PADDING, V2, V3, sign, verify_signature
from edgemem.errors import ApkError
from tests.android_packages import ENTRIES, KEYS, MANIFEST, block_at, end_of, key, pairs, store, with_block

if TYPE_CHECKING:
    from collections.abc import Sequence

_JAR = Path("/usr/share/java/apksig.jar")
# Verifies packages by the library of apksigner, many in one process.
_VERIFIER = """
import com.android.apksig.ApkVerifier;
import java.io.File;

class Verifier {
  public static void main(String[] names) {
    for (String name : names) {
      String answer;
      try {
        ApkVerifier.Result r =
            new ApkVerifier.Builder(new File(name)).setMinCheckedPlatformVersion(24).build().verify();
        answer = r.isVerified() && r.isVerifiedUsingV2Scheme() ? "yes" : "no";
      } catch (Exception e) {
        answer = "no";
      }
      System.out.println(answer);
    }
  }
}
"""


def _tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name} here")
    return path


def _run(name: str, *arguments: str | Path) -> str:
    """What a tool prints; it must succeed."""
    done = subprocess.run([_tool(name), *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _apksigner_takes(packages: Sequence[bytes], folder: Path) -> list[bool]:
    """Which packages apksigner's library verifies."""
    if shutil.which("javac") is None or not _JAR.exists():
        pytest.skip("no apksigner here")
    names = []
    for number, package in enumerate(packages):
        (folder / f"{number}.apk").write_bytes(package)
        names.append(str(folder / f"{number}.apk"))
    (folder / "Verifier.java").write_text(_VERIFIER)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", str(_JAR), str(folder / "Verifier.java"), *names]
    environment = {n: v for n, v in os.environ.items() if n != "JAVA_TOOL_OPTIONS"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    answers = done.stdout.split()
    assert len(answers) == len(packages)
    return [answer == "yes" for answer in answers]


def _edgemem_takes(package: bytes) -> bool:
    try:
        verify_signature(package)
    except ApkError:
        return False
    return True


@cache
def _signed() -> bytes:
    return sign(write_archive(ENTRIES), key("rsa2048"))


def _apksigned(folder: Path, kind: str, *options: str) -> bytes:
    """The package of the same files, signed by apksigner."""
    plain, path = folder / "plain.apk", folder / "signed.apk"
    plain.write_bytes(write_archive(ENTRIES).to_bytes())
    keys = ("--ks", store(folder, kind), "--ks-pass", "pass:secret", "--ks-key-alias", "key", "--ks-type", "PKCS12")
    _run(
        "apksigner",
        "sign",
        *keys,
        "--min-sdk-version",
        "24",
        "--v4-signing-enabled",
        "false",
        *options,
        "--out",
        path,
        plain,
    )
    return path.read_bytes()


@pytest.mark.parametrize("kind", KEYS)
def test_apksigner_verifies_what_edgemem_signs(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.apk"
    package = sign(write_archive(ENTRIES), key(kind))
    path.write_bytes(package)
    said = _run("apksigner", "verify", "--verbose", "--print-certs", "--min-sdk-version", "24", path)
    assert "Verified using v2 scheme (APK Signature Scheme v2): true" in said
    assert "Number of signers: 1" in said
    assert f"SHA-256 digest: {verify_signature(package).certificate_sha256}" in said
    assert f"certificate DN: {verify_signature(package).subject}" in said
    assert "WARNING" not in said


def test_apksigner_takes_no_older_signature_for_it(tmp_path: Path) -> None:
    """Below Android 7 the scheme is not known, and there is no JAR signature."""
    (tmp_path / "a.apk").write_bytes(_signed())
    command = [_tool("apksigner"), "verify", "--min-sdk-version", "23", str(tmp_path / "a.apk")]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


@pytest.mark.full
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("is_v3", [False, True])
def test_edgemem_accepts_what_apksigner_signs(kind: str, is_v3: bool, tmp_path: Path) -> None:
    package = _apksigned(tmp_path, kind, "--v3-signing-enabled", str(is_v3).lower())
    assert (V3 in dict(pairs(package))) == is_v3
    assert verify_signature(package) == verify_signature(sign(write_archive(ENTRIES), key(kind)))
    found = {e.name: (e.data, e.stored) for e in read_archive(package) if not e.name.startswith("META-INF/")}
    assert found == {e.name: (e.data, e.stored) for e in ENTRIES}
    assert {e.name: e.alignment for e in read_archive(package)}["lib/x86_64/libone.so"] >= 4096


@pytest.mark.full
def test_both_refuse_the_same_changes_of_edgemems_package(tmp_path: Path) -> None:
    package = _signed()
    _compare(package, _changes(package), tmp_path)


@pytest.mark.full
def test_both_refuse_the_same_changes_of_apksigners_package(tmp_path: Path) -> None:
    package = _apksigned(tmp_path, "p256", "--v3-signing-enabled", "true")
    without_v3 = [(number, value) for number, value in pairs(package) if number != V3]
    _compare(package, [*_changes(package), with_block(package, without_v3)], tmp_path)


def _compare(package: bytes, changed: list[bytes], folder: Path) -> None:
    """Edgemem refuses all changes, those that apksigner refuses among them."""
    first, *answers = _apksigner_takes([package, *changed], folder)
    assert first
    assert _edgemem_takes(package)
    taken = [_edgemem_takes(c) for c in changed]
    assert not [n for n, (theirs, ours) in enumerate(zip(answers, taken, strict=True)) if ours and not theirs]
    assert not any(taken)
    assert answers.count(False) > 0.6 * len(answers)


def _changes(package: bytes) -> list[bytes]:
    """The package with one changed bit in each of its regions, cut short, and longer."""
    block, (directory, end) = block_at(package), end_of(package)
    used = block + 8 + sum(12 + len(value) for number, value in pairs(package) if number != PADDING)
    places = [
        *range(0, block, max(block // 40, 1)),
        *range(block, used, max((used - block) // 120, 1)),
        *range(used, used + 24),
        *range(directory - 24, directory),
        *range(directory, end, 3),
        *range(end, len(package)),
    ]
    flipped = [package[:at] + bytes([package[at] ^ 1 << at % 8]) + package[at + 1 :] for at in places]
    cut = [package[:at] for at in (0, 21, 22, block, directory, end, end + 4, len(package) - 1)]
    return [*flipped, *cut, package + b"\0", package + b"PK\5\6" + bytes(18)]


@pytest.mark.full
def test_both_refuse_wrong_blocks(tmp_path: Path) -> None:
    package, other = _signed(), sign(write_archive(ENTRIES[::-1]), key("rsa2048"))
    (_, value), padding = pairs(package)
    changed = [
        with_block(package, []),
        with_block(package, [padding]),
        with_block(package, [(V2, b""), padding]),
        with_block(package, [(V2, struct.pack("<I", 0xFFFFFFF0) + value[4:]), padding]),
        with_block(package, [(V2, value[:-1]), padding]),
        with_block(package, [(V2, pairs(other)[0][1]), padding]),  # of other files
        with_block(package, [(V3, value), padding]),
    ]
    assert not any(_apksigner_takes(changed, tmp_path))
    assert not any(map(_edgemem_takes, changed))


def test_zipalign_finds_the_alignment(tmp_path: Path) -> None:
    path = tmp_path / "a.apk"
    path.write_bytes(_signed())
    assert "Verification successful" in _run("zipalign", "-c", "-v", "-p", "4", path)
    path.write_bytes(
        sign(write_archive([Entry("a.so", b"", alignment=1), Entry("b", b"12", alignment=1)]), key("p256"))
    )
    command = [_tool("zipalign"), "-c", "-p", "4", str(path)]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


def test_edgemem_reads_what_zipalign_aligns(tmp_path: Path) -> None:
    plain = write_archive([Entry(e.name, e.data, e.stored, 1) for e in ENTRIES]).to_bytes()
    (tmp_path / "plain.apk").write_bytes(plain)
    _run("zipalign", "-p", "4", tmp_path / "plain.apk", tmp_path / "aligned.apk")
    found = read_archive((tmp_path / "aligned.apk").read_bytes())
    assert [(e.name, e.data) for e in found] == [(e.name, e.data) for e in ENTRIES]
    assert all(e.alignment >= 4 for e in found if e.stored)


def test_aapt_shows_the_manifest_as_given(tmp_path: Path) -> None:
    path = tmp_path / "a.apk"
    path.write_bytes(_signed())
    shown = _run("aapt", "dump", "xmltree", path, "AndroidManifest.xml")
    assert [line.strip() for line in shown.splitlines()] == [
        "N: android=http://schemas.android.com/apk/res/android",
        "E: manifest (line=2)",
        "A: android:versionCode(0x0101021b)=(type 0x10)0x7",
        'A: android:versionName(0x0101021c)="1.2" (Raw: "1.2")',
        'A: package="ai.edgemem.test" (Raw: "ai.edgemem.test")',
        "E: uses-sdk (line=4)",
        "A: android:minSdkVersion(0x0101020c)=(type 0x10)0x18",
        "A: android:targetSdkVersion(0x01010270)=(type 0x10)0x23",
        "E: application (line=5)",
        "A: android:theme(0x01010000)=@0x01030241",
        'A: android:label(0x01010001)="A <label>, \u00e4\U0001f600" (Raw: "A <label>, \u00e4\U0001f600")',
        "A: android:hasCode(0x0101000c)=(type 0x12)0xffffffff",
        "A: android:extractNativeLibs(0x010104ea)=(type 0x12)0x0",
        "E: activity (line=7)",
        'A: android:name(0x01010003)=".MainActivity" (Raw: ".MainActivity")',
        "A: android:exported(0x01010010)=(type 0x12)0xffffffff",
        "A: android:screenOrientation(0x0101001e)=(type 0x10)0x1",
        "A: android:configChanges(0x0101001f)=(type 0x11)0x480",
        "E: intent-filter (line=9)",
        "E: action (line=10)",
        'A: android:name(0x01010003)="android.intent.action.MAIN" (Raw: "android.intent.action.MAIN")',
        "E: category (line=11)",
        'A: android:name(0x01010003)="android.intent.category.LAUNCHER" (Raw: "android.intent.category.LAUNCHER")',
    ]


def test_aapt_knows_the_package(tmp_path: Path) -> None:
    """It prints a label only for the locales of a table of resources, and there is none."""
    path = tmp_path / "a.apk"
    path.write_bytes(_signed())
    said = _run("aapt", "dump", "badging", path)
    for line in (
        "package: name='ai.edgemem.test' versionCode='7' versionName='1.2'",
        "sdkVersion:'24'",
        "targetSdkVersion:'35'",
        "launchable-activity: name='ai.edgemem.test.MainActivity'",
        "native-code: 'x86_64'",
    ):
        assert line in said


_FRAMEWORK = Path("/usr/share/android-framework-res/framework-res.apk")


def _framework() -> Path:
    if not _FRAMEWORK.exists():
        pytest.skip("no framework-res.apk here")
    return _FRAMEWORK


def test_aapt_compiles_the_same_text_to_the_same_manifest(tmp_path: Path) -> None:
    """Also the kinds of values: aapt takes them from the framework, edgemem from its table."""
    text = MANIFEST.replace(
        "    <activity",
        "".join(
            f'    <meta-data android:name="n" android:value="{value}" />\n'
            for value in (
                "7",
                "-7",
                "0x1f",
                "true",
                "1.5",
                "text",
                "#fff",
                "#12345678",
                "@android:drawable/sym_def_app_icon",
            )
        )
        + "    <activity android:name='.Other' android:launchMode='singleTask' android:maxAspectRatio='2'\n"
        "      android:windowSoftInputMode='stateHidden|adjustResize' android:screenOrientation='unspecified' />\n"
        "    <activity",
        1,
    )
    (tmp_path / "AndroidManifest.xml").write_text(text, encoding="utf-8")
    theirs = tmp_path / "theirs.apk"
    _run("aapt", "package", "-f", "-M", tmp_path / "AndroidManifest.xml", "-I", _framework(), "-F", theirs)
    by_aapt = next(e for e in read_archive(theirs.read_bytes()) if e.name == "AndroidManifest.xml").data
    expected, found = manifest.decode(by_aapt), manifest.decode(manifest.encode(text))
    for added in ("platformBuildVersionCode", "platformBuildVersionName", f"{{{manifest.ANDROID}}}compileSdkVersion"):
        expected.attrib.pop(added, None)
    expected.attrib.pop(f"{{{manifest.ANDROID}}}compileSdkVersionCodename", None)
    assert [(e.tag, e.attrib) for e in found.iter()] == [(e.tag, e.attrib) for e in expected.iter()]


def test_the_table_of_attributes_is_the_frameworks() -> None:
    import re

    from edgemem.android.attributes import ATTRIBUTES, RESOURCES

    said = _run("aapt", "dump", "--values", "resources", _framework())
    ids = dict(re.findall(r"spec resource (0x0102[0-9a-f]{4}) android:id/(\S+):", said))
    bag = re.compile(
        r"^        resource (0x0101[0-9a-f]{4}) android:attr/(\S+): <bag> \(PUBLIC\)\n.*\n((?:          #.*\n)*)",
        re.MULTILINE,
    )
    theirs = {}
    for number, name, members in bag.findall(said):
        values = {k: int(v, 16) for k, v in re.findall(r"Key=(0x\w+)\): \(color\) #(\w+)", members)}
        form = values.pop("0x01000000")
        theirs[name] = (int(number, 16), form, {ids[k]: v for k, v in values.items() if k in ids})
    later = {"dataExtractionRules", "enableOnBackInvokedCallback"}  # than Debian's framework
    assert set(ATTRIBUTES) - set(theirs) == later
    for name in set(ATTRIBUTES) - later:
        known = ATTRIBUTES[name]
        ours = (known.number, known.format, {n: v & 0xFFFFFFFF for n, v in known.names.items()})
        assert ours == theirs[name], name
    resources = dict(re.findall(r"spec resource (0x01\w{6}) android:((?:style|drawable)/\S+):", said))
    assert {f"0x{number:08x}": name for name, number in RESOURCES.items()}.items() <= resources.items()
