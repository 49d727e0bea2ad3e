"""WGSL that reads and writes the texels of a texture, or of consecutive layers of an array of textures."""

from __future__ import annotations

from typing import Final

__all__ = ["FORMS", "texture_load", "texture_store", "texture_type", "view_dimension"]

FORMS: Final = {"fp32": "rgba32float", "fp16": "rgba16float"}


def view_dimension(layer_rows: int) -> str:
    """What a bind-group layout says: of a texture, or of layers of so many rows."""
    return "2d-array" if layer_rows else "2d"


def texture_type(layer_rows: int, precision: str = "") -> str:
    """The type of a variable that is read, or written in a precision."""
    array = "_array" if layer_rows else ""
    return f"texture_storage_2d{array}<{FORMS[precision]}, write>" if precision else f"texture_2d{array}<f32>"


def texture_load(name: str, data: str, layer_rows: int) -> str:
    """A function of a texel's place as of one texture as high as needed: `name(at: vec2<i32>) -> vec4<f32>`."""
    return f"fn {name}(at: vec2<i32>) -> vec4<f32> {{ return textureLoad({data}, {_place(layer_rows)}, 0); }}\n"


def texture_store(name: str, data: str, layer_rows: int) -> str:
    """A function that writes: `name(at: vec2<i32>, value: vec4<f32>)`."""
    call = f"textureStore({data}, {_place(layer_rows)}, value)"
    return f"fn {name}(at: vec2<i32>, value: vec4<f32>) {{ {call}; }}\n"


def _place(layer_rows: int) -> str:
    return f"vec2<i32>(at.x, at.y % {layer_rows}), at.y / {layer_rows}" if layer_rows else "at"
