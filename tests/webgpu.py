"""Runs dispatches on a GPU with each tensor in a place of its own, so that kernels are tested without an executor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import pytest

from edgemem.runtime.webgpu.kernel_texts import prelude
from edgemem.runtime.webgpu.lowering import Lowering, lower
from edgemem.runtime.webgpu.packing import from_image, pack, to_image, unpack
from edgemem.runtime.webgpu.shaders import OUTPUT, WEIGHTS, Precision, Shader, assemble, layout_entries
from edgemem.runtime.webgpu.size_constants import Reach
from tests.webgpu_adapters import ADAPTERS, need_adapter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Layout
    from edgemem.model.tensor_ops import TensorOp
    from edgemem.model.texture_layout import Stored
    from edgemem.runtime.webgpu.dispatch import Dispatch

__all__ = ["EVERY_REACH", "FLOATS", "Held", "Storage", "bind", "compute", "device", "hold", "run"]

Storage: TypeAlias = Literal["buffer", "texture2d", "texture-linear", "texture-array"]
_STORAGES: Final[tuple[Storage, ...]] = ("buffer", "texture2d", "texture-linear", "texture-array")
EVERY_REACH: Final[tuple[tuple[Storage, Precision], ...]] = tuple(
    (storage, precision) for storage in _STORAGES for precision in ("fp32", "fp16")
)
FLOATS: Final = {"fp32": np.float32, "fp16": np.float16}
_TEXTURES: Final = {"fp32": "rgba32float", "fp16": "rgba16float"}
_ROW: Final = 64  # texels of a row of a linear texture: short, so that tensors have several rows
_LAYER_ROWS: Final = 2  # of an array of textures
_LAYER: Final = 1  # layers of NaN before and behind each tensor in an array
_SPARE: Final = 256  # bytes of NaN before and behind each tensor in a buffer


@cache
def device(adapter: str = ADAPTERS[0]) -> Any:
    """A device of the adapter with this in its name, with timestamps where it has them; skips the test without one."""
    name = need_adapter(adapter)
    found = pytest.importorskip("wgpu").gpu.enumerate_adapters_sync()
    chosen = next(a for a in found if a.info["device"] == name and a.info["backend_type"] == "Vulkan")
    return chosen.request_device_sync(required_features=sorted({"timestamp-query", "shader-f16"} & chosen.features))


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor on the GPU: a resource for a bind group, and how to read it."""

    reach: Reach
    resource: Any
    owner: Any
    precision: Precision

    def read(self) -> NDArray[np.float32]:
        """The tensor in the order of its own axes, four-dimensional."""
        stored, row, form = self.reach.stored, self.reach.row, FLOATS[self.precision]
        queue = device().queue
        if self.reach.kind == "buffer":
            data = queue.read_buffer(self.owner, _SPARE, stored.texels * 4 * np.dtype(form).itemsize)
            return unpack(np.frombuffer(data, form), stored)
        width, rows = _extents(stored, row)
        layers, origin = 1, 0
        if self.reach.layer_rows:
            rows, layers, origin = self.reach.layer_rows, -(-rows // self.reach.layer_rows), _LAYER
        layout = {"bytes_per_row": width * 4 * np.dtype(form).itemsize, "rows_per_image": rows}
        source = {"texture": self.owner, "origin": (0, 0, origin)}
        data = queue.read_texture(source, layout, (width, rows, layers))
        return unpack(from_image(np.frombuffer(data, form), stored, row), stored)


def _extents(stored: Stored, row: int) -> tuple[int, int]:
    if row:
        return row, -(-stored.texels // row)
    return stored.width * stored.batch, stored.height * stored.slices


def hold(
    index: int, values: NDArray[np.float32] | None, stored: Stored, storage: Storage, precision: Precision
) -> Held:
    """A place of its own for a tensor, NaN around it, in its unused channels and (without values) inside."""
    wgpu = pytest.importorskip("wgpu")

    form = FLOATS[precision]
    if values is None:
        values = np.full(stored.dims, np.nan, np.float32)
    texels = pack(values, stored, fill=np.nan)
    if storage == "buffer":
        spare = np.full(_SPARE // np.dtype(form).itemsize, np.nan, form)
        data = np.concatenate([spare, texels.ravel().astype(form), spare])
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
        owner = device().create_buffer_with_data(data=data, usage=usage)
        resource = {"buffer": owner, "offset": _SPARE, "size": data.nbytes - 2 * _SPARE}
        return Held(Reach("buffer", stored, index), resource, owner, precision)
    row = _ROW if storage in ("texture-linear", "texture-array") else 0
    width, rows = _extents(stored, row)
    layers = -(-rows // _LAYER_ROWS) if storage == "texture-array" else 0
    use = wgpu.TextureUsage
    usage = use.STORAGE_BINDING | use.TEXTURE_BINDING | use.COPY_DST | use.COPY_SRC
    size = (width + 3, rows + 2, 1)  # an object that is larger than the tensor
    if layers:
        size = (width, _LAYER_ROWS, layers + 2 * _LAYER)
    owner = device().create_texture(size=size, format=_TEXTURES[precision], usage=usage)
    bytes_of = 4 * np.dtype(form).itemsize
    queue = device().queue
    dirty = np.full((size[2], size[1], size[0], 4), np.nan, form)
    written = {"bytes_per_row": size[0] * bytes_of, "rows_per_image": size[1]}
    queue.write_texture({"texture": owner}, dirty, written, size)
    image = to_image(texels, stored, row).astype(form)
    if layers:
        image = np.concatenate((image, np.full((layers * _LAYER_ROWS - rows, row, 4), np.nan, form)))
        place = {"texture": owner, "origin": (0, 0, _LAYER)}
        queue.write_texture(place, image, written, (width, _LAYER_ROWS, layers))
        view = owner.create_view(dimension="2d-array", base_array_layer=_LAYER, array_layer_count=layers)
        reach = Reach("texture", stored, index, linear=True, row=row, layer_rows=_LAYER_ROWS)
        return Held(reach, view, owner, precision)
    queue.write_texture({"texture": owner}, image, {"bytes_per_row": width * bytes_of}, (width, rows, 1))
    reach = Reach("texture", stored, index, linear=bool(row), row=row)
    return Held(reach, owner.create_view(), owner, precision)


def _hold_constant(index: int, values: NDArray[np.float32], stored: Stored) -> Held:
    wgpu = pytest.importorskip("wgpu")

    owner = device().create_buffer_with_data(data=pack(values, stored), usage=wgpu.BufferUsage.STORAGE)
    return Held(Reach("constant", stored, ("constant", index)), {"buffer": owner}, owner, "fp32")


@cache
def _pipeline(gpu: Any, shader: Shader, precision: Precision) -> tuple[Any, Any]:
    """The bind-group layout and the pipeline of a shader; compiled once a device: drivers take a second for some."""
    layout = gpu.create_bind_group_layout(entries=layout_entries(shader.layout, precision))
    together = gpu.create_pipeline_layout(bind_group_layouts=[layout])
    has_f16 = precision == "fp16" and "shader-f16" in getattr(gpu, "features", ())
    module = gpu.create_shader_module(code=prelude(has_f16=has_f16) + shader.text)
    return layout, gpu.create_compute_pipeline(layout=together, compute={"module": module, "entry_point": "main"})


def bind(dispatch: Dispatch, held: Mapping[int, Held], precision: Precision) -> tuple[Any, Any]:
    """The pipeline and the bind group of a dispatch."""
    wgpu = pytest.importorskip("wgpu")

    gpu = device()
    inputs = [held[i] for i in dispatch.inputs]
    shader = assemble(dispatch, [h.reach for h in inputs], held[dispatch.output].reach, precision)
    layout, pipeline = _pipeline(gpu, shader, precision)
    entries = {OUTPUT: held[dispatch.output].resource}
    entries |= {b: h.resource for b, h in zip(shader.inputs, inputs, strict=True)}
    for k, array in enumerate(dispatch.weights):
        data = np.ascontiguousarray(array)
        entries[WEIGHTS + k] = {"buffer": gpu.create_buffer_with_data(data=data, usage=wgpu.BufferUsage.STORAGE)}
    resources = [{"binding": b, "resource": r} for b, r in sorted(entries.items())]
    return pipeline, gpu.create_bind_group(layout=layout, entries=resources)


def _submit(dispatch: Dispatch, held: Mapping[int, Held], precision: Precision) -> None:
    pipeline, group = bind(dispatch, held, precision)
    encoder = device().create_command_encoder()
    compute_pass = encoder.begin_compute_pass()
    compute_pass.set_pipeline(pipeline)
    compute_pass.set_bind_group(0, group)
    compute_pass.dispatch_workgroups(*dispatch.workgroups)
    compute_pass.end()
    device().queue.submit([encoder.finish()])


def run(
    dispatches: Sequence[Dispatch],
    context: Lowering,
    feeds: Mapping[int, NDArray[np.generic]],
    *,
    storage: Storage = "buffer",
    precision: Precision = "fp32",
    in_place: Mapping[int, int] | None = None,
) -> dict[int, NDArray[np.float32]]:
    """Every tensor that the dispatches write, in its shape.

    Args:
        dispatches: are run one after another.
        context: shapes, layout and constants.
        feeds: values of the tensors that are read before they are written.
        storage: how tensors are kept; constants are always buffers.
        precision: of tensors.
        in_place: for an output, the input whose place it has (buffers only).
    """
    over = in_place or {}
    held: dict[int, Held] = {}
    written = dict.fromkeys(d.output for d in dispatches)
    for index in dict.fromkeys(i for d in dispatches for i in (*d.inputs, d.output)):
        if index in context.constants:
            held[index] = _hold_constant(index, context.value(index), context.stored(index))
        elif index not in over:
            value = np.asarray(feeds[index], np.float32) if index in feeds else None
            held[index] = hold(index, value, context.stored(index), storage, precision)
    for output, source in over.items():
        first = held[source]
        reach = Reach(first.reach.kind, context.stored(output), first.reach.place)
        held[output] = Held(reach, first.resource, first.owner, precision)
    for dispatch in dispatches:
        _submit(dispatch, held, precision)
    return {i: held[i].read().reshape(context.shape(i)) for i in written}


def compute(
    op: TensorOp,
    feeds: Mapping[int, NDArray[np.generic]],
    shape: tuple[int, ...],
    *,
    layout: Layout = "nhwc",
    constants: Mapping[int, NDArray[np.float32]] | None = None,
    storage: Storage = "buffer",
    precision: Precision = "fp32",
    in_place: int = -1,
) -> NDArray[np.float32]:
    """The output of one tensor operation.

    Args:
        op: its tensors are indices into `feeds` and `constants`.
        feeds: values of the inputs.
        shape: of the output.
        layout: of the graph.
        constants: values of the inputs that are constants.
        storage, precision: of the tensors.
        in_place: the input whose place the output has; -1: none.
    """
    known = dict(constants or {})
    shapes = {i: np.shape(v) for i, v in (*feeds.items(), *known.items())} | {op.output: shape}
    context = Lowering(shapes, layout, known)
    over = {op.output: in_place} if in_place >= 0 else None
    return run(lower(op, context), context, feeds, storage=storage, precision=precision, in_place=over)[op.output]
