"""Networks as .tflite files: MobileNet v1 and v2 of any width and input size, and DeepLab v3 and PoseNet on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.classification import MOBILENET_V1, MOBILENET_V2, divisible
from models.tflite_net import TfliteNet

if TYPE_CHECKING:
    from models.tflite_net import LayerTensor

LAST_CHANNELS = 1280
ASPP_CHANNELS = 256
KEY_POINTS, EDGES = 17, 16


def mobilenet_v1(
    *, alpha: float = 1.0, size: int = 224, int8: bool = False, classes: int = 1000, seed: int = 0
) -> bytes:
    """MobileNet v1 (Howard et al. 2017) of square images, with batch normalisation folded into its convolutions.

    It ends in a mean over all pixels, a 1x1 convolution and, in float32, a softmax: the output is [1, 1, 1, classes].
    Arguments and errors are those of `mobilenet_v2`.
    """
    _check(alpha, size, classes)
    net = TfliteNet(int8=int8, seed=seed)
    x = _mobilenet_v1(net, net.input("image", size, size, 3), alpha, 32)
    x = net.logits("logits", net.average_pool("pool", x), classes)
    return net.content(x if int8 else net.softmax("scores", x))


def mobilenet_v2(
    *, alpha: float = 1.0, size: int = 224, int8: bool = False, classes: int = 1000, seed: int = 0
) -> bytes:
    """MobileNet v2 (Sandler et al. 2018) of square images, with batch normalisation folded into its convolutions.

    It ends in a mean over all pixels and a 1x1 convolution, whose output is [1, 1, 1, classes]: 53 convolutions.

    Args:
        alpha: multiplier of all channel counts; the last layer's is not made smaller, as in the published networks.
        size: height and width of the input.
        int8: with int8 activations and weights, these with a scale for each channel; float32 otherwise.
        classes: how many there are.
        seed: draws the weights.

    Raises ValueError for a size, a multiplier or a number of classes that makes no network.
    """
    _check(alpha, size, classes)
    net = TfliteNet(int8=int8, seed=seed)
    x = _mobilenet_v2(net, net.input("image", size, size, 3), alpha, 32)
    x = net.conv("conv_last", x, divisible(LAST_CHANNELS * max(alpha, 1.0)), relu6=True)
    return net.content(net.logits("logits", net.average_pool("pool", x), classes))


def deeplab_v3(*, alpha: float = 0.5, size: int = 257, int8: bool = False, classes: int = 21, seed: int = 0) -> bytes:
    """DeepLab v3 (Chen et al. 2017) on MobileNet v2 with output stride 8, as in TensorFlow's mobile models.

    Dilated depthwise convolutions; the mean over the image beside a 1x1 convolution; the scores are resized to the
    input's size. Arguments and errors are those of `mobilenet_v2`; float32 only.
    """
    _check(alpha, size, classes, int8=int8)
    net = TfliteNet(int8=False, seed=seed)
    x = _mobilenet_v2(net, net.input("image", size, size, 3), alpha, 8)
    height, width = x.seen.shape[1:3]
    pooled = net.conv("image_pooling", net.average_pool("pool", x), ASPP_CHANNELS, relu6=True, one_scale=True)
    pooled = net.resize("image_features", pooled, height, width)
    x = net.concat("concat", pooled, net.conv("aspp0", x, ASPP_CHANNELS, relu6=True))
    x = net.conv("concat_projection", x, ASPP_CHANNELS, relu6=True)
    return net.content(net.resize("scores", net.logits("logits", x, classes), size, size))


def posenet(*, alpha: float = 1.0, size: int = 257, int8: bool = False, seed: int = 0) -> bytes:
    """PoseNet (Papandreou et al. 2018) on MobileNet v1 with output stride 16: four maps, without the decoder.

    Heat maps and offsets of key points, displacements forwards and backwards along the edges between them. Arguments
    and errors are those of `mobilenet_v2`; float32 only.
    """
    _check(alpha, size, 1, int8=int8)
    net = TfliteNet(int8=False, seed=seed)
    x = _mobilenet_v1(net, net.input("image", size, size, 3), alpha, 16)
    heads = {
        "heat_maps": KEY_POINTS,
        "offsets": 2 * KEY_POINTS,
        "displacement_fwd": 2 * EDGES,
        "displacement_bwd": 2 * EDGES,
    }
    return net.content(*(net.logits(name, x, channels) for name, channels in heads.items()))


def _check(alpha: float, size: int, classes: int, *, int8: bool = False) -> None:
    """Raise ValueError for what makes no network."""
    if int8:
        raise ValueError("the network is made in float32 only")
    if not 0 < alpha <= 4:
        raise ValueError(f"alpha {alpha:g} is not above 0 and at most 4")
    if not 32 <= size <= 1024:
        raise ValueError(f"size {size} is not from 32 to 1024 pixels")
    if not 1 <= classes <= 100_000:
        raise ValueError(f"{classes} classes are not from 1 to 100,000")


def _mobilenet_v1(net: TfliteNet, x: LayerTensor, alpha: float, most: int) -> LayerTensor:
    """The separable blocks. Strides beyond `most` in all become dilation."""
    x = net.conv("conv0", x, divisible(32 * alpha), 3, stride=2, relu6=True)
    strides = _Strides(most)
    for block, (channels, block_stride) in enumerate(MOBILENET_V1, 1):
        stride, dilation = strides.next(block_stride)
        x = net.depthwise(f"block{block}/depthwise", x, stride=stride, dilation=dilation, relu6=True)
        x = net.conv(f"block{block}/pointwise", x, divisible(channels * alpha), relu6=True)
    return x


def _mobilenet_v2(net: TfliteNet, x: LayerTensor, alpha: float, most: int) -> LayerTensor:
    """The inverted residual blocks. Strides beyond `most` in all become dilation."""
    x = net.conv("conv0", x, divisible(32 * alpha), 3, stride=2, relu6=True)
    strides, block = _Strides(most), 0
    for expansion, base, repeats, group_stride in MOBILENET_V2:
        channels = divisible(base * alpha)
        for repeat in range(repeats):
            block += 1
            entry, name = x, f"block{block}"
            if expansion > 1:
                x = net.conv(f"{name}/expand", x, x.channels * expansion, relu6=True)
            stride, dilation = strides.next(1 if repeat else group_stride)
            x = net.depthwise(f"{name}/depthwise", x, stride=stride, dilation=dilation, relu6=True)
            x = net.conv(f"{name}/project", x, channels, relu6=False)
            if repeat:
                x = net.add(f"{name}/add", entry, x)
    return x


class _Strides:
    """The strides of blocks behind a first one of 2, until they reach a limit; then dilation takes their place."""

    def __init__(self, most: int) -> None:
        self._most, self._reached, self._dilation = most, 2, 1

    def next(self, stride: int) -> tuple[int, int]:
        """Stride and dilation of the next block."""
        dilation = self._dilation
        if self._reached * stride > self._most:
            self._dilation *= stride
            return 1, dilation
        self._reached *= stride
        return stride, dilation
