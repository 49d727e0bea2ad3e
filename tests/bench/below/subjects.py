"""The networks of the tables below the classical bound: built ones and real ones, as .tflite files."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from models.build import build_tflite
from models.fetch import FetchError, catalogue, fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["BUILT", "arguments", "each_in_a_folder", "real_names", "source"]

Made = TypeVar("Made")

# MobileNet v2: width/size and type.
BUILT: dict[str, dict[str, Any]] = {
    "mobilenet_v2_1.00_224": {},
    "mobilenet_v2_1.00_224_int8": {"int8": True},
    "mobilenet_v2_1.00_144_int8": {"int8": True, "size": 144},
    "mobilenet_v2_0.35_96_int8": {"int8": True, "size": 96, "alpha": 0.35},
    "mobilenet_v2_0.30_80_int8": {"int8": True, "size": 80, "alpha": 0.3, "classes": 2},
}


def real_names() -> tuple[str, ...]:
    """The .tflite files of the catalogue."""
    return tuple(model.name for model in catalogue().values() if model.path.endswith(".tflite"))


def source(name: str, folder: Path) -> Path:
    """The file of a network: built in the folder, fetched, or the path that the name is.

    Leaves the program if it cannot be fetched.
    """
    path = folder / f"{name}.tflite"
    if name in BUILT:
        path.write_bytes(build_tflite("mobilenet_v2_tflite", **BUILT[name]))
        return path
    try:
        return fetch(name)
    except FetchError as e:
        raise SystemExit(f"{name}: {e}") from None


def each_in_a_folder(names: Iterable[str], make: Callable[[str, Path], Made]) -> list[Made]:
    """What is made of each network in a temporary folder of its own."""
    made = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
            made.append(make(name, Path(folder)))
    return made


def arguments(about: str | None, names: Sequence[str]) -> argparse.ArgumentParser:
    """The options that all tables have; `names` are the networks without any."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(names), metavar="NETWORK")
    parser.add_argument("--page", metavar="FILE.md", help="put the table into the page, between its marks")
    return parser
