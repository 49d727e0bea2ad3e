"""Values to run a model on when nobody gives any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import UnknownShapeError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Feeds", "example_feeds", "resolve"]

Feeds = dict[str, "NDArray[Any]"]


def example_feeds(
    inputs: Mapping[str, tuple[str, Sequence[int | str | None]]],
    *,
    dims: Mapping[str, int] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    seed: int = 0,
) -> Feeds:
    """Values for every input: floats from a normal distribution drawn from `seed`, everything else 0.

    Args:
        inputs: name -> dtype (numpy's name) and shape with symbols by name and None for what is unknown.
        dims: values for symbols.
        input_shapes: whole shapes by input.
        seed: of the random numbers.

    Raises:
        UnknownShapeError: a dimension stays unknown; names the flag that binds it.
        UnsupportedError: numpy has no such dtype.
    """
    rng = np.random.default_rng(seed)
    feeds: Feeds = {}
    for name, (dtype, declared) in inputs.items():
        shape = resolve(name, declared, dims or {}, input_shapes or {})
        try:
            kind = np.dtype(dtype)
        except TypeError:
            raise UnsupportedError(f"input {name!r} is {dtype}, for which no values can be made; give them") from None
        if kind.kind == "f":
            feeds[name] = rng.standard_normal(shape).astype(kind)
        else:
            feeds[name] = np.zeros(shape, kind)
    return feeds


def resolve(
    name: str,
    declared: Sequence[int | str | None],
    dims: Mapping[str, int],
    input_shapes: Mapping[str, Sequence[int]],
) -> tuple[int, ...]:
    """An input's shape with everything bound. Raises UnknownShapeError if something is not."""
    if name in input_shapes:
        return tuple(input_shapes[name])
    shape = [dims.get(d, d) if isinstance(d, str) else d for d in declared]
    known = [d for d in shape if isinstance(d, int) and d >= 0]
    if len(known) == len(shape):
        return tuple(known)
    symbols = [d for d in shape if isinstance(d, str)]
    flags = [f"--dim {s}=VALUE" for s in dict.fromkeys(symbols)] if len(symbols) + len(known) == len(shape) else []
    shown = ",".join("N" if not isinstance(d, int) or d < 0 else str(d) for d in shape)
    raise UnknownShapeError(
        f"the size of input {name!r} is unknown; say how large it is: "
        f"{' '.join(flags) or f'--input-shape {name}={shown}'}",
        tensors=[name],
        symbols=symbols,
    )
