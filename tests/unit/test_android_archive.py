"""Archives for Android that strangers made: their limits, and what two readers would read differently."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from edgemem.android.app_model import read_info
from edgemem.android.library import read_archive
from edgemem.cli.main import main
from edgemem.errors import ApkError, ToolError

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "assets/model.onnx"


def package(*names: str, method: int = zipfile.ZIP_STORED, content: bytes = bytes(range(256)) * 4) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return out.getvalue()


def said_of(data: bytes, folder: Path) -> str:
    """What `android verify` says of a package; every one here ends before a tool of Android's is asked."""
    path = folder / "a.apk"
    path.write_bytes(data)
    done = CliRunner().invoke(main, ["android", "verify", str(path)])
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    return " ".join(done.output.split())


def test_a_package_of_too_many_files(tmp_path: Path) -> None:
    assert "more than 10,000 files" in said_of(package(*map(str, range(10_001)), content=b""), tmp_path)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_methods_that_android_does_not_read(method: int, tmp_path: Path) -> None:
    data = bytearray(package(MODEL, method=method))
    for at in (2, 4, 12, 20):
        data[30 + len(MODEL) + at] ^= 0xFF
    assert f"'{MODEL}' is packed in a way that Android does not read" in said_of(bytes(data), tmp_path)
    (tmp_path / "a.aar").write_bytes(package("classes.jar", method=method))
    with pytest.raises(ToolError, match=r"'classes\.jar' is packed in a way"):
        read_archive(tmp_path / "a.aar")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    data = bytearray(package("a", MODEL, method=zipfile.ZIP_DEFLATED))
    data[data.rindex(MODEL.encode(), 0, data.index(b"PK\x01\x02")) + len(MODEL)] ^= 0xFF
    assert f"'{MODEL}' is damaged" in said_of(bytes(data), tmp_path)
    data = bytearray(package("classes.jar", method=zipfile.ZIP_DEFLATED))
    data[30 + len("classes.jar")] ^= 0xFF
    (tmp_path / "a.aar").write_bytes(data)
    with pytest.raises(ToolError, match=r"'classes\.jar' is damaged"):
        read_archive(tmp_path / "a.aar")


def _shifted(data: bytes, more: bytes, *, at: int) -> bytes:
    """The package with bytes put before its directory's begin, or between two files, and the numbers that follow."""
    end = len(data) - 22
    begin = int.from_bytes(data[end + 16 : end + 20], "little")
    changed = bytearray(data[:at] + more + data[at:])
    changed[end + len(more) + 16 : end + len(more) + 20] = (begin + len(more)).to_bytes(4, "little")
    entry = begin + len(more)
    while changed[entry : entry + 4] == b"PK\x01\x02":
        where = int.from_bytes(changed[entry + 42 : entry + 46], "little")
        if where >= at:
            changed[entry + 42 : entry + 46] = (where + len(more)).to_bytes(4, "little")
        entry += 46 + sum(struct.unpack_from("<3H", changed, entry + 28))
    return bytes(changed)


def _block(size: int) -> bytes:
    number = (size - 8).to_bytes(8, "little")
    return number + bytes(size - 32) + number + b"APK Sig Block 42"


def test_what_two_readers_read_differently(tmp_path: Path) -> None:
    data = package("a", "b")
    directory = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x03\x04", 4)
    name = data.index(b"b", second)
    assert "two.apk" not in said_of(data, tmp_path)
    cases = {
        "does not end with its directory": data + b"x",
        "begins at byte": _shifted(data, b"gap", at=second),
        "between its files and their directory": _shifted(data, b"more", at=directory),
        "contradicts the directory": data[:name] + b"c" + data[name + 1 :],
        "its signing block is damaged": _shifted(data, _block(1 << 21), at=directory),
        "twice": _twice(),
        "too short": b"PK",
    }
    for why, case in cases.items():
        assert why in said_of(case, tmp_path), why
    # A signing block behind zeros up to a page is where it belongs: what is missing then is the program that reads it,
    # or a signature.
    right = said_of(_shifted(data, bytes(100) + _block(4096), at=directory), tmp_path)
    assert "apksigner" in right


def _twice() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", b"1")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a", b"2")
    return out.getvalue()


def test_a_manifest_of_too_many_elements(tmp_path: Path) -> None:
    deep = bytes(8) + struct.pack("<HHI", 0x0102, 8, 8) * 33
    assert "more than 32 elements" in said_of(package("AndroidManifest.xml", content=deep), tmp_path)
    assert "more than 1,048,576 bytes" in said_of(package("AndroidManifest.xml", content=bytes(2 << 20)), tmp_path)
    assert "apksigner" in said_of(package("AndroidManifest.xml", content=bytes(8) + deep[8:][: 8 * 32]), tmp_path)


@pytest.mark.parametrize("shape", ["[Infinity]", "[NaN]", "[1e300]", '["5"]', "[true]", "[-1]", "[1.0]", "5", "[[1]]"])
def test_dimensions_that_are_no_numbers(shape: str) -> None:
    head = {"form": "onnx", "model": "model.onnx", "level": "extended", "sha256": "0" * 64, "shapes": {}}
    assert read_info(json.dumps(head).encode())["shapes"] == {}
    text = json.dumps(head)[:-2] + f'{{"image": {shape}}}}}'
    with pytest.raises(ApkError, match="is damaged"):
        read_info(text.encode())
