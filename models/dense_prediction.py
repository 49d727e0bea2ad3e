"""Networks with a map as their answer: segmentation, pose, face detection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from models.classification import MOBILENET_V1, mobilenet_v1_body, mobilenet_v2_body

if TYPE_CHECKING:
    from models.net import Net, NetTensor


def deeplab_v3(net: Net, *, small: bool) -> None:
    """DeepLab v3 257 on MobileNet v2 0.5 with output stride 8, one resize at the end; small: 0.25 at 65 pixels.

    The depth multiplier, the missing second resize and the channels padded to 4 were chosen so that naive size and
    bounds meet the paper's.
    """
    side, shrink, aspp, classes = (65, 4, 32, 21) if small else (257, 2, 256, 21)
    x = mobilenet_v2_body(net, net.input("image", 3, side, side), lambda c: c // shrink, max_stride=8)
    height, width = x.dim(2), x.dim(3)
    pooled = net.global_pool(x, name="avgpool")
    aspp0 = net.conv(x, aspp, name="aspp0")
    pooled = net.conv(pooled, aspp, name="img_pool_conv")
    pooled = net.resize(pooled, height, width, name="resize1")
    x = net.concat(pooled, aspp0, name="concat")
    x = net.conv(x, aspp, name="concat_proj")
    x = net.conv(x, classes, act="none", name="logits")
    net.output(net.resize(x, side, side, name="scores"))


def posenet(net: Net, *, small: bool) -> None:
    """PoseNet 353x257 on MobileNet v1 0.75 with output stride 16; small: 0.25 at 97x65.

    The last two blocks have 512 channels before scaling. Heat maps and offsets are outputs, the two displacement
    maps are joined into the third.
    """
    height, width, depth = (97, 65, 0.25) if small else (353, 257, 0.75)
    blocks = [(int(min(c, 512) * depth), s) for c, s in MOBILENET_V1]
    x = net.input("image", 3, height, width)
    x = mobilenet_v1_body(net, x, blocks, int(32 * depth), max_stride=16)
    heat_maps = net.conv(x, 17, act="none", name="heat_maps")
    offsets = net.conv(x, 34, act="none", name="offsets")
    forward = net.conv(x, 32, act="none", name="fwd")
    backward = net.conv(x, 32, act="none", name="bwd")
    net.output(heat_maps, offsets, net.concat(forward, backward, name="displacements"))


def blazeface(net: Net, *, small: bool) -> None:
    """A detector in the manner of BlazeFace (Bazarevsky et al. 2019), 128 pixels; small: 64 pixels, half the channels.

    Not the net of the paper's tables: no published file has its sizes. Two anchors a cell on the larger map, six on
    the smaller; the answers are (anchors, 1) scores and (anchors, 16) boxes and key points.
    """
    side, shrink = (64, 2) if small else (128, 1)
    x = net.input("image", 3, side, side)
    x = net.conv(x, 24 // shrink, 5, stride=2)
    large = x
    for channels, stride in [
        (24, 1),
        (28, 1),
        (32, 2),
        (36, 1),
        (42, 1),
        (48, 2),
        (56, 1),
        (64, 1),
        (72, 1),
        (80, 1),
        (88, 1),
    ]:
        x = large = _blaze_block(net, x, channels // shrink, stride)
    for channels, stride in [(96, 2), (96, 1), (96, 1), (96, 1), (96, 1)]:
        x = _blaze_block(net, x, channels // shrink, stride)
    scores = [_anchors(net, large, 2, 1), _anchors(net, x, 6, 1)]
    boxes = [_anchors(net, large, 2, 16), _anchors(net, x, 6, 16)]
    net.output(net.concat(*scores, name="scores"), net.concat(*boxes, name="boxes"))


def _blaze_block(net: Net, x: NetTensor, channels: int, stride: int) -> NetTensor:
    y = net.depthwise(x, 5, stride=stride, act="none")
    y = net.conv(y, channels, act="none", gain=0.5)
    if stride == 2:
        x = net.pool(x, "Max", 2, stride=2)
    if x.channels < channels:
        pads = net.constant([0, 0, 0, 0, 0, channels - x.channels, 0, 0], np.int64)
        x = net.op("Pad", [x], (x.shape[0], channels, *x.shape[2:]), extra=[pads])
    return net.add(y, x, act="relu")


def _anchors(net: Net, x: NetTensor, anchors: int, values: int) -> NetTensor:
    y = net.conv(x, anchors * values, act="none")
    y = net.transpose(y, 0, 2, 3, 1)
    return net.reshape(y, x.dim(2) * x.dim(3) * anchors, values)


def unet(net: Net, *, small: bool) -> None:
    """U-Net (Ronneberger et al. 2015) with padded convolutions: 256 pixels, 32 channels; small: 64 and 4."""
    side, width = (64, 4) if small else (256, 32)
    x = net.input("image", 3, side, side)
    skips = []
    for level in range(4):
        x = _double_conv(net, x, width * 2**level)
        skips.append(x)
        x = net.pool(x, "Max", 2, stride=2)
    x = _double_conv(net, x, width * 16)
    for level in reversed(range(4)):
        x = net.upconv(x, width * 2**level)
        x = net.concat(skips[level], x)
        x = _double_conv(net, x, width * 2**level)
    net.output(net.conv(x, 1, act="sigmoid", name="mask"))


def _double_conv(net: Net, x: NetTensor, channels: int) -> NetTensor:
    return net.conv(net.conv(x, channels, 3), channels, 3)
