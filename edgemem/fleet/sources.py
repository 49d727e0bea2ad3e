"""Models of a fleet: which ones arguments name, their bytes here, and their digests. URLs are read through fsspec."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from edgemem.errors import MissingDependencyError, ModelError
from edgemem.fleet.secrets import is_url, public_name, without_secrets
from edgemem.formats import weight_files
from edgemem.system.found_files import found_files
from edgemem.system.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FleetModel", "digest_of", "fetch", "file_system", "find_sources", "stamp_of", "write_url"]

# What file systems tell of a file that changes with its content.
_STAMPS: Final = ("ETag", "etag", "LastModified", "last_modified", "generation", "md5Hash", "mtime", "created")


@dataclass(frozen=True, slots=True)
class FleetModel:
    """A model that an argument names.

    Attributes:
        name: as the argument has it, without secrets.
        location: the absolute path, or the URL; "" where the argument names none.
        inside: its path from the folder that was searched; of a model that is named itself, its name alone.
        why_none: why the argument names none.
    """

    name: str
    location: str
    inside: PurePath
    why_none: str = ""


def find_sources(
    arguments: Sequence[str], suffixes: Sequence[str], without: Path | None = None
) -> tuple[FleetModel, ...]:
    """The models that files, folders, globs and URLs of these name, as `found_files`.

    Raises MissingDependencyError for a URL without fsspec, and ModelError where the URL cannot be read.
    """
    found: dict[str, FleetModel] = {}
    for text in arguments:
        files = () if is_url(text) else found_files([text], suffixes, without=without)
        here = [FleetModel(f.name, str(f.path.absolute()) if f.path else "", f.inside, f.why_none) for f in files]
        for source in here or _remote(text, suffixes):
            found.setdefault(source.location or source.name, source)
    return tuple(found.values())


def file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it. Raises MissingDependencyError, or ModelError for an unknown one."""
    try:
        import fsspec
    except ImportError:
        raise MissingDependencyError(purpose="a URL", package="fsspec") from None
    try:
        system, path = fsspec.url_to_fs(url)
    except (ImportError, ValueError) as e:  # no back end is installed, or there is none
        raise ModelError(f"cannot open {public_name(url)}: {without_secrets(str(e), url)}") from None
    return system, path


def write_url(system: Any, path: str, content: bytes) -> None:
    """Write an object, which a bucket replaces as a whole. Raises OSError if it cannot be written."""
    try:
        system.pipe_file(path, content)
    except Exception as e:  # noqa: BLE001 - each back end has errors of its own
        raise OSError(without_secrets(f"cannot write {path}: {type(e).__name__} {e}")) from None


def fetch(url: str, folder: Path) -> Path:
    """Copy a model, and the files with its weights, into a folder. Raises OSError if it cannot be read."""
    system, path = file_system(url)
    to = folder / _name(url)
    system.get_file(path, str(to))
    beside = path.rpartition("/")[0]
    for name in weight_files(to):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            system.get_file(f"{beside}/{name}", str(folder / name))
    return to


def digest_of(path: Path) -> str:
    """The SHA-256 of a model, and of its weights where they lie beside it. Raises OSError if it cannot be read."""
    with open_regular(path) as (file, _):
        digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]
    for name in weight_files(path):
        with suppress(OSError), open_regular(path.parent / name) as (file, _):
            digest.update(name.encode() + hashlib.file_digest(file, "sha256").digest())  # type: ignore[arg-type]
    return digest.hexdigest()


def stamp_of(url: str) -> str:
    """What its file system tells of a file without reading it, digested; "" if it tells too little."""
    system, path = file_system(url)
    told = {key: value for key, value in system.info(path).items() if key in (*_STAMPS, "size")}
    if told.keys() <= {"size"}:
        return ""
    return hashlib.sha256(repr((public_name(url), sorted(told.items()))).encode()).hexdigest()


def _remote(text: str, suffixes: Sequence[str]) -> list[FleetModel]:
    system, path = file_system(text)
    inside = PurePath(_name(text))
    try:
        if "*" in path:
            base = path.partition("*")[0].rpartition("/")[0]
            matches = system.glob(path, detail=True)
            files = sorted(p for p, info in matches.items() if info["type"] != "directory")
            paths = [p for p in files if ".." not in p.split("/")]  # such a name leads out of the folder of results
        elif inside.suffix.lower() in suffixes or not system.isdir(path):
            none = FleetModel(public_name(text), "", inside, "there is no such file")
            return [FleetModel(public_name(text), text, inside)] if system.exists(path) else [none]
        else:
            base = path.rstrip("/")
            paths = [p for p in sorted(system.find(path)) if _is_wanted(p[len(base) :], suffixes)]
    except Exception as e:  # noqa: BLE001 - each back end has errors of its own
        raise ModelError(f"cannot list {public_name(text)}: {without_secrets(str(e), text)}") from None
    begin = text.rstrip("/").removesuffix(path.rstrip("/"))  # with what the URL tells of users
    locations = [
        begin + p if begin + path.rstrip("/") == text.rstrip("/") else system.unstrip_protocol(p) for p in paths
    ]
    insides = [PurePath(p[len(base) :].lstrip("/")) for p in paths]
    made = [FleetModel(public_name(url), url, inside) for url, inside in zip(locations, insides, strict=True)]
    return made or [FleetModel(public_name(text), "", inside, "no model is in this folder")]


def _is_wanted(inside: str, suffixes: Sequence[str]) -> bool:
    path = PurePosixPath(inside)
    return path.suffix.lower() in suffixes and not any(part.startswith(".") for part in path.parts)


def _name(url: str) -> str:
    return PurePosixPath(urlsplit(url).path).name or "model"
