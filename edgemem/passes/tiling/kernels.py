"""What the CPU kernels of ONNX Runtime (MLAS) do with a part of a convolution: its workspace, and its sums.

A float convolution is a product of matrices: M filters x K weights, and K unfolded values x N pixels. The sums over K
are made in blocks whose length depends on how many pixels a thread has at once: with few of them the blocks are longer,
and the last bits of a part may differ from those of the whole. The rules are those of onnxruntime/core/mlas/lib:
sgemm.cpp (MlasSgemmOperation, MlasGemmBatch) and convolve.cpp (MlasConvPrepare, MlasConvOperation).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph, Op

__all__ = ["Product", "is_same_sum", "product_of", "workspace"]

_FLOAT_CONVOLUTIONS: Final = frozenset({"Conv", "com.microsoft::FusedConv"})
_SEGMENT_BYTES: Final = 65536  # of unfolded pixels, for each thread
_BLOCK: Final = 128  # values of a sum, and pixels
_ALIGN: Final = 16  # threads share pixels in so many at a time
_WORK: Final = 65536  # multiplications that are worth a thread
_FLOAT32: Final = 4  # bytes
_ONE_PIXEL: Final = 0  # instead of a length: a product with a vector, which has a kernel of its own


@dataclass(frozen=True, slots=True)
class Product:
    """A convolution as a product of matrices, one for each group.

    Attributes:
        filters: M. depth: K. pixels: N, of the whole result. unfolds: the pixels are copied into a workspace first.
        scatters: result pixels for each pixel of the product, if it is a transposed convolution; else 0.
    """

    filters: int
    depth: int
    pixels: int
    unfolds: bool
    scatters: int

    @property
    def has_one_block(self) -> bool:
        """Whether a sum is one block for any number of pixels."""
        return self.depth <= _BLOCK


def is_same_sum(product: Product, pixels: Iterable[int], *, threads: Sequence[int] = (1,)) -> bool:
    """Whether a kernel adds up parts of its result in the same blocks as the whole.

    Args:
        product: what it computes.
        pixels: of the result in each part.
        threads: numbers of threads for which this is to hold.
    """
    sizes = {n // max(product.scatters, 1) for n in pixels}
    if product.has_one_block and all(n > 1 for n in (*sizes, product.pixels)):
        return True
    for count in threads:
        blocks = _blocks(product, product.pixels, count)
        if len(blocks) > 1 or any(_blocks(product, n, count) != blocks for n in sizes):
            return False
    return True


def workspace(product: Product, pixels: NDArray[np.int64], *, threads: int = 1) -> NDArray[np.int64]:
    """Bytes of workspace for each part of so many pixels.

    A convolution unfolds pixels, all or a segment for each thread; a transposed one keeps its products.
    """
    if product.scatters:
        return pixels // product.scatters * (product.filters * _FLOAT32)
    if not product.unfolds:
        return np.zeros_like(pixels)
    used = np.minimum(threads, product.filters * pixels * product.depth // _WORK + 1)
    return np.where(product.filters > pixels, pixels * (product.depth * _FLOAT32), _SEGMENT_BYTES * used)


def product_of(graph: Graph, op: Op) -> Product | None:
    """What a float convolution computes; None for other operators."""
    if op.type not in (*_FLOAT_CONVOLUTIONS, "ConvTranspose") or len(op.inputs) < 2:
        return None
    weights, result = graph.tensors[op.inputs[1]].shape, graph.tensors[op.outputs[0]].shape
    groups, pads = op.attributes.get("group"), op.attributes.get("pads")
    groups = groups if isinstance(groups, int) and groups > 0 else 1
    if op.type == "ConvTranspose":
        source = prod(graph.tensors[op.inputs[0]].shape[2:])
        return Product(prod(weights[1:]), weights[0] // groups, source, False, prod(result[2:]) // max(source, 1))
    is_pointwise = op.attributes.get("kernel") == op.attributes.get("stride") == (1, 1) and pads == (0, 0, 0, 0)
    return Product(weights[0] // groups, prod(weights[1:]), prod(result[2:]), not is_pointwise, 0)


def _blocks(product: Product, pixels: int, threads: int) -> frozenset[int]:
    """The lengths of the blocks in which the sums over so many pixels are made."""
    return frozenset(_block(n, product.depth) for n in _shares(product, pixels, threads))


def _block(pixels: int, depth: int) -> int:
    """Values that are added up before the next block begins; `depth` where there is one block."""
    if pixels == 1:
        return _ONE_PIXEL
    across = along = _BLOCK
    if pixels < depth:
        while across > _ALIGN and across // 2 >= pixels:
            across, along = across // 2, along * 2
    return min(along, depth)


def _shares(product: Product, pixels: int, threads: int) -> set[int]:
    """How many pixels a thread has at once."""
    worth = product.filters * pixels * product.depth // _WORK + 1
    threads = min(threads, worth)
    if threads == 1 or product.filters > pixels or (product.filters == pixels and not product.unfolds):
        return {pixels}  # threads share the filters
    count = -(-pixels // _ALIGN)
    if product.unfolds:
        share = -(-count // threads) * _ALIGN
        return {min(share, pixels), pixels - (pixels - 1) // share * share}
    threads = min(threads, count)
    least, more = divmod(count, threads)
    sizes = {least * _ALIGN} | ({(least + 1) * _ALIGN} if more else set())
    return (sizes if threads > 1 else set()) | {pixels - (count - least) * _ALIGN}
