"""Sizes and ratios as people read them."""

from __future__ import annotations

__all__ = ["mib_text", "ratio_text", "size_text"]

_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def size_text(size: int, *, texels: bool = False) -> str:
    """1572864 -> "1.50 MiB"; below 1 KiB in bytes; texels as they are."""
    if texels:
        return f"{size:,} texels"
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} B"


def mib_text(size: int) -> str:
    """1572864 -> "1.5": MiB, for columns of them."""
    return f"{size / 2**20:.1f}"


def ratio_text(size: int, of: int, unit: str = "bytes") -> str:
    """1.234x; where three digits would hide a difference, with the difference: "1.000x + 40 bytes"."""
    if not of:
        return "-"
    text = f"{size / of:.3f}x"
    hidden = size != of and abs(size / of - 1) < 0.0005
    return f"{text} {'+' if size > of else '-'} {abs(size - of):,} {unit}" if hidden else text
