"""The inference graphs that are ordered: sketches of the papers' networks, built and real models, tiled graphs."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import edgemem
from edgemem.errors import EdgememError
from edgemem.formats import Model
from edgemem.passes.streaming.stages import choose_stages
from edgemem.passes.streaming.stream import stream
from edgemem.passes.tiling.choice import find_stages
from edgemem.passes.tiling.tile import tile
from edgemem.targets import BUILT_IN
from models import wired_networks as wired
from models.build import build, build_tflite
from models.fetch import FetchError, catalogue, fetch
from tests.runtime.networks import FETCHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from edgemem.model.graph import Graph
    from edgemem.targets import Target

__all__ = ["CUT", "FOUND", "SKETCHES", "Subject", "built", "exported", "real"]

Subject: TypeAlias = "tuple[Graph, Target]"

GENERIC = BUILT_IN["generic"]
# Results of elementwise operators lie on their inputs, as TensorFlow Lite Micro's reference kernels allow.
MICRO = replace(BUILT_IN["tflm"], aliasing="elementwise")
# The open dimensions unk__N of two models.
OPEN = {"basic_pitch_nmp_onnx": range(749, 753), "magika": range(214, 216)}
MOST_MACS = 1.12

# int8, with the network's input and output in the arena, as on a microcontroller.
SKETCHES: Mapping[str, Callable[[], Graph]] = {
    **{f"RandWire {n}": partial(wired.randwire, n, seed=s) for s, n in enumerate((16, 32, 64, 128))},
    **{f"Inception x{n}": partial(wired.inception, n) for n in (4, 9)},
    "U-Net": wired.unet,
    **{f"random cells x{n}": partial(wired.random_cells, n, seed=s) for s, n in enumerate((2, 3, 10))},
    "SwiftNet-like cells": partial(wired.concat_cells, 3, 20, seed=0),
    **{f"chain of {a} in {b} stripes": partial(wired.tiled_chain, a, b) for a, b in ((8, 16), (4, 32), (16, 64))},
}
# HMCOS's networks, float32.
FOUND: Mapping[str, Callable[[], Graph]] = {
    "NASNet-A, CIFAR": partial(wired.found_cells, "nasnet_a", stacked=6, channels=32),
    "NASNet-A, ImageNet": partial(wired.found_cells, "nasnet_a", stacked=4, channels=11, imagenet=True),
    "AmoebaNet-A, CIFAR": partial(wired.found_cells, "amoebanet_a", stacked=6, channels=36),
    "AmoebaNet-A, ImageNet": partial(wired.found_cells, "amoebanet_a", stacked=4, channels=12, imagenet=True),
    "PNASNet-5, CIFAR": partial(wired.found_cells, "pnasnet_5", stacked=6, channels=36),
    "DARTS, CIFAR": partial(wired.found_cells, "darts", stacked=6, channels=36),
    "DARTS, ImageNet": partial(wired.found_cells, "darts", stacked=4, channels=12, imagenet=True),
}
BUILT = ("inception_v3", "nas_cell", "randwire", "transformer", "unet", "deeplab_v3")


def built() -> Iterator[tuple[str, Subject]]:
    """The reference networks of models/build.py that branch."""
    for name in BUILT:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.onnx"
            path.write_bytes(build(name).SerializeToString())
            yield f"{name} (built)", (_graph(path), GENERIC)


def real() -> Iterator[tuple[str, Subject]]:
    """Every model of models/fetch.py whose sizes are known. Leaves the program if one cannot be fetched."""
    for name in catalogue():
        try:
            path = fetch(name)
        except FetchError as e:
            raise SystemExit(f"{name}: {e}") from None
        try:
            graph = _graph(path, {f"unk__{i}": 1 for i in OPEN.get(name, ())}, FETCHED.get(name))
        except EdgememError:
            continue  # its sizes depend on the data
        yield name, (graph, MICRO if path.suffix == ".tflite" else GENERIC)


def exported(folder: Path) -> Iterator[tuple[str, Subject]]:
    """The .onnx files of a folder. What has open dimensions is left out, with a line that says so."""
    for path in sorted(folder.glob("*.onnx")):
        try:
            yield path.stem, (_graph(path), GENERIC)
        except EdgememError as e:
            print(f"{path.name} is left out: {e}")


def _graph(
    path: Path, dims: Mapping[str, int] | None = None, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> Graph:
    model = edgemem.load(path, dims=dims or None, input_shapes=shapes or None)
    assert isinstance(model, Model)
    return model.graph()


def _tiled(name: str) -> Subject:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        path.write_bytes(build(name).SerializeToString())
        graph = _graph(path)
    return tile(graph, find_stages(graph, GENERIC, max_macs=MOST_MACS).stages).graph, GENERIC


def _streamed(alpha: float, size: int) -> Subject:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.tflite"
        path.write_bytes(build_tflite("mobilenet_v2_tflite", alpha=alpha, size=size, int8=True))
        graph = _graph(path)
    target = MICRO.changed(slots=True)
    return stream(graph, choose_stages(graph, target).stages, target.alignment).graph, target


# Graphs that edgemem's passes cut into tiles and stripes, in the order that the pass gives them.
CUT: Mapping[str, Callable[[], Subject]] = {
    **{f"{name}, tiled": partial(_tiled, name) for name in ("mobilenet_v2", "resnet18", "unet")},
    **{f"mobilenet_v2 {a} {s} int8, streamed": partial(_streamed, a, s) for a, s in ((0.35, 96), (1.0, 144))},
}
