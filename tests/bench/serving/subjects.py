"""What the benchmarks of serving run: exported models from a folder, built ones, or those of the catalogue."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from models.build import NETWORKS, build
from models.fetch import catalogue, fetch

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["arguments", "built", "catalogue_names", "exported", "subject"]

_SILERO = {"input": (1, 576), "state": (2, 1, 128)}
# Sizes of inputs that a fetched model leaves open; others are 1.
_SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "silero_vad_16k_op15": _SILERO,
    "silero_vad_half": _SILERO,
    "silero_vad_op18_ifless": _SILERO,
    "rapidocr_det": {"x": (1, 3, 320, 320)},
    "rapidocr_rec": {"x": (1, 3, 48, 320)},
    "rapidocr_cls": {"x": (1, 3, 48, 192)},
}


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


def catalogue_names() -> tuple[str, ...]:
    """The reference networks, and the fetched ONNX models.

    Without silero_vad: with sizes of 1 it does not run, and with fixed ones ONNX Runtime does not load it. Three other
    forms of it are there.
    """
    fetched = (model.name for model in catalogue().values() if model.path.endswith(".onnx"))
    return (*NETWORKS, *(name for name in fetched if name != "silero_vad"))


def subject(name: str, folder: Path, *, small: bool = False) -> Path:
    """A model of `catalogue_names`, or an .onnx file without weights outside, as a file in the folder.

    What the inputs of a fetched model leave open is fixed in it.
    """
    if name in NETWORKS:
        return built(name, folder, small=small)
    source = Path(name) if name.endswith(".onnx") else fetch(name)
    model = onnx.load(source)
    for value in model.graph.input if name in catalogue() else ():
        shape = value.type.tensor_type.shape.dim
        for dim, size in zip(shape, _SHAPES.get(name, {}).get(value.name, (1,) * len(shape)), strict=True):
            if not dim.dim_value:
                dim.dim_value = size
    path = folder / source.name
    onnx.save(model, path)
    return path
