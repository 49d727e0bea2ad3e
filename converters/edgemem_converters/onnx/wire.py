"""Positions in the bytes of an ONNX file, so that a change affects those bytes and no others.

Only the layout of ModelProto that never changes is used here: `graph` is field 7, `metadata_props` 14; a graph's `node`
is 1; a node's `attribute` is 5; an attribute's `g` is 6 and its `graphs` 11; an entry's `key` is 1 and its `value` 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from edgemem.planfile.protobuf import LENGTH_DELIMITED, encode_field, fields, pair
from edgemem_converters.onnx.limits import MAX_DEPTH, exceeds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.planfile.protobuf import Content, Field

__all__ = [
    "check_depth",
    "metadata",
    "permute_nodes",
    "with_metadata",
    "without_metadata",
]

_GRAPH, _METADATA_PROPS, _NODE, _KEY, _VALUE = 7, 14, 1, 1, 2
_ATTRIBUTE, _BODY, _BODIES = 5, 6, 11


def metadata(data: Content, key: str) -> bytes | None:
    """The value of a `metadata_props` entry as it stands in the file; the last one counts. None if there is none."""
    found = [value for _, value in _entries(data, key)]
    return found[-1] if found else None


def check_depth(data: Content) -> None:
    """Raise ModelError for graphs in graphs that are deeper than `MAX_DEPTH`, and for bytes that are no message."""
    graphs = [(f.body, f.end, 0) for f in fields(data, 0, len(data)) if _is(f, _GRAPH)]
    while graphs:
        start, end, depth = graphs.pop()
        if depth > MAX_DEPTH:
            raise exceeds(f"the model has graphs in graphs, {depth} deep or deeper", "MAX_DEPTH")
        for node in fields(data, start, end):
            for attribute in fields(data, node.body, node.end) if _is(node, _NODE) else ():
                inner = fields(data, attribute.body, attribute.end) if _is(attribute, _ATTRIBUTE) else ()
                graphs += [(f.body, f.end, depth + 1) for f in inner if _is(f, _BODY) or _is(f, _BODIES)]


def _is(field: Field, number: int) -> bool:
    return field.number == number and field.wire == LENGTH_DELIMITED


def with_metadata(data: bytes, key: str, value: bytes) -> bytes:
    """The file with the entry at its end, and none of that key before; nothing else changes.

    Repeated fields of protobuf messages that follow one another concatenate, so an entry that was not there is
    simply appended, and the file is a verbatim prefix of the result.
    """
    entry = encode_field(_KEY, key.encode()) + encode_field(_VALUE, value)
    return without_metadata(data, key) + encode_field(_METADATA_PROPS, entry)


def without_metadata(data: bytes, key: str) -> bytes:
    """The file without the entries of that key; nothing else changes."""
    parts, position = [], 0
    for field, _ in _entries(data, key):
        parts.append(data[position : field.start])
        position = field.end
    return b"".join((*parts, data[position:])) if parts else data


def permute_nodes(data: bytes, order: tuple[int, ...]) -> bytes:
    """The file whose node k is what was node `order[k]`; every byte outside the nodes stays.

    Raises ModelError if the file holds its graph in pieces, which no exporter writes.
    """
    graphs = [f for f in fields(data, 0, len(data)) if f.number == _GRAPH and f.wire == LENGTH_DELIMITED]
    if len(graphs) != 1:
        raise ModelError(f"the file holds its graph in {len(graphs)} pieces; save it anew with onnx first")
    nodes = [f for f in fields(data, graphs[0].body, graphs[0].end) if f.number == _NODE and f.wire == LENGTH_DELIMITED]
    if sorted(order) != list(range(len(nodes))):
        raise ModelError(f"an order is a permutation of the {len(nodes)} nodes")
    parts, position = [], 0
    for slot, source in zip(nodes, order, strict=True):
        parts.append(data[position : slot.start])
        parts.append(data[nodes[source].start : nodes[source].end])
        position = slot.end
    return b"".join((*parts, data[position:]))


def _entries(data: Content, key: str) -> Iterator[tuple[Field, bytes]]:
    """The entries of `metadata_props` that have this key, with their values."""
    for field in fields(data, 0, len(data)):
        if field.number == _METADATA_PROPS and field.wire == LENGTH_DELIMITED:
            found, value = pair(data, field)
            if found == key.encode():
                yield field, value
