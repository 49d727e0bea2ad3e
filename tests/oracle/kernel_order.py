"""The order in which kernels read and write, element by element, and whether an overlap destroys what is still read.

Each function yields the events of one kernel: ("r", k) reads element k of the input, ("w", k) writes element k of the
output, and ("c", at, start, count) copies elements [start, start + count) of the input to `at` in the output with
memcpy, whose order nobody knows. Written after the sources of the kernels, one loop a loop.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Event = tuple[Any, ...]
Shape = tuple[int, ...]


def at(shape: Sequence[int], *index: int) -> int:
    """The number of an element, in C order."""
    return int(np.ravel_multi_index(index, tuple(shape)))


def is_safe(events: Iterable[Event], distance: int, read_width: int, made_width: int, read_size: int) -> bool:
    """Whether the kernel reads nothing that it has overwritten, with the input `distance` bytes after the output.

    A copy must give the right bytes whether it goes up or down.
    """
    listed = list(events)
    return all(_runs(listed, distance, read_width, made_width, read_size, down=down) for down in (False, True))


def _runs(
    events: Sequence[Event], distance: int, read_width: int, made_width: int, read_size: int, *, down: bool
) -> bool:
    memory: dict[int, int] = {distance + k: k for k in range(read_size)}  # which byte of the input is where
    for event in events:
        if event[0] == "r":
            start = event[1] * read_width
            if any(memory.get(distance + k) != k for k in range(start, start + read_width)):
                return False
        elif event[0] == "w":
            memory.update(dict.fromkeys(range(event[1] * made_width, (event[1] + 1) * made_width), -1))
        else:
            _, to, start, count = (event[0], *(number * read_width for number in event[1:]))
            order = range(count - 1, -1, -1) if down else range(count)
            for k in order:
                memory[to + k] = memory.get(distance + start + k, -1)
            if any(memory[to + k] != start + k for k in range(count)):
                return False
            # The output's bytes are the input's own: to the kernel they are written.
            for k in range(count):
                if to + k != distance + start + k:
                    memory[to + k] = -1
    return True


def taps(
    y: int, x: int, given: Shape, kernel: Shape, stride: Shape, dilation: Shape, pads: Shape
) -> Iterator[tuple[int, int]]:
    """The pixels inside the image that an output pixel's window covers."""
    for ky, kx in product(range(kernel[0]), range(kernel[1])):
        iy, ix = y * stride[0] - pads[0] + ky * dilation[0], x * stride[1] - pads[1] + kx * dilation[1]
        if 0 <= iy < given[1] and 0 <= ix < given[2]:
            yield iy, ix


def conv(given: Shape, made: Shape, groups: int, window: Sequence[Shape]) -> Iterator[Event]:
    """reference/conv.h."""
    depth, fan = given[3] // groups, made[3] // groups
    for b, y, x, k in product(*map(range, made)):
        for (iy, ix), c in product(list(taps(y, x, given, *window)), range(depth)):
            yield "r", at(given, b, iy, ix, c + k // fan * depth)
        yield "w", at(made, b, y, x, k)


def conv_im2col(given: Shape, made: Shape, columns: int, window: Sequence[Shape]) -> Iterator[Event]:
    """arm_convolve_s8.c: `columns` windows are copied, then their pixels are written, channel by channel."""
    for b in range(made[0]):
        pixels = list(product(range(made[1]), range(made[2])))
        for start in range(0, len(pixels), columns):
            block = pixels[start : start + columns]
            for y, x in block:
                for (iy, ix), c in product(list(taps(y, x, given, *window)), range(given[3])):
                    yield "r", at(given, b, iy, ix, c)
            for k, (y, x) in product(range(made[3]), block):
                yield "w", at(made, b, y, x, k)


def conv_blocked(given: Shape, made: Shape, stride: Shape) -> Iterator[Event]:
    """arm_nn_mat_mult_nt_t_s8.c with vectors: a 1x1 convolution, four pixels at a time for each output channel.

    A rest of less than four pixels is read pixel by pixel; four channels are written at once.
    """
    height, width = made[1:3]
    rows = [[(b, y, x) for x in range(width)] for b in range(made[0]) for y in range(height)]
    if stride == (1, 1):
        rows = [[pixel for row in rows for pixel in row]]
    for row in rows:
        full = len(row) // 4 * 4
        for start in range(0, full, 4):
            block = row[start : start + 4]
            for k in range(made[3]):
                for (b, y, x), c in product(block, range(given[3])):
                    yield "r", at(given, b, y * stride[0], x * stride[1], c)
                for b, y, x in block:
                    yield "w", at(made, b, y, x, k)
        for b, y, x in row[full:]:
            for k in range(made[3]):
                for c in range(given[3]):
                    yield "r", at(given, b, y * stride[0], x * stride[1], c)
                if k % 4 == 3 or k == made[3] - 1:
                    for done in range(k // 4 * 4, k + 1):
                        yield "w", at(made, b, y, x, done)


def depthwise(given: Shape, made: Shape, window: Sequence[Shape]) -> Iterator[Event]:
    """reference/depthwiseconv_float.h, and reference/pooling.h where there are as many channels."""
    multiplier = made[3] // given[3]
    for b, y, x, c, m in product(*map(range, (*made[:3], given[3], multiplier))):
        for iy, ix in taps(y, x, given, *window):
            yield "r", at(given, b, iy, ix, c)
        yield "w", at(made, b, y, x, c * multiplier + m)


def pool_in_place(given: Shape, made: Shape, window: Sequence[Shape]) -> Iterator[Event]:
    """arm_max_pool_s8.c: the first pixel is copied to the output, and the others are compared with it there."""
    for b, y, x in product(*map(range, made[:3])):
        for number, (iy, ix) in enumerate(taps(y, x, given, *window)):
            if not number:
                yield "c", at(made, b, y, x, 0), at(given, b, iy, ix, 0), given[3]
                continue
            for c in range(given[3]):
                yield "r", at(given, b, iy, ix, c)
                yield "w", at(made, b, y, x, c)


def fully_connected(rows: int, depth: int, channels: int) -> Iterator[Event]:
    """reference/fully_connected.h."""
    for b, k in product(range(rows), range(channels)):
        yield from (("r", b * depth + d) for d in range(depth))
        yield "w", b * channels + k


def elementwise(count: int) -> Iterator[Event]:
    """reference/add.h, quantize.h, ...: one loop."""
    for k in range(count):
        yield "r", k
        yield "w", k


def pad(given: Shape, paddings: Shape) -> Iterator[Event]:
    """reference/pad.h."""
    made = tuple(d + a + b for d, a, b in zip(given, paddings[::2], paddings[1::2], strict=True))
    read = 0
    for number, index in enumerate(product(*map(range, made))):
        if all(a <= i < a + d for i, a, d in zip(index, paddings[::2], given, strict=True)):
            yield "r", read
            read += 1
        yield "w", number


def pad_rows(given: Shape, paddings: Shape) -> Iterator[Event]:
    """arm_pad_s8.c: rows are copied, of pixels if the channels are padded."""
    n, h, w, c = given
    row, pixel = (w + sum(paddings[4:6])) * (c + sum(paddings[6:])), c + sum(paddings[6:])
    to = start = 0

    def fill(count: int) -> Iterator[Event]:
        nonlocal to
        for _ in range(count):
            yield "w", to
            to += 1

    def copy(count: int) -> Event:
        nonlocal to, start
        event = ("c", to, start, count)
        to, start = to + count, start + count
        return event

    plane = (h + sum(paddings[2:4])) * row
    yield from fill(plane * paddings[0])
    for _ in range(n):
        yield from fill(row * paddings[2])
        for _ in range(h):
            yield from fill(pixel * paddings[4])
            if pixel == c:
                yield copy(w * c)
            else:
                for _ in range(w):
                    yield from fill(paddings[6])
                    yield copy(c)
                    yield from fill(paddings[7])
            yield from fill(pixel * paddings[5])
        yield from fill(row * paddings[3])
    yield from fill(plane * paddings[1])


def cut(given: Shape, begin: Shape, size: Shape) -> Iterator[Event]:
    """reference/slice.h."""
    for number, index in enumerate(product(*map(range, size))):
        yield "r", at(given, *(b + i for b, i in zip(begin, index, strict=True)))
        yield "w", number


def concatenate(shapes: Sequence[Shape], axis: int, position: int) -> Iterator[Event]:
    """reference/concatenation.h, as the input at `position` sees it."""
    outer = prod(shapes[0][:axis])
    counts = [prod(shape[axis:]) for shape in shapes]
    to = 0
    for k, (number, count) in product(range(outer), enumerate(counts)):
        if number == position:
            yield "c", to, k * count, count
        else:
            yield from (("w", to + i) for i in range(count))
        to += count


def resize(given: Shape, made: Shape, rows: Sequence[int], columns: Sequence[int]) -> Iterator[Event]:
    """reference/resize_bilinear.h: `rows` and `columns` are the lower of the two neighbours of each."""
    for b, y, x, c in product(*map(range, made)):
        for iy in {rows[y], min(rows[y] + 1, given[1] - 1)}:
            for ix in {columns[x], min(columns[x] + 1, given[2] - 1)}:
                yield "r", at(given, b, iy, ix, c)
        yield "w", at(made, b, y, x, c)


def resize_nearest(given: Shape, made: Shape, rows: Sequence[int], columns: Sequence[int]) -> Iterator[Event]:
    """reference/resize_nearest_neighbor.h."""
    for b, y, x in product(*map(range, made[:3])):
        yield "c", at(made, b, y, x, 0), at(given, b, rows[y], columns[x], 0), given[3]
