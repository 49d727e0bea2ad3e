"""Networks as .tflite files: MobileNet v2 of any width and input size, float32 or int8."""

from __future__ import annotations

from models.classification import MOBILENET_V2, divisible
from models.tflite_net import TfliteNet

LAST_CHANNELS = 1280


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
    if not 0 < alpha <= 4:
        raise ValueError(f"alpha {alpha:g} is not above 0 and at most 4")
    if not 32 <= size <= 1024:
        raise ValueError(f"size {size} is not from 32 to 1024 pixels")
    if not 1 <= classes <= 100_000:
        raise ValueError(f"{classes} classes are not from 1 to 100,000")
    net = TfliteNet(int8=int8, seed=seed)
    x = net.conv("conv0", net.input("image", size, size, 3), divisible(32 * alpha), 3, stride=2, relu6=True)
    block = 0
    for expansion, base, repeats, group_stride in MOBILENET_V2:
        channels = divisible(base * alpha)
        for repeat in range(repeats):
            block += 1
            entry, name = x, f"block{block}"
            if expansion > 1:
                x = net.conv(f"{name}/expand", x, x.channels * expansion, relu6=True)
            x = net.depthwise(f"{name}/depthwise", x, stride=1 if repeat else group_stride, relu6=True)
            x = net.conv(f"{name}/project", x, channels, relu6=False)
            if repeat:
                x = net.add(f"{name}/add", entry, x)
    x = net.conv("conv_last", x, divisible(LAST_CHANNELS * max(alpha, 1.0)), relu6=True)
    return net.content(net.logits("logits", net.average_pool("pool", x), classes))
