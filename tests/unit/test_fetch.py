"""Real models out of pinned packages: what is stored, and that nothing is when something is wrong."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from models import fetch as command
from models.fetch import CatalogueModel, FetchError, Package, catalogue, fetch

ROOT = Path(__file__).parents[2]
PERMISSIVE = {"Apache-2.0", "MIT", "BSD-3-Clause"}
FILES = {"tinymodels/a.onnx": b"the first model", "tinymodels/b.tflite": b"the second model"}
PACKAGE = Package("pypi", "tinymodels", "0.1", "MIT")


def entry(name: str, path: str) -> CatalogueModel:
    data = FILES[path]
    return CatalogueModel(name, PACKAGE, path, hashlib.sha256(data).hexdigest(), len(data), "test", "")


KNOWN = {"tiny_a": entry("tiny_a", "tinymodels/a.onnx"), "tiny_b": entry("tiny_b", "tinymodels/b.tflite")}


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel that pip finds in a folder and nowhere else; the cache is empty."""
    folder = tmp_path / "links"
    folder.mkdir()
    path = folder / "tinymodels-0.1-py3-none-any.whl"
    info = "tinymodels-0.1.dist-info"
    contents = FILES | {
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tinymodels\nVersion: 0.1\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*contents, f"{info}/RECORD"]))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
    return path


def stored(tmp_path: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (tmp_path / "cache").rglob("*") if p.is_file()}


@pytest.mark.full
def test_a_download_stores_every_model_of_the_package(wheel: Path, tmp_path: Path) -> None:
    assert wheel.is_file()
    path = fetch("tiny_a", known=KNOWN)
    assert path == tmp_path / "cache" / "models" / "tiny_a.onnx"
    assert stored(tmp_path) == {"tiny_a.onnx": b"the first model", "tiny_b.tflite": b"the second model"}


@pytest.mark.full
def test_second_call_needs_neither_package_nor_path(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fetch("tiny_b", known=KNOWN)
    wheel.unlink()
    monkeypatch.setenv("PATH", "")
    assert fetch("tiny_b", known=KNOWN) == first
    assert fetch("tiny_a", known=KNOWN).read_bytes() == b"the first model"
    # The proof that a download would have failed:
    (tmp_path / "cache" / "models" / "tiny_b.tflite").unlink()
    with pytest.raises(FetchError, match="was not downloaded"):
        fetch("tiny_b", known=KNOWN)


@pytest.mark.full
def test_a_damaged_file_in_the_cache_is_replaced(wheel: Path) -> None:
    assert wheel.is_file()
    path = fetch("tiny_a", known=KNOWN)
    path.write_bytes(b"the first mode")
    assert fetch("tiny_a", known=KNOWN).read_bytes() == b"the first model"


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="folders have no locks there")
def test_those_who_come_at_once_download_once(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wheel.is_file()
    downloads = []
    download = command._download

    def counted(package: Package, folder: Path) -> Path:
        downloads.append(package)
        return download(package, folder)

    monkeypatch.setattr(command, "_download", counted)
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda name: fetch(name, known=KNOWN), ["tiny_a", "tiny_b"] * 2))
    assert [p.read_bytes() for p in paths] == [*FILES.values()] * 2
    assert downloads == [PACKAGE]


@pytest.mark.full
@pytest.mark.parametrize("altered", ["tiny_a", "tiny_b"])
def test_another_checksum_stores_nothing(altered: str, wheel: Path, tmp_path: Path) -> None:
    assert wheel.is_file()
    known = KNOWN | {altered: replace(KNOWN[altered], sha256="0" * 64)}
    with pytest.raises(FetchError, match=r"checksum of tinymodels/.* in tinymodels==0\.1 is [0-9a-f]{64}, not 0{64}"):
        fetch("tiny_a", known=known)
    assert stored(tmp_path) == {}


@pytest.mark.full
def test_a_file_that_the_package_lacks(wheel: Path, tmp_path: Path) -> None:
    assert wheel.is_file()
    known = KNOWN | {"tiny_a": replace(KNOWN["tiny_a"], path="tinymodels/c.onnx")}
    with pytest.raises(FetchError, match=r"tinymodels==0\.1 has no file tinymodels/c\.onnx"):
        fetch("tiny_a", known=known)
    assert stored(tmp_path) == {}


@pytest.mark.full
def test_a_version_that_is_not_there(wheel: Path, tmp_path: Path) -> None:
    assert wheel.is_file()
    other = Package("pypi", "tinymodels", "0.2", "MIT")
    with pytest.raises(FetchError, match=r"tinymodels==0\.2 was not downloaded; check the network"):
        fetch("tiny_a", known={"tiny_a": replace(KNOWN["tiny_a"], package=other)})
    assert stored(tmp_path) == {}


def test_npm_is_named_when_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FetchError, match=r"npm, which is not on PATH; install Node\.js"):
        fetch("mp_hand_landmark_lite")


def test_an_unknown_name() -> None:
    with pytest.raises(FetchError, match=r"no model 'mp_foot'; .*--list"):
        fetch("mp_foot")


def test_npm_tarballs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "tiny-0.1.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in FILES.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    wanted = {"package/tinymodels/a.onnx", "package/absent.onnx"}
    assert command._members(path, wanted) == {"package/tinymodels/a.onnx": b"the first model"}
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(FetchError, match=r"tiny-0\.1\.tgz is damaged"):
        command._members(path, wanted)


def test_catalogue_is_pinned_and_permissive() -> None:
    known = catalogue()
    assert {m.package.licence for m in known.values()} <= PERMISSIVE
    assert len({m.sha256 for m in known.values()}) == len(known)
    for model in known.values():
        assert re.fullmatch(r"[0-9a-f]{64}", model.sha256)
        assert re.fullmatch(r"[0-9][0-9a-z.]*", model.package.version)
        assert model.size > 0
        assert model.family


@pytest.mark.full
@pytest.mark.parametrize("name", ["mww_alexa", "mp_selfie_npm"])
def test_a_real_model(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
    try:
        path = fetch(name)
    except FetchError as error:
        if "was not downloaded" in str(error) or "not on PATH" in str(error):
            pytest.skip(f"the registry cannot be reached: {error}")
        raise
    data = path.read_bytes()
    assert data[4:8] == b"TFL3"
    assert len(data) == catalogue()[name].size
    assert hashlib.sha256(data).hexdigest() == catalogue()[name].sha256


@pytest.mark.full
def test_command_line_copies_and_explains(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wheel.is_file()
    table = tmp_path / "catalogue.toml"
    packages = (
        '[packages]\ntiny = { registry = "pypi", name = "tinymodels", version = "0.1", licence = "MIT" }\n'
        'gone = { registry = "pypi", name = "gonemodels", version = "0.1", licence = "MIT" }\n'
    )
    models = "".join(
        f'[models.{name}]\npackage = "{package}"\npath = "{m.path}"\nsha256 = "{m.sha256}"\nsize = {m.size}\n'
        'family = "test"\nremarks = ""\n'
        for name, package, m in (
            ("gone_a", "gone", KNOWN["tiny_a"]),
            ("gone_b", "gone", KNOWN["tiny_b"]),
            ("tiny_a", "tiny", KNOWN["tiny_a"]),
        )
    )
    table.write_text(packages + models)
    monkeypatch.setattr(command, "CATALOGUE", table)
    assert command.main(["tiny_a", "-o", str(tmp_path / "copy")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "copy" / "tiny_a.onnx")
    assert (tmp_path / "copy" / "tiny_a.onnx").read_bytes() == b"the first model"

    assert command.main(["all"]) == 1
    out, err = capsys.readouterr()
    assert out.strip() == str(tmp_path / "cache" / "models" / "tiny_a.onnx")
    # One line for the package, not one for each of its models.
    assert err.count("gonemodels==0.1 was not downloaded") == 1
    assert command.main([]) == 2
    assert command.main(["--list"]) == 0
    assert "tinymodels==0.1" in capsys.readouterr().out


def test_script_runs_from_the_checkout() -> None:
    done = subprocess.run(
        [sys.executable, "models/fetch.py", "--list"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(catalogue())


def test_an_installed_package_is_read_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    info = tmp_path / "site" / "tinymodels-0.1.dist-info"
    info.mkdir(parents=True)
    for name, data in FILES.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tinymodels\nVersion: 0.2\n", encoding="utf-8")
    with pytest.raises(FetchError, match="was not downloaded"):
        fetch("tiny_a", known=KNOWN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tinymodels\nVersion: 0.1\n", encoding="utf-8")
    path = tmp_path / "site/tinymodels/b.tflite"
    path.write_bytes(b"another")
    with pytest.raises(FetchError, match="checksum"):
        fetch("tiny_a", known=KNOWN)
    path.write_bytes(FILES["tinymodels/b.tflite"])
    assert fetch("tiny_a", known=KNOWN).read_bytes() == FILES["tinymodels/a.onnx"]
