"""Image classifiers: MobileNet v1 and v2, Inception v3, ResNet."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from models.net import Net, NetTensor, Padding

# A step reads what its branch last wrote and writes one or more tensors.
Step: TypeAlias = "Callable[[NetTensor], list[NetTensor]]"

CLASSES = 1001  # 1000 and the background, as in the TensorFlow models the paper measured
SMALL_CLASSES = 11
RESIDUAL_GAIN = 0.5  # without batch normalisation the sums would double at every block
MOBILENET_V1 = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
# Expansion, channels, repeats, first stride (Sandler et al. 2018, Table 2)
MOBILENET_V2 = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]
RESNETS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}


def mobilenet_v1(net: Net, *, small: bool) -> None:
    """MobileNet v1 1.0 224 (Howard et al. 2017); small: 0.25 at 96 pixels."""
    side, depth = (96, 0.25) if small else (224, 1.0)
    x = net.input("image", 3, side, side)
    x = mobilenet_v1_body(net, x, [(int(c * depth), s) for c, s in MOBILENET_V1], int(32 * depth))
    _classify(net, x, SMALL_CLASSES if small else CLASSES)


def mobilenet_v1_body(
    net: Net, x: NetTensor, blocks: Sequence[tuple[int, int]], stem: int, max_stride: int = 32
) -> NetTensor:
    """The separable blocks (channels, stride). Strides beyond `max_stride` become dilation."""
    x = net.conv(x, stem, 3, stride=2, act="relu6", name="conv0")
    reached, dilation = 2, 1
    for k, (channels, block_stride) in enumerate(blocks, 1):
        stride, rate = block_stride, dilation
        if reached * stride > max_stride:
            stride, dilation = 1, dilation * block_stride
        reached *= stride
        x = net.depthwise(x, stride=stride, dilation=rate, act="relu6", name=f"dw{k}")
        x = net.conv(x, channels, act="relu6", name=f"pw{k}")
    return x


def mobilenet_v2(net: Net, *, small: bool) -> None:
    """MobileNet v2 1.0 224 (Sandler et al. 2018); small: 0.25 at 96 pixels."""
    side, depth = (96, 0.25) if small else (224, 1.0)
    x = mobilenet_v2_body(net, net.input("image", 3, side, side), lambda c: divisible(c * depth))
    x = net.conv(x, int(1280 * min(1.0, depth)), act="relu6", name="conv_last")
    _classify(net, x, SMALL_CLASSES if small else CLASSES)


def mobilenet_v2_body(net: Net, x: NetTensor, width: Callable[[int], int], max_stride: int = 32) -> NetTensor:
    """The inverted residual blocks; `width` scales a channel count. Strides beyond `max_stride` become dilation."""
    x = net.conv(x, width(32), 3, stride=2, act="relu6", name="conv0")
    reached, dilation, block = 2, 1, 0
    for expansion, base, repeats, group_stride in MOBILENET_V2:
        for i in range(repeats):
            stride, rate = (group_stride if i == 0 else 1), dilation
            if reached * stride > max_stride:
                stride, dilation = 1, dilation * stride
            reached *= stride
            source, channels = x, width(base)
            if expansion != 1:
                x = net.conv(x, x.channels * expansion, act="relu6", name=f"b{block}_exp")
            x = net.depthwise(x, stride=stride, dilation=rate, act="relu6", name=f"b{block}_dw")
            residual = i > 0
            gain = RESIDUAL_GAIN if residual else 1.0
            x = net.conv(x, channels, act="none", gain=gain, name=f"b{block}_proj")
            if residual:
                x = net.add(x, source, name=f"b{block}_add")
            block += 1
    return x


def inception_v3(net: Net, *, small: bool) -> None:
    """Inception v3 299 (Szegedy et al. 2016); small: one eighth of the channels at 96 pixels.

    The forked branches of the last two modules go straight into the module's concatenation, and a module's branches
    advance side by side: with these two choices naive size and bounds come closest to the paper's (53.999 for 54.010,
    8.954 for 8.955, 7.913 for 7.914 MiB). No rule was found that meets them all.
    """
    side, shrink = (96, 8) if small else (299, 1)

    def conv(channels: int, kernel: int | tuple[int, int] = 1, stride: int = 1) -> Step:
        padding: Padding = "same" if stride == 1 else "valid"
        return lambda x: [net.conv(x, channels // shrink, kernel, stride=stride, padding=padding)]

    def fork(channels: int) -> Step:
        return lambda x: [net.conv(x, channels // shrink, k) for k in ((1, 3), (3, 1))]

    def average(x: NetTensor) -> list[NetTensor]:
        return [net.pool(x, "Average", 3, stride=1)]

    def maximum(x: NetTensor) -> list[NetTensor]:
        return [net.pool(x, "Max", 3, stride=2, padding="valid")]

    x = net.input("image", 3, side, side)
    x = net.conv(x, 32 // shrink, 3, stride=2, padding="valid")
    x = net.conv(x, 32 // shrink, 3, padding="valid")
    x = net.conv(x, 64 // shrink, 3)
    x = maximum(x)[0]
    x = net.conv(x, 80 // shrink)
    x = net.conv(x, 192 // shrink, 3, padding="valid")
    x = maximum(x)[0]
    for pooled in (32, 64, 64):
        b1, b2 = [conv(48), conv(64, 5)], [conv(64), conv(96, 3), conv(96, 3)]
        x = _module(net, x, [[conv(64)], b1, b2, [average, conv(pooled)]])
    x = _module(net, x, [[conv(384, 3, 2)], [conv(64), conv(96, 3), conv(96, 3, 2)], [maximum]])
    row, column = (1, 7), (7, 1)
    for c in (128, 160, 160, 192):
        b1 = [conv(c), conv(c, row), conv(192, column)]
        b2 = [conv(c), conv(c, column), conv(c, row), conv(c, column), conv(192, row)]
        x = _module(net, x, [[conv(192)], b1, b2, [average, conv(192)]])
    b1 = [conv(192), conv(192, row), conv(192, column), conv(192, 3, 2)]
    x = _module(net, x, [[conv(192), conv(320, 3, 2)], b1, [maximum]])
    for _ in range(2):
        b1, b2 = [conv(384), fork(384)], [conv(448), conv(384, 3), fork(384)]
        x = _module(net, x, [[conv(320)], b1, b2, [average, conv(192)]])
    _classify(net, x, SMALL_CLASSES if small else CLASSES)


def _module(net: Net, x: NetTensor, branches: Sequence[Sequence[Step]]) -> NetTensor:
    """Branches side by side, first steps first, into one concatenation."""
    heads = [[x] for _ in branches]
    for depth in range(max(map(len, branches))):
        for k, steps in enumerate(branches):
            if depth < len(steps):
                heads[k] = steps[depth](heads[k][0])
    return net.concat(*(t for head in heads for t in head))


def resnet18(net: Net, *, small: bool) -> None:
    """ResNet-18 224 (He et al. 2016); small: one eighth of the channels at 64 pixels."""
    _resnet(net, 18, small=small)


def resnet50(net: Net, *, small: bool) -> None:
    """ResNet-50 224 (He et al. 2016); small: one eighth of the channels at 64 pixels."""
    _resnet(net, 50, small=small)


def _resnet(net: Net, depth: int, *, small: bool) -> None:
    side, width = (64, 8) if small else (224, 64)
    x = net.input("image", 3, side, side)
    x = net.conv(x, width, 7, stride=2)
    x = net.pool(x, "Max", 3, stride=2)
    for stage, blocks in enumerate(RESNETS[depth]):
        for i in range(blocks):
            stride = 2 if stage > 0 and i == 0 else 1
            inner = width * 2**stage
            x = _bottleneck(net, x, inner, stride) if depth == 50 else _basic(net, x, inner, stride)
    x = net.global_pool(x)
    x = net.reshape(x, x.channels)
    net.output(net.dense(x, SMALL_CLASSES if small else 1000, name="logits"))


def _basic(net: Net, x: NetTensor, channels: int, stride: int) -> NetTensor:
    y = net.conv(x, channels, 3, stride=stride)
    y = net.conv(y, channels, 3, act="none", gain=RESIDUAL_GAIN)
    return net.add(y, _shortcut(net, x, channels, stride), act="relu")


def _bottleneck(net: Net, x: NetTensor, channels: int, stride: int) -> NetTensor:
    y = net.conv(x, channels)
    y = net.conv(y, channels, 3, stride=stride)
    y = net.conv(y, 4 * channels, act="none", gain=RESIDUAL_GAIN)
    return net.add(y, _shortcut(net, x, 4 * channels, stride), act="relu")


def _shortcut(net: Net, x: NetTensor, channels: int, stride: int) -> NetTensor:
    return x if x.channels == channels else net.conv(x, channels, stride=stride, act="none")


def _classify(net: Net, x: NetTensor, classes: int) -> None:
    """The tail of the TensorFlow classifiers: pooling, a convolution for the logits, reshape, softmax."""
    x = net.global_pool(x, name="avgpool")
    x = net.conv(x, classes, act="none", name="logits")
    x = net.reshape(x, classes, name="reshape")
    net.output(net.softmax(x, name="softmax"))


def divisible(channels: float) -> int:
    """A multiple of 8, at least 8, that loses no more than a tenth (Sandler et al. 2018's code)."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded
