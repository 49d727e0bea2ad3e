"""The workspace of ESP-NN's kernels is what its own functions say.

The figures are of `esp_nn_get_conv_scratch_size_esp32s3` and its like in esp-nn d45b843ca5f8, compiled by GCC 12 and
called on 2026-11-26. Where the environment variable EDGEMEM_ESP_NN names a folder with these sources, they are compiled
and called again, with random shapes.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.micro_workspace import workspace_of
from edgemem.records.micro_arena import predicted_arena
from edgemem.records.micro_builds import INSTALLED, build_of, structures_of
from edgemem.records.micro_tail import predicted_tail
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.micro_models import MICRO_MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator

CHIPS: Final = {"esp-nn": "opt", "esp-nn-esp32s3": "esp32s3", "esp-nn-esp32p4": "esp32p4"}
SOURCES: Final = os.environ.get("EDGEMEM_ESP_NN", "")


@dataclass(frozen=True)
class Window:
    """A convolution: sides are (height, width); `deep` has the channels of image and result."""

    kind: str
    image: tuple[int, int]
    deep: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    same: bool = True

    @property
    def made(self) -> tuple[int, ...]:
        sides = zip(self.image, self.kernel, self.stride, strict=True)
        return tuple(-(-(side if self.same else side - kernel + 1) // stride) for side, kernel, stride in sides)

    @property
    def pads(self) -> tuple[int, ...]:
        """Before rows and columns, as TensorFlow Lite has it."""
        ends = zip(self.image, self.kernel, self.stride, self.made, strict=True)
        return tuple(max(0, (made - 1) * stride + kernel - side) // 2 for side, kernel, stride, made in ends)

    def graph(self, weights: str = "int8") -> Graph:
        given, made = self.deep
        shape = (1, *self.kernel, made) if self.kind == "DEPTHWISE_CONV_2D" else (made, *self.kernel, given)
        tensors = (
            Tensor("x", "int8", (1, *self.image, given)),
            Tensor("w", weights, shape, "constant"),
            Tensor("y", "int8", (1, *self.made, made)),
        )
        attributes = {"stride": self.stride, "dilation": (1, 1), "pads": (*self.pads, *self.pads)}
        return Graph("one", tensors, (Op("op", self.kind, (0, 1), (2,), attributes=attributes),), (0,), (2,))


def workspace(graph: Graph, kernels: str) -> tuple[int, ...]:
    return workspace_of(graph, graph.ops[0], 4, kernels)


CONV, DEPTHWISE = "CONV_2D", "DEPTHWISE_CONV_2D"
CASES: Final[list[tuple[Window, int, int]]] = [  # with bytes on the ESP32-S3 and on the ESP32-P4
    (Window(CONV, (8, 8), (3, 16), (3, 3)), 704, 123),
    (Window(CONV, (96, 96), (3, 8), (3, 3), (2, 2)), 416, 91),
    (Window(CONV, (8, 8), (16, 8), (1, 1)), 448, 416),
    (Window(CONV, (2, 3), (13, 8), (1, 1)), 288, 224),
    (Window(CONV, (8, 8), (20, 8), (1, 1)), 2176, 2144),
    (Window(CONV, (8, 8), (16, 8), (1, 1), (2, 2)), 352, 192),
    (Window(CONV, (10, 10), (8, 16), (3, 3)), 6272, 168),
    (Window(CONV, (10, 10), (8, 16), (3, 3), same=False), 3968, 2400),
    (Window(CONV, (9, 9), (1, 4), (3, 3)), 1090, 745),
    (Window(CONV, (9, 9), (1, 4), (3, 3), same=False), 848, 1920),
    (Window(CONV, (64, 200), (4, 60), (3, 1)), 111664, 38352),
    (Window(CONV, (49, 10), (1, 64), (10, 4), (2, 2)), 3472, 328),
    (Window(DEPTHWISE, (8, 8), (16, 16), (3, 3)), 1760, 0),
    (Window(DEPTHWISE, (8, 8), (16, 16), (3, 3), (2, 2), same=False), 160, 0),
    (Window(DEPTHWISE, (8, 8), (16, 16), (3, 3), same=False), 160, 0),
    (Window(DEPTHWISE, (48, 48), (32, 32), (3, 3)), 5104, 0),
    (Window(DEPTHWISE, (8, 8), (24, 24), (3, 3)), 7008, 0),
    (Window(DEPTHWISE, (8, 8), (8, 8), (3, 3)), 1200, 0),
    (Window(DEPTHWISE, (8, 8), (16, 16), (5, 5)), 2880, 0),
    (Window(DEPTHWISE, (48, 48), (32, 32), (5, 5)), 16992, 0),
    (Window(DEPTHWISE, (8, 8), (13, 13), (3, 3)), 3568, 0),
    (Window(DEPTHWISE, (8, 8), (1, 8), (3, 3)), 304, 0),
    (Window(DEPTHWISE, (8, 8), (1, 6), (3, 3)), 32, 0),
]


@pytest.mark.parametrize(("window", "s3", "p4"), CASES)
def test_convolutions(window: Window, s3: int, p4: int) -> None:
    for kernels, size in (("esp-nn-esp32s3", s3), ("esp-nn-esp32p4", p4), ("esp-nn", 0), ("none", 0)):
        assert sum(workspace(window.graph(), kernels)) == size, kernels


def test_weights_of_four_bits_are_unpacked_besides() -> None:
    window = Window(CONV, (8, 8), (16, 8), (1, 1))
    assert workspace(window.graph("int4"), "esp-nn-esp32s3") == (128, *workspace(window.graph(), "esp-nn-esp32s3"))


@pytest.mark.parametrize("kernels", CHIPS)
def test_a_softmax_has_four_bytes_for_each_element_of_its_second_dimension(kernels: str) -> None:
    def asked(dtype: str, *shape: int) -> tuple[int, ...]:
        ends = (Tensor("x", dtype, shape), Tensor("y", dtype, shape))
        return workspace(Graph("one", ends, (Op("op", "SOFTMAX", (0,), (1,)),), (0,), (1,)), kernels)

    assert (asked("int8", 1, 10), asked("int8", 2, 3, 10)) == ((40,), (12,))
    assert asked("float32", 1, 10) == asked("int16", 1, 10) == ()


@pytest.mark.parametrize("kind", ["ADD", "MUL", "FULLY_CONNECTED", "AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize("kernels", CHIPS)
def test_other_kernels_ask_for_nothing(kind: str, kernels: str) -> None:
    tensors = [Tensor(name, "int8", (1, 8, 8, 16)) for name in "xyz"]
    assert workspace(Graph("one", tuple(tensors), (Op("op", kind, (0, 1), (2,)),), (0, 1), (2,)), kernels) == ()


def test_structures_hold_the_number_of_the_workspace() -> None:
    """GCC 12 says so for Arm and x86-64 of the structures in esp-tflite-micro's conv.cc and softmax.cc."""
    kinds = (CONV, DEPTHWISE, "SOFTMAX", "ADD")
    device, wide = (build_of(replace(BUILT_IN["tflm"], pointer_bytes=size, kernels="esp-nn")) for size in (4, 8))
    assert [structures_of(kind, device)[1] for kind in kinds] == [60, 60, 64, 60]
    assert [structures_of(kind, wide)[1] for kind in kinds[:3]] == [80, 80, 88]
    assert structures_of("FULLY_CONNECTED", replace(INSTALLED, kernels="esp-nn")) == (32, 72)


def test_the_tail_has_a_pointer_for_each_piece_of_workspace() -> None:
    one = Window(CONV, (8, 8), (16, 8), (1, 1)).graph()
    made = tuple(replace(one.tensors[2], name=f"y{k}") for k in range(32))
    ops = tuple(replace(one.ops[0], outputs=(2 + k,)) for k in range(32))
    many = Graph("many", (*one.tensors[:2], *made), ops, (0,), tuple(range(2, 34)))
    s3, plain = (
        predicted_tail(many, build_of(replace(BUILT_IN["tflm"], kernels=kernels)))
        for kernels in ("esp-nn-esp32s3", "none")
    )
    assert 4 * 32 <= s3 - plain <= 4 * 32 + 16


# `arena_used_bytes()` of esp-tflite-micro 99f49e1498b0 with the sizes of ESP-NN, built for Arm by GCC 12's
# arm-linux-gnueabihf and run in qemu-arm on 2026-11-26: for all other chips, the ESP32-S3 and the ESP32-P4.
ARENAS: Final = {"image classification": (54284, 110060, 54556), "keyword spotting": (22700, 35420, 27868)}


@pytest.mark.parametrize("name", ARENAS)
def test_the_arena_on_a_device(name: str) -> None:
    graph = TfliteConverter.from_bytes(MICRO_MODELS[name]()).graph()
    builds = [build_of(replace(BUILT_IN["tflm"], kernels=kernels)) for kernels in CHIPS]
    arenas = [predicted_arena(graph, {}, build) for build in builds]
    assert tuple(arena.head.total + arena.tail for arena in arenas) == ARENAS[name]


def drawn(kind: str, draw: random.Random) -> Window:
    image = draw.choice([(1, draw.randint(1, 64)), (draw.randint(1, 64), draw.randint(1, 200))])
    channels = draw.choice([1, 2, 3, 4, 8, 16, 24, 32, draw.randint(1, 80)])
    times = draw.choice([1, 1, 1, 2, 3, 4, 8])
    kernel = draw.choice([(1, 1), (3, 3), (3, 3), (3, 1), (1, 3), (draw.randint(1, 7), draw.randint(1, 7))])
    kernel = (min(kernel[0], image[0]), min(kernel[1], image[1]))
    stride = draw.choice([(1, 1), (2, 2), (draw.randint(1, 3), draw.randint(1, 3))])
    deep = (
        channels,
        channels * times if kind == DEPTHWISE else draw.choice([draw.randint(1, 80), draw.randint(1, 800)]),
    )
    return Window(kind, image, deep, kernel, stride, same=draw.random() < 0.6)


class Four(ctypes.Structure):
    """Width, height and channels of a tensor, and a number that no function reads."""

    _fields_ = tuple((name, ctypes.c_int32) for name in ("width", "height", "channels", "extra"))


def sizes_in(folder: Path, into: Path) -> ctypes.CDLL:
    """ESP-NN's functions that give sizes, without the kernels beside them, which have instructions of the chips."""
    files = sorted(path for path in (folder / "src").rglob("*.c") if "scratch_size" in path.read_text())
    common = (folder / "src/common/common_functions.h").read_text()
    pieces = [re.search(r"#define max\(.*?}\)", common, re.DOTALL)]
    wanted = r"^#define L1D_BUDGET[^\n]*|^int(32_t)? esp_nn_get_\w+\([^;{]*\{.*?^}"
    for path in files:
        pieces += re.finditer(wanted, path.read_text(), re.MULTILINE | re.DOTALL)
    code = into / "sizes.c"
    code.write_text(
        '#include <stddef.h>\n#include "esp_nn_defs.h"\n' + "\n".join(piece[0] for piece in pieces if piece)
    )
    library = into / "sizes.so"
    command = ["gcc", "-std=gnu11", "-w", "-shared", "-fPIC", f"-I{folder}/include", str(code), "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


@pytest.mark.skipif(not SOURCES, reason="no sources of ESP-NN: EDGEMEM_ESP_NN names no folder")
def test_random_shapes(tmp_path: Path) -> None:
    library, draw = sizes_in(Path(SOURCES), tmp_path), random.Random(0)

    def told(window: Window, chip: str) -> int:
        (height, width), (given, made) = window.image, window.deep
        dims = [
            Four(width, height, given, 1),
            Four(window.kernel[1], window.kernel[0], made if window.kind == DEPTHWISE else given, 0),
            Four(window.made[1], window.made[0], made, 1),
        ]
        numbers = [
            0,
            0,
            *([made // given] if window.kind == DEPTHWISE else []),
            *window.stride[::-1],
            *window.pads[::-1],
        ]
        params = (ctypes.c_int32 * 12)(*numbers)
        name = "depthwise_conv" if window.kind == DEPTHWISE else "conv"
        return int(getattr(library, f"esp_nn_get_{name}_scratch_size_{chip}")(*map(ctypes.byref, dims), params))

    def windows() -> Iterator[Window]:
        yield from (drawn(kind, draw) for kind in (CONV, DEPTHWISE) for _ in range(5000))
        for _ in range(2000):  # few elements a window, and more of the image than the ESP32-P4 reads at once
            image, deep = (draw.randint(50, 200), draw.randint(50, 300)), (draw.randint(1, 5), draw.randint(1, 800))
            yield Window(CONV, image, deep, (3, 1), (draw.randint(1, 3), 1))

    seen = set()
    for window in windows():
        for kernels, chip in CHIPS.items():
            size = told(window, chip)
            assert sum(workspace(window.graph(), kernels)) == size, (window, kernels)
            seen.add(size)
    assert len(seen) > 2000
    for width in range(1, 300):
        assert {getattr(library, f"esp_nn_get_softmax_scratch_size_{chip}")(width, 7) for chip in CHIPS.values()} == {
            4 * width
        }
