"""Attention whose heads share keys and values, without a copy of these for each head.

    before   K [b, k, t, d] ─► Unsqueeze ─► Expand [b, k, g, t, d] ─► Reshape [b, k·g, t, d] ─► .. ─► MatMul with Q

    after    K [b, k, t, d] ─► Unsqueeze [b, k, 1, t, d] ─► .. ─► MatMul with Q [b, k, g, s, d] ─► Reshape back

That is how transformers exports grouped queries (`repeat_kv`). MatMul multiplies the same matrices, a pair for each
head, so that the results are the same bit for bit; what it reads is as large as the cache and not g times as large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onnx import NodeProto, helper

from edgemem_converters.onnx.functions import bodies_of
from edgemem_converters.onnx.node_writer import NodeWriter
from edgemem_converters.onnx.scopes import op_type
from edgemem_converters.onnx.states import declared_dims, writers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from onnx import GraphProto

    from edgemem.model.states import StatePair

__all__ = ["share_heads", "trial_sizes"]

_BATCH, _TOKENS, _PAST = 2, 3, 5  # sizes at which shapes are compared
_INPUTS: Final = ("input_ids", "inputs_embeds", "decoder_input_ids", "tokens")
_SWAPPED: Final = [0, 1, 3, 2]


def trial_sizes(graph: GraphProto, pairs: Sequence[StatePair], known: Mapping[str, int]) -> dict[str, int]:
    """A value for each symbol that the inputs of a decoder have, by their roles; the known one for other symbols."""
    forms = {v.name: declared_dims(v) for v in (*graph.input, *graph.output)}
    sizes: dict[int | str | None, int] = {}
    for pair in pairs:
        sizes[forms[pair.past][0]] = _BATCH
        sizes[forms[pair.past][pair.axis]] = _PAST
        if pair.axis < len(forms[pair.present]):
            sizes[forms[pair.present][pair.axis]] = _PAST + _TOKENS
    for name in (*_INPUTS, "position_ids", "attention_mask"):
        if len(dims := forms.get(name, ())) > 1:
            sizes.setdefault(dims[0], _BATCH)
            sizes.setdefault(dims[1], _PAST + _TOKENS if name == "attention_mask" else _TOKENS)
    declared = {dim for value in graph.input for dim in declared_dims(value)}
    values = (*known.items(), *sizes.items())
    return {name: size for name, size in values if isinstance(name, str) and name in declared}


def share_heads(graph: GraphProto, shapes: Mapping[str, Sequence[int]]) -> int:
    """Change the graph so that no key or value is repeated; how many were.

    Args:
        graph: the graph of a model of operator set 13 or later.
        shapes: of its values at some sizes that differ from each other.
    """
    made = writers(graph)
    readers: dict[str, list[NodeProto]] = {value.name: [NodeProto()] for value in graph.output}
    for node in graph.node:
        for name in (*node.input, *_captured(node)):
            readers.setdefault(name, []).append(node)
    write = NodeWriter(graph, "edgemem/heads")
    before: dict[str, list[NodeProto]] = {}  # by an output of the node that they are put before
    behind: dict[str, NodeProto] = {}
    changed: set[str] = set()
    for expand in [node for node in graph.node if op_type(node) == "Expand"]:
        path = _path(expand, made, readers, shapes)
        if path is None or path[-1].output[0] in changed:
            continue
        reshape, *between, product = path
        _, heads, groups, _, _ = shapes[expand.output[0]]
        for node in (*between, product):
            node.input[:] = [expand.input[0] if name == reshape.output[0] else name for name in node.input]
            for attribute in node.attribute if op_type(node) == "Transpose" else ():
                attribute.CopyFrom(helper.make_attribute("perm", [0, 1, 2, 4, 3]))
        # ONNX Runtime makes one operator of a product and the factors beside it: nothing is put between them.
        first, position = product, 0
        while (factor := _scaled(made.get(first.input[position]), shapes)) is not None:
            scaled = made[first.input[position]]
            if len(readers[scaled.output[0]]) > 1:
                break
            first, position = scaled, factor
            between.append(scaled)
        last = product
        while len(after := readers[last.output[0]]) == 1 and _scaled(after[0], shapes) is not None:
            between.append(last)
            last = after[0]
        nodes = before.setdefault(first.output[0], [])
        query, result = first.input[position], last.output[0]
        length = write.node(nodes, "Slice", write.shape(nodes, query), *write.range(2, 3))
        apart, whole = (
            write.node(nodes, "Concat", write.constant(0, *lead), length, write.constant(-1), axis=0)
            for lead in ((heads, groups), (heads * groups,))
        )
        first.input[position] = write.node(nodes, "Reshape", query, apart)
        changed.update(node.output[0] for node in (*between, product))
        grouped = write.name(f"{result}/grouped")
        if first is last:
            before[grouped] = before.pop(result)
        last.output[0] = grouped
        made.pop(result)  # a Reshape makes it now
        behind[grouped] = write.named("Reshape", [grouped, whole], [result])
    if behind:
        placed: list[NodeProto] = []
        for node in graph.node:
            output = next(iter(node.output), "")
            placed += [*before.get(output, ()), node, *([behind[output]] if output in behind else ())]
        _replace(graph, placed, changed)
    return len(behind)


def _scaled(node: NodeProto | None, shapes: Mapping[str, Sequence[int]]) -> int | None:
    """The position of what a Mul or Div multiplies by a number or divides by one; None for another node."""
    if node is None or op_type(node) not in ("Mul", "Div"):
        return None
    numbers = [len(shape) < 2 and all(n == 1 for n in shape) for shape in (shapes.get(n, (2,)) for n in node.input)]
    return 0 if numbers == [False, True] else 1 if numbers == [True, False] and op_type(node) == "Mul" else None


def _path(
    expand: NodeProto,
    made: Mapping[str, NodeProto],
    readers: Mapping[str, list[NodeProto]],
    shapes: Mapping[str, Sequence[int]],
) -> list[NodeProto] | None:
    """Reshape, what else is on the way, and MatMul behind an Expand that repeats heads; None for another Expand."""
    source = made.get(expand.input[0])
    cache = tuple(shapes.get(source.input[0], ())) if source is not None and op_type(source) == "Unsqueeze" else ()
    wide = tuple(shapes.get(expand.output[0], ()))
    if len(cache) != 4 or len(wide) != 5:
        return None
    batch, heads, rows, width = cache
    groups = wide[2]
    is_repeated = tuple(shapes[expand.input[0]]) == (batch, heads, 1, rows, width)
    if not is_repeated or groups < 2 or wide != (batch, heads, groups, rows, width):
        return None
    path: list[NodeProto] = []
    value, is_swapped = expand.output[0], False
    while len(readers.get(value, ())) == 1:
        node = readers[value][0]
        kind = op_type(node)
        path.append(node)
        if not path[1:]:
            merged = (batch, heads * groups, rows, width)
            if kind != "Reshape" or node.input[0] != value or tuple(shapes.get(node.output[0], ())) != merged:
                return None
        elif kind == "MatMul":
            query = tuple(shapes.get(node.input[0], ()))
            is_second = node.input[1] == value and node.input[0] != value
            return path if is_second and len(query) == 4 and query[:2] == (batch, heads * groups) else None
        elif kind == "Transpose":
            perms = [list(a.ints) for a in node.attribute if a.name == "perm"]
            if is_swapped or perms != [_SWAPPED]:
                return None
            is_swapped = True
        elif kind != "Cast" and (_scaled(node, shapes) is None or node.input[_scaled(node, shapes) or 0] != value):
            return None
        value = node.output[0]
    return None


def _captured(node: NodeProto) -> Iterator[str]:
    for body, _ in bodies_of(node):
        for inner in body.node:
            yield from (*inner.input, *_captured(inner))
        yield from (value.name for value in body.output)


def _replace(graph: GraphProto, nodes: Sequence[NodeProto], changed: AbstractSet[str]) -> None:
    """Give the graph these nodes, without those that nothing reads, and without the types of values that changed."""
    needed = {value.name for value in graph.output}
    kept: list[NodeProto] = []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            needed.update((*node.input, *_captured(node)))
            kept.append(NodeProto.FromString(node.SerializeToString()))
    infos = [value for value in graph.value_info if value.name in needed and value.name not in changed]
    lost = {name for node in graph.node for name in node.input} - needed - {value.name for value in graph.input}
    for number in reversed([k for k, tensor in enumerate(graph.initializer) if tensor.name in lost]):
        del graph.initializer[number]
    del graph.node[:]
    graph.node.extend(reversed(kept))
    del graph.value_info[:]
    graph.value_info.extend(infos)
