"""What the benchmarks of serving run: exported models from a folder, or built ones."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from models.build import build

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["arguments", "built", "exported"]


def arguments(about: str | None) -> argparse.ArgumentParser:
    """The options that all these benchmarks have."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--models", type=Path, help="a folder with exported .onnx files; built models without it")
    parser.add_argument("--quick", action="store_true", help="small models and few runs: a smoke test, not a benchmark")
    return parser


def exported(folder: Path | None, names: Sequence[str]) -> dict[str, Path]:
    """The files of a folder by the names that they are for: NAME.onnx, else the first of NAME.*.onnx."""
    if folder is None:
        return {}
    found = {}
    for name in names:
        files = [folder / f"{name}.onnx", *sorted(folder.glob(f"{name}.*.onnx"), reverse=True)]
        file = next((f for f in files if f.exists()), None)
        if file is None:
            print(f"no {name}*.onnx in {folder}")
        else:
            found[name] = file
    return found


def built(name: str, folder: Path, *, batch: int | str = 1, small: bool = False) -> Path:
    """A reference network as a file."""
    path = folder / f"{name}.onnx"
    onnx.save(build(name, size="small" if small else "full", batch=batch), path)
    return path
