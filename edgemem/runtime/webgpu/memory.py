"""Buffers and textures for the tensors of a graph, exactly as a layout says."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.report.sizes import size_text
from edgemem.runtime.webgpu.device import checked
from edgemem.runtime.webgpu.packing import from_image, pack, to_image, unpack

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from edgemem.runtime.webgpu.device import GpuDevice
    from edgemem.runtime.webgpu.places import GpuLayout, Place

__all__ = ["GpuMemory"]

# Usages, as the WebGPU standard numbers them.
_COPY_SRC: Final = 0x4
_COPY_DST: Final = 0x8
_STORAGE: Final = 0x80
_TEXTURE_USAGE: Final = 0x1 | 0x2 | 0x4 | 0x8  # copies from and to it, texture and storage bindings

_ROW: Final = 256  # bytes: of which a row is a multiple when a buffer is copied to a texture
_AT_ONCE: Final = 4 * 2**20  # bytes of the buffer from which memory is filled
_NAN: Final = 0xFF  # repeated, it is no number in float32 and in float16


class GpuMemory:
    """The memory of a graph's tensors on a device.

    Attributes:
        layout: what it holds, and where.
        allocated: bytes of its buffers and textures, as the device reports them.
    """

    def __init__(self, device: GpuDevice, layout: GpuLayout) -> None:
        self.layout = layout
        self._device = device.handle
        self._dtype = np.dtype(np.float32 if layout.precision == "fp32" else np.float16)
        self._form = "rgba32float" if layout.precision == "fp32" else "rgba16float"
        self._pieces: list[Any] = []
        self._views: dict[tuple[int, int, int], Any] = {}  # by piece, first layer and number of layers
        self._fill: Any = None
        try:
            with checked(f"cannot allocate {size_text(layout.bytes)} on {device.adapter.name}"):
                for piece in layout.pieces:
                    self._allocate(piece)
        except RuntimeBindError:
            self.close()
            raise
        self.allocated = sum(self._reported(piece) for piece in self._pieces)

    def _allocate(self, piece: Any) -> None:
        if isinstance(piece, int):
            size = -(-max(piece, 4) // 4) * 4  # WebGPU's unit of copies
            self._pieces.append(self._device.create_buffer(size=size, usage=_COPY_SRC | _COPY_DST | _STORAGE))
            return
        extent = (*piece, 1) if len(piece) == 2 else piece
        texture = self._device.create_texture(size=extent, format=self._form, dimension="2d", usage=_TEXTURE_USAGE)
        self._pieces.append(texture)

    def _reported(self, piece: Any) -> int:
        if not self.layout.is_texture:
            return int(piece.size)
        width, height, depth = piece.size
        return int(width * height * depth * self.layout.texel_bytes)

    def place(self, tensor: int) -> Place:
        """Where a tensor is."""
        return self.layout.places[tensor]

    def resource(self, tensor: int) -> Any:
        """What a bind group takes for a tensor."""
        place = self.place(tensor)
        if place.texels is not None:
            return self._view(place.piece, self.layout.first_layer(place), place.texels.layers)
        return {"buffer": self._pieces[place.piece], "offset": place.offset, "size": place.size}

    def _view(self, piece: int, first: int, layers: int) -> Any:
        key = piece, first, layers
        if key not in self._views:
            array = {"dimension": "2d-array", "base_array_layer": first, "array_layer_count": layers} if layers else {}
            self._views[key] = self._pieces[piece].create_view(**array)
        return self._views[key]

    def write(self, tensor: int, values: NDArray[Any], *, unused: float = 0.0) -> None:
        """Put a tensor's values, in the order of its own axes, in its place; unused channels hold `unused`."""
        place = self.place(tensor)
        texels = pack(values, place.stored, unused)
        queue = self._device.queue
        piece = self._pieces[place.piece]
        if place.texels is None:
            queue.write_buffer(piece, place.offset, texels.astype(self._dtype, copy=False))
            return
        width, height, layers = place.texels.width, place.texels.height, max(place.texels.layers, 1)
        image = to_image(texels, place.stored, place.texels.row)[:, :width].astype(self._dtype, copy=False)
        rest = np.zeros((height * layers - len(image), *image.shape[1:]), self._dtype)
        queue.write_texture(
            {"texture": piece, "origin": (0, 0, self.layout.first_layer(place))},
            np.concatenate((image, rest)),
            {"bytes_per_row": width * self.layout.texel_bytes, "rows_per_image": height},
            (width, height, layers),
        )

    def read(self, tensor: int) -> NDArray[np.float32]:
        """A tensor's values as float32, in the order of its own axes."""
        place = self.place(tensor)
        queue = self._device.queue
        piece = self._pieces[place.piece]
        if place.texels is None:
            data = queue.read_buffer(piece, place.offset, place.size)
            return unpack(np.frombuffer(data, self._dtype), place.stored)
        width, height, layers = place.texels.width, place.texels.height, max(place.texels.layers, 1)
        data = queue.read_texture(
            {"texture": piece, "origin": (0, 0, self.layout.first_layer(place))},
            {"bytes_per_row": width * self.layout.texel_bytes, "rows_per_image": height},
            (width, height, layers),
        )
        return unpack(from_image(np.frombuffer(data, self._dtype), place.stored, place.texels.row), place.stored)

    def poison(self) -> None:
        """Fill all of it with what is no number, so that reading what was not written shows in the results."""
        if self._fill is None:
            self._fill = self._filling()
        encoder = self._device.create_command_encoder()
        for piece in self._pieces:
            if self.layout.is_texture:
                self._fill_texture(encoder, piece)
                continue
            for begin in range(0, piece.size, self._fill.size):
                encoder.copy_buffer_to_buffer(self._fill, 0, piece, begin, min(self._fill.size, piece.size - begin))
        self._device.queue.submit([encoder.finish()])

    def _filling(self) -> Any:
        if self.layout.is_texture:
            longest = max((self._row_bytes(piece) for piece in self._pieces), default=_ROW)
            size = max(longest, _AT_ONCE // longest * longest)
        else:
            size = min(max((piece.size for piece in self._pieces), default=4), _AT_ONCE)
        with checked("cannot fill memory"):
            return self._device.create_buffer_with_data(data=np.full(size, _NAN, np.uint8), usage=_COPY_SRC)

    def _row_bytes(self, texture: Any) -> int:
        width = int(texture.size[0])
        return -(-width * self.layout.texel_bytes // _ROW) * _ROW

    def _fill_texture(self, encoder: Any, texture: Any) -> None:
        width, height, layers = texture.size
        row = self._row_bytes(texture)
        rows = self._fill.size // row
        for layer, y in product(range(layers), range(0, height, rows)):
            count = min(rows, height - y)
            encoder.copy_buffer_to_texture(
                {"buffer": self._fill, "offset": 0, "bytes_per_row": row, "rows_per_image": count},
                {"texture": texture, "origin": (0, y, layer)},
                (width, count, 1),
            )

    def close(self) -> None:
        """Give the memory back. Nothing else may be called afterwards."""
        for piece in (*self._pieces, *filter(None, (self._fill,))):
            piece.destroy()
        self._pieces, self._views, self._fill = [], {}, None
