"""The caches of a decoder as its session has them: pairs of names, element types and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import RuntimeBindError
from edgemem.model.states import StatePair, decode_pairs, grown_axis, named_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["STATES_KEY", "pairs_of", "shape_of", "width_of"]

STATES_KEY: Final = "edgemem.states"  # the note that `edgemem plan --state` writes


def pairs_of(
    session: Any, states: Sequence[StatePair] | Mapping[str, str] | None, inputs: Mapping[str, Any], outputs: Any
) -> tuple[tuple[StatePair, ...], str]:
    """The caches, and why they are kept as they are."""
    note = None if states is not None else session.get_modelmeta().custom_metadata_map.get(STATES_KEY)
    pairs: tuple[StatePair, ...]
    if states is None and note is None:
        pairs = tuple(_named_pair(inputs, outputs, *names) for names in named_pairs(inputs, outputs).items())
        reason = (
            "the file has no note of its states; `edgemem plan MODEL --state ... -o PLANNED.onnx` writes one, and "
            "changes the model so that they are kept in place"
        )
    elif isinstance(states, Mapping):
        pairs = tuple(_named_pair(inputs, outputs, *names) for names in states.items())
        reason = "the caller named the states"
    else:
        pairs = decode_pairs(note) if states is None and note is not None else tuple(states or ())
        reason = _reason_of(pairs)
    if not pairs:
        raise RuntimeBindError(
            "no input is the output of the run before by its name, such as past_key_values.0.key and present.0.key; "
            "name the pairs (`states`), or export the model with caches"
        )
    anew = next((p for p in pairs if p.growth == "replaced"), None)
    if anew is not None:
        raise RuntimeBindError(
            f"{anew.present!r} has the size of {anew.past!r}, and no rows are added to it; DecoderState has caches of "
            "tokens alone: run the model with a session"
        )
    missing = next((p for p in pairs if p.past not in inputs or p.present not in outputs), None)
    if missing is not None:
        raise RuntimeBindError(f"the model has no state {missing.past!r} = {missing.present!r}")
    return pairs, reason


def _reason_of(pairs: Sequence[StatePair]) -> str:
    other = next((pair for pair in pairs if pair.growth != "in_place"), None)
    if other is None:
        return f"{(pairs[0].operator if pairs else '') or 'the model'} writes into the buffer that it reads"
    if other.growth == "appended":
        return f"{other.operator or 'the model'} makes a new {other.present!r} of another size at every step"
    return f"{other.present!r} is made anew at every step"


def _named_pair(inputs: Mapping[str, Any], outputs: Mapping[str, Any], past: str, present: str) -> StatePair:
    if past not in inputs or present not in outputs:
        raise RuntimeBindError(f"the model has no input {past!r}, or no output {present!r}")
    before, after = dims_of(inputs[past]), dims_of(outputs[present])
    axis = grown_axis(before, after)
    if axis is None:
        raise RuntimeBindError(
            f"{past!r} is {before} and {present!r} is {after}, which does not tell what axis grows; give `states` as "
            "StatePair with the axis"
        )
    return StatePair(past, present, axis, "appended")


def dims_of(value: Any) -> list[int | str | None]:
    """The declared dimensions of an input or output; None for an open one."""
    return [d if isinstance(d, (int, str)) else None for d in value.shape]


def shape_of(value: Any, pair: StatePair, sizes: Mapping[str, int], batch: int) -> tuple[int, ...]:
    """The cache's shape with 0 rows. The first dimension is the batch if nothing else is said."""
    shape = []
    for axis, dim in enumerate(dims_of(value)):
        known = 0 if axis == pair.axis else dim if isinstance(dim, int) else sizes.get(dim or "")
        if known is None and axis == 0:
            known = batch
        if known is None:
            raise RuntimeBindError(f"dimension {axis} ({dim}) of {value.name!r} is not known; give it in `sizes`")
        shape.append(known)
    if pair.axis >= len(shape):
        raise RuntimeBindError(f"{value.name!r} has {len(shape)} dimensions, and axis {pair.axis} is to grow")
    return tuple(shape)


def width_of(logits: Any, tokens_dim: object) -> int | None:
    """The vocabulary; None if the model does not declare the shape of its logits."""
    dims = dims_of(logits)
    known = len(dims) == 3 and isinstance(dims[2], int) and (dims[1] == 1 or (dims[1] and dims[1] == tokens_dim))
    return int(dims[2]) if known else None  # type: ignore[arg-type]
