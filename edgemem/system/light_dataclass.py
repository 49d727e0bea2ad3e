"""`dataclasses.dataclass` for modules that every session loads.

The standard one writes and compiles up to six functions for each class: 0.6 ms and 11 KiB. For the 35 classes of a
session that was half of the time in which it opens. Here functions go through the slots of a class. Type checkers
see the standard ones, and the standard `replace`, `fields`, `asdict` and `astuple` take these objects, too.

A class has slots, and fields of its own alone; no class inherits them.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from inspect import Signature
    from typing import NoReturn

__all__ = ["InitVar", "dataclass", "field", "replace", "values_of"]


def values_of(value: Any) -> dict[str, Any]:
    """The fields of an object by name. Objects in them stay as they are."""
    return {name: getattr(value, name) for name in type(value).__slots__ if name != "__weakref__"}


class _Factory:
    """Makes the default of a field for each object anew."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


class _Fields:
    """The arguments of a class: its fields, and for `__post_init__` alone those that are annotated as InitVar."""

    def __init__(self, cls: type) -> None:
        self.types: dict[str, str] = cls.__annotations__
        self.defaults = {name: cls.__dict__[name] for name in self.types if name in cls.__dict__}
        self.passed = tuple(name for name, text in self.types.items() if text.startswith("InitVar["))
        self.names = tuple(name for name in self.types if name not in self.passed)

    def bind(self, of: str, args: Sequence[Any], given: dict[str, Any]) -> list[Any]:
        """All arguments in their order. Raises TypeError for too many, unknown ones and missing ones."""
        if len(args) > len(self.types):
            raise TypeError(f"{of} takes {len(self.types)} arguments, not {len(args)}")
        bound = dict(zip(self.types, args, strict=False))
        for name, value in given.items():
            if name not in self.types or name in bound:
                raise TypeError(f"{of} has no argument {name!r}, or has it twice")
            bound[name] = value
        for name in self.types:
            if name not in bound:
                if name not in self.defaults:
                    raise TypeError(f"{of} misses the argument {name!r}")
                default = self.defaults[name]
                bound[name] = default.make() if isinstance(default, _Factory) else default
        return [bound[name] for name in self.types]

    def standard(self) -> type:
        """A standard dataclass with the same arguments."""
        import dataclasses  # seldom needed: for the standard functions and for help

        made: list[tuple[str, Any, Any]] = []
        for name, text in self.types.items():
            default = self.defaults.get(name, dataclasses.MISSING)
            is_made = isinstance(default, _Factory)
            options: dict[str, Any] = {"default_factory": default.make} if is_made else {"default": default}
            made.append((name, dataclasses.InitVar[Any] if name in self.passed else text, dataclasses.field(**options)))
        return dataclasses.make_dataclass("Standard", made, frozen=True)

    def signature(self) -> Signature:
        """The arguments, as `help` shows them."""
        from inspect import signature

        return signature(self.standard())


class _Lazy:
    """An attribute of a class that is seldom asked for."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    def __get__(self, value: object, owner: type) -> Any:
        return self._read()


def _repr(self: Any) -> str:
    """The class, and its fields by name."""
    return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in values_of(self).items())})"


def _refuse(self: Any, name: str, *_: object) -> NoReturn:
    """Raise FrozenInstanceError."""
    from dataclasses import FrozenInstanceError  # for mistakes alone

    raise FrozenInstanceError(f"{type(self).__name__}.{name} cannot be changed")


def _field(*, default_factory: Callable[[], Any]) -> Any:
    """A field's default that is made for each object anew."""
    return _Factory(default_factory)


def _replace(value: Any, /, **changes: Any) -> Any:
    """The object again with other values of some fields."""
    return type(value)(**{**values_of(value), **changes})


def _dataclass(
    *,
    slots: bool,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,  # noqa: A002 - as the standard one has it
    weakref_slot: bool = False,
) -> Callable[[type], type]:
    """A dataclass with these options of the standard one. Raises TypeError without slots."""
    if not slots:
        raise TypeError("a light dataclass has slots")
    functions: dict[str, Any] = {"__repr__": _repr} if repr else {}
    if frozen:
        functions |= {"__setattr__": _refuse, "__delattr__": _refuse}
    more_slots = ("__weakref__",) if weakref_slot else ()

    def decorate(cls: type) -> type:
        fields = _Fields(cls)
        compared = _compared(fields.names, hashed=frozen) if eq else {}
        return _made(cls, fields, functions | compared, (*fields.names, *more_slots))

    return decorate


def _compared(names: Sequence[str], *, hashed: bool) -> dict[str, Any]:
    """Objects of one class are equal if all their fields are; `hashed`: the hash is that of the fields."""
    values = attrgetter(*names)

    def is_equal(self: Any, other: object) -> bool:
        same: bool = values(self) == values(other) if type(other) is type(self) else NotImplemented
        return same

    return {"__eq__": is_equal, "__hash__": (lambda self: hash(values(self))) if hashed else None}


def _made(cls: type, fields: _Fields, functions: Mapping[str, Any], slots: tuple[str, ...]) -> type:
    """The class again, with slots and with those of the functions that it does not define itself."""
    types, names = fields.types, fields.names
    own = {name: value for name, value in cls.__dict__.items() if name not in (*types, "__dict__", "__weakref__")}
    described = {
        "__slots__": slots,
        "__match_args__": tuple(types),
        "__dataclass_fields__": _Lazy(lambda: fields.standard().__dataclass_fields__),  # type: ignore[attr-defined]
        "__signature__": _Lazy(fields.signature),
    }
    made = type(cls)(cls.__name__, cls.__bases__, {**functions, **described, **own})
    puts = [made.__dict__[name].__set__ for name in names]  # the slots' own, which a frozen class does not refuse
    of, count, has_more = cls.__qualname__, len(types), "__post_init__" in own

    def init(self: Any, *args: Any, **given: Any) -> None:
        values: Sequence[Any] = args if len(args) == count and not given else fields.bind(of, args, given)
        if has_more:
            bound = dict(zip(types, values, strict=True))
            values = [bound[name] for name in names]
        for put, value in zip(puts, values):  # noqa: B905 - equally many, and called for every record
            put(self, value)
        if has_more:
            self.__post_init__(*(bound[name] for name in fields.passed))

    def set_state(self: Any, state: Sequence[Any]) -> None:
        for put, value in zip(puts, state, strict=True):
            put(self, value)

    init.__name__, init.__qualname__ = "__init__", f"{of}.__init__"
    for name, function in (
        ("__init__", init),
        ("__getstate__", lambda self: list(values_of(self).values())),
        ("__setstate__", set_state),
    ):
        setattr(made, name, function)
    return made


if TYPE_CHECKING:
    from dataclasses import InitVar, dataclass, field, replace
else:
    InitVar, dataclass, field, replace = "InitVar", _dataclass, _field, _replace
