"""The targets that edgemem knows by name."""

from __future__ import annotations

from dataclasses import replace

from edgemem.targets.rules import Target

__all__ = ["BUILT_IN"]

# What WebGPU promises on every device: offsets of bindings, and the largest one. Textures have sides of 8192.
_GPU_BUFFER = Target(
    "gpu-buffer",
    alignment=256,
    inputs="until_last_use",
    outputs="to_end",
    aliasing="gpu",
    bodies="outside",
    storage="phwc4",
    binding=128 * 2**20,
)
_GPU_TEXTURE = Target(
    "gpu-texture",
    alignment=1,
    inputs="until_last_use",
    outputs="to_end",
    aliasing="gpu-views",
    bodies="outside",
    texels=True,
    storage="phwc4",
)
_LINEAR_ROW = 1024
_LAYER_ROWS = 4  # 16 MiB in the 256 layers that every device has
_GPU_ARRAY = replace(
    _GPU_TEXTURE,
    name="gpu-texture-array",
    texels=False,
    texel_row=_LINEAR_ROW,
    layer_rows=_LAYER_ROWS,
    alignment=_LINEAR_ROW * _LAYER_ROWS * 16,
)

BUILT_IN: dict[str, Target] = {
    t.name: t
    for t in (
        Target("generic"),
        Target("onnxruntime"),
        Target(
            "litert",
            inputs="whole_run",
            outputs="to_end",
            unread="to_end",
            variables="whole_run",
            aliasing="litert",
            bodies="outside",
            scratch="litert",
        ),
        Target(
            "tflm",
            alignment=16,
            inputs="until_last_use",
            outputs="to_end",
            aliasing="tflm",
            sub_byte="unpacked",
            scratch="tflm",
        ),
        _GPU_BUFFER,
        replace(_GPU_BUFFER, name="gpu-buffer-fp16", precision="fp16"),
        _GPU_TEXTURE,
        replace(_GPU_TEXTURE, name="gpu-texture-fp16", precision="fp16"),
        replace(_GPU_TEXTURE, name="gpu-texture-linear", texel_row=_LINEAR_ROW),
        replace(_GPU_TEXTURE, name="gpu-texture-linear-fp16", texel_row=_LINEAR_ROW, precision="fp16"),
        _GPU_ARRAY,
        replace(_GPU_ARRAY, name="gpu-texture-array-fp16", precision="fp16", alignment=_LINEAR_ROW * _LAYER_ROWS * 8),
        # Bytes as its allocator is asked for them. Storages that share memory are one tensor in the graph already.
        Target("pytorch", alignment=1, outputs="to_end", aliasing="none"),
    )
}
