"""The user's values for unknown sizes, and the symbols that are still without a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from edgemem.system.text import join_names
from edgemem_converters.onnx.limits import MAX_ELEMENTS, MAX_RANK, exceeds
from edgemem_converters.onnx.rules import dims_of
from edgemem_converters.onnx.scopes import tensor_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onnx import TypeProto

    from edgemem.formats import Bindings
    from edgemem_converters.onnx.scopes import Scope

__all__ = ["Symbols", "bind_inputs"]


@dataclass(slots=True)
class Symbols:
    """The values of symbols. One without a name in the file is called TENSOR.AXIS.

    Attributes:
        bound: symbol -> value.
        declared: the names that the file has for dimensions.
        met: names that edgemem gave to unknown dimensions.
        made: the types made so far, so that values of one type share it.
    """

    bound: dict[str, int]
    declared: set[str] = field(default_factory=set)
    met: set[str] = field(default_factory=set)
    made: dict[tuple[int, tuple[int | str, ...]], TypeProto] = field(default_factory=dict)

    def complete_type(self, name: str, made: TypeProto | None, declared: TypeProto | None) -> TypeProto | None:
        """A value's type with unknown dimensions filled in from the file's declarations, then from the user's values.

        An inferred dimension takes precedence over a declared one, as in runtimes. Dimensions that stay unknown get a
        symbol.
        """
        if made is None or made.WhichOneof("value") is None:
            made = declared
        if made is None or not made.HasField("tensor_type"):
            return made
        dims, said = dims_of(made), dims_of(declared)
        if dims is None:
            dims, said = said, None
        if dims is None:
            return tensor_type(made.tensor_type.elem_type, None)
        if said is None or len(said) != len(dims):
            said = [None] * len(dims)
        if len(dims) > MAX_RANK:
            raise exceeds(f"{name!r} has {len(dims)} dimensions", "MAX_RANK")
        filled = [self._dim(name, k, d, s) for k, (d, s) in enumerate(zip(dims, said, strict=True))]
        if prod(d for d in filled if isinstance(d, int)) > MAX_ELEMENTS:
            raise exceeds(f"{name!r} has the shape {filled}, which no machine can hold", "MAX_ELEMENTS")
        elem_type = made.tensor_type.elem_type
        if not elem_type and declared is not None and declared.HasField("tensor_type"):
            elem_type = declared.tensor_type.elem_type
        key = elem_type, tuple(filled)
        if key not in self.made:
            self.made[key] = tensor_type(elem_type, filled)
        return self.made[key]

    def _dim(self, tensor: str, axis: int, dim: int | str | None, said: int | str | None) -> int | str:
        if isinstance(dim, int):
            return dim
        if not (dim in self.declared or dim in self.met):  # nothing, or invented by a tool
            dim = said if said is not None else f"{tensor}.{axis}"
        if isinstance(dim, int):
            return dim
        assert dim is not None
        if dim in self.bound:
            self.met.add(dim)
            return self.bound[dim]
        self.met.add(dim)
        return dim

    def check_used(self, dims: Iterable[str]) -> None:
        """Raise ModelError for a name that stands for no dimension, listing those that do."""
        if wrong := sorted(set(dims) - self.declared - self.met):
            known = join_names([*sorted(self.declared), *sorted(self.met - self.declared)]) or "no symbols at all"
            raise ModelError(f"no dimension is called {join_names(map(repr, wrong))}; the model has {known}")


def bind_inputs(scope: Scope, bindings: Bindings) -> tuple[dict[str, TypeProto], Symbols]:
    """The types of the graph's inputs under the user's bindings, and the symbols.

    Raises ModelError for an input that is not there, a rank or dimension other than the declared one, symbols with
    two values, and values that are no sizes.
    """
    for name, value in bindings.dims.items():
        if value > MAX_ELEMENTS:
            raise exceeds(f"dimension {name!r} cannot be {_shown(value)}", "MAX_ELEMENTS")
        if value < 0:
            raise ModelError(f"dimension {name!r} cannot be {_shown(value)}")
    bound = dict(bindings.dims)
    for name, shape in bindings.input_shapes.items():
        if name not in scope.inputs:
            raise ModelError(f"the model has no input {name!r}; there are {join_names(map(repr, scope.inputs))}")
        _bind_shape(name, shape, scope.inputs[name], bound)
    symbols = Symbols(bound, declared=set(_declared(scope)))
    types: dict[str, TypeProto] = {}
    for name, made in scope.inputs.items():
        given = made
        if name in bindings.input_shapes:
            given = tensor_type(made.tensor_type.elem_type, bindings.input_shapes[name])
        completed = symbols.complete_type(name, given, None)
        if completed is not None:
            types[name] = completed
    return types, symbols


def _bind_shape(name: str, shape: Sequence[int], made: TypeProto, bound: dict[str, int]) -> None:
    if not made.HasField("tensor_type"):
        raise ModelError(f"input {name!r} is no tensor and has no shape")
    if any(d > MAX_ELEMENTS for d in shape):
        raise exceeds(f"input {name!r} cannot have the shape ({', '.join(map(_shown, shape))})", "MAX_ELEMENTS")
    if any(d < 0 for d in shape):
        raise ModelError(f"input {name!r} cannot have the shape ({', '.join(map(_shown, shape))})")
    dims = dims_of(made)
    if dims is None:
        return
    if len(dims) != len(shape):
        raise ModelError(f"input {name!r} has rank {len(dims)}, but its shape is given as {tuple(shape)}")
    for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
        symbol = f"{name}.{axis}" if dim is None else dim
        if isinstance(symbol, int):
            if symbol != size:
                raise ModelError(f"input {name!r} is {symbol} long in axis {axis}, and cannot be {size}")
        elif bound.setdefault(symbol, size) != size:
            raise ModelError(f"dimension {symbol!r} cannot be {bound[symbol]} and, as input {name!r} has it, {size}")


def _shown(value: int) -> str:
    """A number as text; Python refuses to write numbers of thousands of digits."""
    return str(value) if abs(value) < 2**63 else f"{'-' * (value < 0)}2**{value.bit_length() - 1} or more"


def _declared(scope: Scope) -> Iterable[str]:
    for made in (*scope.inputs.values(), *scope.declared.values()):
        yield from (d for d in dims_of(made) or () if isinstance(d, str))
    for node in scope.nodes:
        for body in node.bodies:
            yield from _declared(body)
