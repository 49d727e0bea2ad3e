"""The output types of ONNX Runtime's attention operators.

B is the batch, S the length of the queries, L that of keys and values, N the number of heads, H the size of a head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from edgemem.errors import ModelError
from edgemem_converters.onnx.calls import RuleError, TypedNode
from edgemem_converters.onnx.scopes import tensor_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onnx import TypeProto

__all__ = ["ATTENTION"]

_Types: TypeAlias = "list[TypeProto | None]"


def _attention(past: int, elem: int) -> Callable[[TypedNode], _Types]:
    """Input [B, S, D] and weights [D, 3 N H]; past and present are [2, B, N, L, H].

    Args:
        past: the position of the past.
        elem: the position of the input whose element type the result has.
    """

    def rule(call: TypedNode) -> _Types:
        batch, length, _ = call.dims(0, 3)
        sizes = call.integers("qkv_hidden_sizes")
        hidden = sizes[2] if len(sizes) == 3 else call.dims(1, 2)[1] // 3
        made: _Types = [tensor_type(call.elem(elem), [batch, length, hidden])]
        if call.has(past):
            dims = call.dims(past, 5)
            if not call.integer("past_present_share_buffer", 0):
                dims[3] += length
            made.append(call.like(past, dims))
        elif heads := call.integer("num_heads", 0):
            made.append(tensor_type(call.elem(elem), [2, batch, heads, length, hidden // heads]))
        return made

    return rule


def _multi_head_attention(call: TypedNode) -> _Types:
    """Queries [B, S, N H] or packed [B, S, N, 3, H]; keys and values [B, L, N H], [B, N, L, H] or [B, L, N, 2, H]."""
    query, heads = call.dims(0), call.integer("num_heads")
    if len(query) not in (3, 5) or heads < 1:
        raise RuleError("its queries have neither 3 nor 5 dimensions, or there is no head")
    batch, length = query[:2]
    keys, hidden = length, query[2] * query[4] if len(query) == 5 else query[2]
    size = hidden // heads
    if call.has(1):
        key = call.dims(1)
        keys = key[2] if len(key) == 4 else key[1]
        size = key[-1] if len(key) in (4, 5) else key[-1] // heads
    value_size = size
    if call.has(2):
        value = call.dims(2)
        value_size = value[-1] if len(value) == 4 else value[-1] // heads
        hidden = heads * value_size
    made: _Types = [call.like(0, [batch, length, hidden])]
    for past, last in ((6, size), (7, value_size)):
        before = call.dims(past, 4) if call.has(past) else [batch, heads, 0, last]
        # With the length of the past as an input, past and present are one buffer.
        total = before[2] if call.has(8) else before[2] + keys
        made.append(call.like(0, [*before[:2], total, before[3]]))
    return made


def _group_query_attention(call: TypedNode) -> _Types:
    """Queries [B, S, N H], or packed with keys and values; past and present [B, K, L, H] for K heads of keys."""
    batch, length, width = call.dims(0, 3)
    heads, kept = call.integer("num_heads"), call.integer("kv_num_heads")
    if heads < 1 or kept < 1:
        raise RuleError("it has no heads")
    size = width // heads if call.has(1) else width // (heads + 2 * kept)
    made: _Types = [call.like(0, [batch, length, heads * size])]
    value = call.values[6] if len(call.values) > 6 else None
    total = int(value.item()) if value is not None and value.size == 1 else None
    for past in (3, 4):
        before = call.dims(past, 4) if call.has(past) else [batch, kept, 0, size]
        # A cache of another type is quantised, and may have several numbers in one element.
        if call.has(past) and call.elem(past) == call.elem(0) and before[1::2] != [kept, size]:
            # Not left to the shapes that the file declares: with the symbol bound otherwise, they would hide it.
            raise ModelError(
                f"{call.node.input[past]!r} has {before[1]} heads of size {before[3]}, and GroupQueryAttention takes "
                f"{kept} of size {size}; bind its dimensions to that (--dim)"
            )
        present = None if total is None else max(total, before[2])
        made.append(tensor_type(call.elem(past if call.has(past) else 0), [*before[:2], present, before[3]]))
    return made


ATTENTION: Mapping[str, Callable[[TypedNode], _Types]] = {
    "Attention": _attention(past=4, elem=0),
    "GroupQueryAttention": _group_query_attention,
    "MultiHeadAttention": _multi_head_attention,
    "QAttention": _attention(past=8, elem=2),
}
