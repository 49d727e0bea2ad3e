"""Values to run a model on when nobody gives any: the same for every runtime and every command."""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import ModelError, UnknownShapeError, UnsupportedError
from edgemem.formats import Bindings
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Feeds", "can_make", "complete_feeds", "make_feeds", "random_values", "resolve", "sized_by"]

Feeds = dict[str, "NDArray[Any]"]


def make_feeds(
    inputs: Mapping[str, tuple[str, Sequence[int | str | None]]], bindings: Bindings | None = None, *, seed: int = 0
) -> Feeds:
    """Values for every input, the same for the same seed; `random_values` says which.

    Args:
        inputs: name -> dtype (numpy's name) and shape with symbols by name and None for what is unknown.
        bindings: values for symbols, and whole shapes by input.
        seed: of the random numbers.

    Raises:
        UnknownShapeError: dimensions stay unknown; names all of them, and the flags that bind them.
        ModelError: an input cannot have its bound shape.
        UnsupportedError: there are no values of such a dtype.
    """
    bindings = bindings or Bindings()
    shapes = _resolved({name: declared for name, (_, declared) in inputs.items()}, bindings)
    rng = np.random.default_rng(seed)
    feeds: Feeds = {}
    for name, (dtype, _) in inputs.items():
        try:
            feeds[name] = random_values(dtype, shapes[name], rng)
        except UnsupportedError:
            raise UnsupportedError(
                f"input {name!r} is {dtype}, for which no values can be made; give them to a command that has --input "
                f"{name}=FILE.npy, such as plan, run or measure"
            ) from None
    return feeds


def complete_feeds(
    inputs: Mapping[str, tuple[str, Sequence[int | str | None]]],
    given: Mapping[str, NDArray[Any]] | None,
    bindings: Bindings | None = None,
    *,
    seed: int = 0,
) -> Feeds:
    """The values that are given, and those of `make_feeds` for all other inputs, at the sizes of the given ones."""
    given = given or {}
    others = {name: form for name, form in inputs.items() if name not in given}
    made = make_feeds(others, sized_by(inputs, given, bindings or Bindings()), seed=seed)
    return {**{name: given[name] if name in given else made[name] for name in inputs}, **given}


def sized_by(
    inputs: Mapping[str, tuple[str, Sequence[int | str | None]]], given: Mapping[str, NDArray[Any]], bindings: Bindings
) -> Bindings:
    """The bindings, and for symbols and shapes that they leave open the sizes of the values that are given."""
    dims, shapes = dict(bindings.dims), dict(bindings.input_shapes)
    for name, value in given.items():
        declared = inputs[name][1] if name in inputs else ()
        if name in shapes or len(declared) != value.ndim:
            continue
        for symbol, size in zip(declared, value.shape, strict=True):
            if isinstance(symbol, str):
                dims.setdefault(symbol, size)
        if None in declared:
            shapes[name] = value.shape
    return replace(bindings, dims=dims, input_shapes=shapes)


def can_make(dtype: str) -> bool:
    """Whether `random_values` has values of a dtype."""
    try:
        random_values(dtype, (), np.random.default_rng(0))
    except UnsupportedError:
        return False
    return True


def random_values(dtype: str | np.dtype[Any] | type, shape: Sequence[int], rng: np.random.Generator) -> NDArray[Any]:
    """Random values with which most models run, and never zeros alone.

    Floats are drawn from the standard normal distribution, 8-bit integers from their full range. Other integers are
    0 or 1, because many of them are indices or counts, and the first of them is 1. So it is with booleans.

    Raises UnsupportedError for another dtype.
    """
    try:
        kind = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):
        raise UnsupportedError(f"there are no values of the dtype {dtype}; give them") from None
    made: NDArray[Any]
    if kind.kind == "f":
        return np.asarray(rng.standard_normal(shape)).astype(kind)
    if kind.kind == "c":
        return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(kind)
    if kind.kind in "iu" and kind.itemsize == 1:
        info = np.iinfo(kind)
        made = np.asarray(rng.integers(info.min, info.max, shape, kind, endpoint=True))
    elif kind.kind in "iub":
        made = np.asarray(rng.integers(0, 2, shape)).astype(kind)
    else:
        raise UnsupportedError(f"there are no values of the dtype {kind}; give them")
    if made.size and not made.flat[0]:
        made.flat[0] = 1
    return made


def resolve(name: str, declared: Sequence[int | str | None], bindings: Bindings) -> tuple[int, ...]:
    """An input's shape with everything bound. Raises UnknownShapeError if something is not."""
    return _resolved({name: declared}, bindings)[name]


def _resolved(declared: Mapping[str, Sequence[int | str | None]], bindings: Bindings) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    unknown: dict[str, list[int | str | None]] = {}
    for name, dims in declared.items():
        if name in bindings.input_shapes:
            shapes[name] = tuple(bindings.input_shapes[name])
            _check_like(name, shapes[name], dims)
            continue
        shape = [bindings.dims.get(d, d) if isinstance(d, str) else d for d in dims]
        known = [d for d in shape if isinstance(d, int) and d >= 0]
        if len(known) == len(shape):
            shapes[name] = tuple(known)
        else:
            unknown[name] = shape
    if unknown:
        flags = [flag for name, shape in unknown.items() for flag in _flags(name, shape)]
        raise UnknownShapeError(
            f"the size of input{'s' if len(unknown) > 1 else ''} {join_names(map(repr, unknown))} is unknown; "
            f"say how large it is: {join_names(dict.fromkeys(flags), most=20, separator=' ')}",
            tensors=list(unknown),
            symbols=list(dict.fromkeys(d for shape in unknown.values() for d in shape if isinstance(d, str))),
        )
    return shapes


def _check_like(name: str, shape: Sequence[int], declared: Sequence[int | str | None]) -> None:
    """Raise ModelError for a shape that the model's input cannot have; () stands for any rank, too."""
    fixed = [d if isinstance(d, int) and d >= 0 else s for d, s in zip(declared, shape, strict=False)]
    if declared and (len(declared) != len(shape) or fixed != list(shape)):
        raise ModelError(f"input {name!r} has the shape {list(declared)} in the model, and {list(shape)} was given")


def _flags(name: str, shape: Sequence[int | str | None]) -> list[str]:
    """The flags that bind a shape: one a symbol, or the whole shape where there is something without a name."""
    if all(isinstance(d, str) or (d is not None and d >= 0) for d in shape):
        return [f"--dim {quote(f'{d}=VALUE')}" for d in shape if isinstance(d, str)]
    return [f"--input-shape {name}={','.join(str(d) if isinstance(d, int) and d >= 0 else 'N' for d in shape)}"]
