"""Why the sizes of values are unknown, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Literal

from edgemem.errors import UnknownShapeError
from edgemem.plans import DEPENDS_ON_DATA
from edgemem.system.text import join_names
from edgemem_converters.onnx.rules import dims_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from onnx import TypeProto

__all__ = ["SizeOrigin", "left_to_runtime", "unknown_sizes"]

_FLAGS = 20  # that an error names
_REASON = 300  # characters of what a rule says


@dataclass(frozen=True, slots=True)
class SizeOrigin:
    """Where an unknown size comes from.

    Attributes:
        kind: `input`: a graph input has an open dimension, which the user can bind. `data`: an operator's result has a
            size that depends on the data; operators of ai.onnx.ml without a rule count as such. `fault`: another
            operator has no rule, or one does not take its inputs.
        what: the type of that operator for `data`; for `fault` what is wrong, or "" if there is no rule.
    """

    kind: Literal["input", "data", "fault"]
    what: str = ""


def left_to_runtime(origin: SizeOrigin) -> str:
    """The note of a value with a size that depends on the data, which follows `is`."""
    return f"{DEPENDS_ON_DATA} ({origin.what}), left to the runtime"


def unknown_sizes(
    origins: Mapping[str, SizeOrigin], types: Mapping[str, TypeProto], inputs: Iterable[str]
) -> UnknownShapeError:
    """The error for values of unknown sizes: open inputs, operators without rules, operators that do not take these.

    Args:
        origins: why sizes of values are unknown, in the order of the file; not all of them depend on the data.
        types: what is known of the values.
        inputs: the inputs of the graph.
    """
    flags, symbols = _flags([n for n in inputs if n in origins], types)
    wrong = [n for n, origin in origins.items() if origin.kind != "data"]
    if not flags:
        wrong = [n for n in wrong if origins[n].kind == "fault"] or wrong
    text = f"the size of {len(wrong)} tensor{'s' * (len(wrong) > 1)} is unknown: {join_names(map(repr, wrong))}"
    if flags:
        text += f"; say how large, or at most how large, it is: {join_names(flags, most=_FLAGS, separator=' ')}"
    elif reason := origins[wrong[0]].what:
        text += f"; {reason[:_REASON]}"
    else:
        text += (
            f"; no flag binds it: neither a rule for the operator nor the file gives {wrong[0][:_REASON]!r} a shape. "
            "Add it to the model's value_info"
        )
    return UnknownShapeError(text, tensors=wrong, symbols=symbols)


def _flags(inputs: Sequence[str], types: Mapping[str, TypeProto]) -> tuple[list[str], list[str]]:
    """The flags that bind what is open in these inputs, and the symbols with a name in the file."""
    symbols: dict[str, None] = {}
    shapes = []
    for name in inputs:
        dims = dims_of(types.get(name))
        own = {f"{name}.{k}" for k in range(len(dims or ()))}.intersection(map(str, dims or ()))
        if own or dims is None:
            shapes.append(f"--input-shape {name}={','.join('N' if d in own else str(d) for d in dims or ('SHAPE',))}")
        symbols |= dict.fromkeys(d for d in dims or () if isinstance(d, str) and d not in own)
    return [*(f"--dim {quote(f'{s}=VALUE')}" for s in symbols), *shapes], list(symbols)
