"""What one node of an FX graph does to storages: which it reads, writes and allocates."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from edgemem.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.fx import Node

__all__ = ["Access", "access", "is_pure", "is_random", "storage_sizes", "storages", "tensors_in"]

# Normalisations write these inputs in training, and most of them do not say so in their schemas.
_STATISTICS = ("running_mean", "running_var")
# They make a tensor point to other memory.
_MOVING = ("resize_", "set_", "resize_as_")


@dataclass(frozen=True, slots=True)
class Access:
    """Storages by number (see `storages`).

    Attributes:
        reads: all that its inputs lie in. A view reads nothing: it only names bytes.
        writes: the part of them that it writes.
        results: all that its results lie in, in order.
    """

    reads: frozenset[int]
    writes: frozenset[int]
    results: tuple[int, ...]


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in what a node gives: one, or several in tuples and lists."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def storage_sizes(node: Node) -> dict[int, int]:
    """The storages of what a node gives, and the bytes that PyTorch allocates for each.

    A storage's number is its own as long as any tensor in it is alive, as all values of a graph are.
    """
    made = [t.untyped_storage() for t in tensors_in(node.meta.get("val"))]
    return {storage._cdata: storage.nbytes() for storage in made}  # noqa: SLF001


def storages(node: Node) -> tuple[int, ...]:
    """The storages of what a node gives."""
    return tuple(storage_sizes(node))


def access(node: Node) -> Access:
    """What a node of `call_function` does. Raises UnsupportedError for one that tells nothing about itself."""
    results = storages(node)
    inputs = frozenset(s for i in node.all_input_nodes for s in storages(i))
    if node.target is operator.getitem:
        return Access(frozenset(), frozenset(), results)
    schema = _schema(node)
    if schema.name.partition("::")[2] in _MOVING:
        raise UnsupportedError(f"{node.target} gives a tensor other memory; write the model without it")
    writes = frozenset(s for i in _written(node, schema) for s in storages(i))
    is_view = bool(results) and not writes and inputs.issuperset(results)
    return Access(frozenset() if is_view else inputs, writes, results)


def is_pure(node: Node) -> bool:
    """Whether a node that nothing reads may be left out: it writes nothing, has results, and draws no random number."""
    if node.op != "call_function":
        return bool(node.op == "get_attr")
    if node.target is operator.getitem:
        return True
    schema = _schema(node)
    return bool(schema.returns) and not is_random(node) and not _written(node, schema)


def is_random(node: Node) -> bool:
    """Whether a node draws random numbers, so that its place among the others that do decides what it draws."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _schema(node: Node) -> Any:
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        raise UnsupportedError(f"{node.target} does not say what it writes; write the model without it")
    return schema


def _written(node: Node, schema: Any) -> list[Node]:
    """The inputs that a node writes."""
    given = dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | dict(node.kwargs)
    training = given.get("training", given.get("train", True))
    found: list[Node] = []
    for argument in schema.arguments:
        value = given.get(argument.name)
        declared = argument.alias_info is not None and argument.alias_info.is_write
        silent = argument.name in _STATISTICS and training and "backward" not in schema.name
        if declared or silent:
            found += [v for v in (value if isinstance(value, (list, tuple)) else (value,)) if _is_node(v)]
    return found


def _is_node(value: Any) -> bool:
    return isinstance(value, torch.fx.Node)
