"""Light dataclasses against the standard ones of the same text."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from edgemem.system import light_dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

_SOURCE = """
from __future__ import annotations

@dataclass(frozen=True, slots=True)
class Point:
    '''A point.'''

    x: int
    name: str = "p"
    seen: list[int] = field(default_factory=list)

    @property
    def twice(self) -> int:
        return 2 * self.x

@dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)
class Same:
    x: int

    def __repr__(self) -> str:
        return "ours"

@dataclass(slots=True)
class Open:
    x: int
    y: int = 2

@dataclass(frozen=True, slots=True)
class Checked:
    x: int
    key: InitVar[int]

    def __post_init__(self, key: int) -> None:
        if key != self.x:
            raise ValueError(key)
"""


@pytest.fixture(params=[dataclasses, light_dataclass], ids=["standard", "light"])
def classes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module with the classes, made by the standard decorator and by the light one."""
    module = type(sys)("made_for_a_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for name in ("dataclass", "field", "InitVar"):
        setattr(module, name, getattr(request.param, name))
    exec(_SOURCE, vars(module))
    return module


def test_fields_are_given_by_place_and_name_and_have_defaults(classes: Any) -> None:
    first, second = classes.Point(1), classes.Point(x=1, name="q")
    assert (first.x, first.name, first.seen, first.twice) == (1, "p", [], 2)
    assert (second.name, repr(second)) == ("q", "Point(x=1, name='q', seen=[])")
    assert first.seen is not second.seen
    for args, given in (((), {}), ((1, "p", [], 4), {}), ((1,), {"x": 2}), ((1,), {"z": 2})):
        with pytest.raises(TypeError):
            classes.Point(*args, **given)


def test_objects_are_compared_by_their_fields_unless_they_are_themselves_alone(classes: Any) -> None:
    assert classes.Open(1) == classes.Open(1, 2) != classes.Open(1, 3)
    assert classes.Open(1) != (1, 2)
    assert classes.Checked(1, 1) == classes.Checked(1, key=1)
    assert len({classes.Checked(1, 1), classes.Checked(1, 1), classes.Checked(2, 2)}) == 2
    with pytest.raises(TypeError):
        hash(classes.Open(1))
    assert classes.Same(1) != classes.Same(1)
    assert repr(classes.Same(1)) == "ours"


def test_frozen_objects_refuse_changes_and_have_no_further_attributes(classes: Any) -> None:
    point = classes.Point(1)
    for change in (partial(setattr, point, "x", 2), partial(delattr, point, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):  # the standard one before Python 3.12
        point.other = 1
    changed = classes.Open(1)
    changed.x = 5
    assert changed == classes.Open(5)
    with pytest.raises(AttributeError):
        changed.other = 1
    kept = classes.Same(1)
    assert weakref.ref(kept)() is kept


def test_arguments_that_are_no_fields_are_checked_and_never_copied(classes: Any) -> None:
    assert classes.Checked(1, 1).x == 1
    with pytest.raises(ValueError, match="2"):
        classes.Checked(1, 2)
    for replace in (dataclasses.replace, light_dataclass.replace):
        with pytest.raises((ValueError, TypeError), match="key"):
            replace(classes.Checked(1, 1), x=1)


def test_the_standard_functions_take_both(classes: Any) -> None:
    point = classes.Point(1, "q", [3])
    assert dataclasses.is_dataclass(point.__class__)
    assert [f.name for f in dataclasses.fields(classes.Checked)] == ["x"]
    assert dataclasses.asdict(point) == light_dataclass.values_of(point) == {"x": 1, "name": "q", "seen": [3]}
    assert dataclasses.astuple(point) == (1, "q", [3])
    for replace in (dataclasses.replace, light_dataclass.replace):
        assert replace(point, x=2) == classes.Point(2, "q", [3])
    assert [*inspect.signature(classes.Point).parameters] == ["x", "name", "seen"]
    assert classes.Point.__doc__ == "A point."
    match point:
        case classes.Point(x, name):
            assert (x, name) == (1, "q")


def test_objects_are_copied_and_pickled(classes: Any) -> None:
    point = classes.Point(1, "q", [3])
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == copy.copy(point) == point
