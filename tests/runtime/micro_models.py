"""Models for TensorFlow Lite Micro: MLPerf Tiny's shapes, other applications, one operator each, and random ones."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from edgemem.runtime.tflm.probe_cases import probe_cases
from edgemem_converters.tflite.model import TfliteConverter
from models.fetch import fetch
from models.tflite_net import TfliteNet
from models.tflite_networks import mobilenet_v1, mobilenet_v2
from tests.random_tflite import random_model
from tests.runtime.control_models import KINDS, control_model
from tests.runtime.litert_models import lstm
from tests.tflite_cases import CASES
from tests.tflite_models import M, O, S, T, build
from tests.tflite_operators import build as build_operator

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MICRO_MODELS"]

_FETCHED = ("mww_okay_nabu", "mww_alexa", "mww_hey_jarvis", "mww_hey_mycroft", "tflm_sine_float")
# Workspace of each kind in float32, and what allocates for good in another way than most.
_FLOAT = (
    *("mean", "sum", "max", "min", "reflect", "add_n", "transposed bias relu", "matmul", "matmul transposed"),
    *("log softmax", "depth to space", "gather"),
)
_INT8 = ("transposed convolution", "mean of all pixels", "fully connected", "softmax", "convolution 3x3, two groups")


def _resnet() -> bytes:
    """ResNet-8 for images of 32 x 32 (image classification)."""
    net = TfliteNet(int8=True)
    x = net.conv("first", net.input("image", 32, 32, 3), 16, 3, relu6=True)
    for k, channels in enumerate((16, 32, 64)):
        stride = 1 if k == 0 else 2
        y = net.conv(f"a{k}", x, channels, 3, stride=stride, relu6=True)
        y = net.conv(f"b{k}", y, channels, 3, relu6=False)
        x = net.add(f"sum{k}", y, x if k == 0 else net.conv(f"c{k}", x, channels, stride=stride, relu6=False))
    return net.content(net.logits("logits", net.average_pool("pool", x), 10))


def _ds_cnn() -> bytes:
    """DS-CNN for spectrograms of 49 x 10 (keyword spotting)."""
    net = TfliteNet(int8=True)
    x = net.conv("first", net.input("spectrogram", 49, 10, 1), 64, 4, stride=2, relu6=True)
    for k in range(4):
        x = net.conv(f"point{k}", net.depthwise(f"depth{k}", x, relu6=True), 64, relu6=True)
    return net.content(net.logits("logits", net.average_pool("pool", x), 12))


def _autoencoder() -> bytes:
    """Dense layers of 128 and a code of 8 (anomaly detection)."""
    widths, rng = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640), np.random.default_rng(0)
    tensors, ops = [T("x", shape=(1, widths[0]))], []
    for k, (given, made) in enumerate(itertools.pairwise(widths)):
        at = len(tensors)
        weights = rng.standard_normal((made, given)).astype("<f4")
        tensors += [T(f"w{k}", shape=weights.shape, data=weights.tobytes()), T(f"y{k}", shape=(1, made))]
        ops.append(O("FULLY_CONNECTED", (at - 1, at, -1), (at + 1,), (8, (0,))))
    return build(M([S(tensors, ops, (0,), (len(tensors) - 1,))]))


def _fetched(name: str) -> bytes:
    return TfliteConverter.from_bytes(fetch(name).read_bytes()).folded().content()


def _random(seed: int) -> bytes:
    return TfliteConverter.from_bytes(random_model(seed)).folded().content()


def _int8(name: str) -> bytes:
    operator = next(case.operator for case in probe_cases("int8") if case.name == name)
    return TfliteConverter.from_bytes(TfliteConverter.write_operator(operator, (-1, -1))).without_plan().content()


def _float(name: str) -> bytes:
    return build_operator(*CASES[name])


MICRO_MODELS: dict[str, Callable[[], bytes]] = {
    "person detection": partial(mobilenet_v1, alpha=0.25, size=96, int8=True, classes=2),
    "image classification": _resnet,
    "keyword spotting": _ds_cnn,
    "anomaly detection": _autoencoder,
    "mobilenet v2": partial(mobilenet_v2, alpha=0.3, size=80, int8=True, classes=2),
    "lstm": lstm,
    **{name: partial(_fetched, name) for name in _FETCHED},
    **{f"{kind}{seed}": partial(control_model, seed, kind) for kind in KINDS for seed in range(2)},
    **{name: partial(_float, name) for name in _FLOAT},
    **{f"{name} of int8": partial(_int8, name) for name in _INT8},
    **{f"random{seed}": partial(_random, seed) for seed in range(20)},
}
