"""Whether inputs fit a plan that runs node by node: at its own sizes, or at others in its range."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np

from edgemem.errors import InvalidPlanError, ModelError, RuntimeBindError
from edgemem.formats import Bindings
from edgemem.model.ranges import in_ranges
from edgemem.runtime.onnxruntime.prepared import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.runtime.onnxruntime.prepared import Prepared

__all__ = ["OtherSizes", "misfit"]

_MOST_KEPT: Final = 4
_Session = TypeVar("_Session")


def misfit(prepared: Prepared, wanted: Sequence[str], feed: Mapping[str, Any], *, shapes: bool = True) -> str:
    """Why these feeds cannot run inside the plan and give these outputs, or ""; with or without regard to shapes."""
    if set(feed) != set(prepared.names_in) or not {a.name for a in prepared.outputs}.issuperset(wanted):
        return "it was called with other names than the graph's inputs and outputs"
    for name, value in feed.items():
        dtype, shape = prepared.forms[name]
        if not isinstance(value, np.ndarray) or value.dtype.name != dtype:
            return f"{name!r} is fed with {getattr(value, 'dtype', type(value).__name__)}, planned as {dtype}"
        if shapes and value.shape != shape:
            return f"{name!r} is fed with the shape {value.shape}, planned as {shape}"
    return ""


class OtherSizes(Generic[_Session]):
    """Sessions for inputs of other shapes than the largest that a plan holds for. The last few are kept.

    Args:
        prepared: the model at its largest sizes.
    """

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._known: OrderedDict[tuple[tuple[int, ...], ...], _Session | str] = OrderedDict()

    def find(self, feed: Mapping[str, NDArray[Any]], make: Callable[[Prepared], _Session]) -> _Session | str:
        """The session for these inputs, or why the plan cannot take them; "" if it has no range.

        `make` makes a session of the model at other sizes.
        """
        proved = self._prepared.proved
        if proved is None or not proved.planset.ranges:
            return ""
        key = tuple(feed[name].shape for name in self._prepared.names_in)
        if key not in self._known:
            prepared = _prepared_for(self._prepared, feed)
            self._known[key] = prepared if isinstance(prepared, str) else make(prepared)
            while len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]


def _prepared_for(prepared: Prepared, feed: Mapping[str, NDArray[Any]]) -> Prepared | str:
    """The same model and plan, proved for the shapes of these inputs; or why the plan cannot take them."""
    assert prepared.proved is not None
    planset = prepared.proved.planset
    values: dict[str, int] = {}
    for name, (_, declared) in prepared.parts.input_forms().items():
        shape = feed[name].shape
        if len(shape) != len(declared):
            return f"{name!r} is fed with the shape {shape}, which has another rank than the model's"
        for symbol, size in zip(declared, shape, strict=True):
            if isinstance(symbol, str) and values.setdefault(symbol, size) != size:
                return f"the inputs are fed with {values[symbol]} and {size} for {symbol!r}"
    if why := in_ranges(values, planset.dims, planset.ranges):
        return f"the inputs are outside of the plan's range: {why}"
    try:
        found = prepare(prepared.path, planset, bindings=Bindings(values), options=prepared.options)
    except (ModelError, InvalidPlanError, RuntimeBindError) as e:
        return str(e)
    return replace(found, source=prepared.source)
