"""Traces a training step, and refuses one that does something else each time it runs."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedOperatorException,
)
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from edgemem.errors import UnsupportedError
from edgemem.torch.generators import GeneratorWatch
from edgemem.torch.surroundings import describe, difference, generators_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch._subclasses.fake_tensor import FakeTensorMode

__all__ = ["constants_of", "trace"]

# Both biases have the same gradient. Fake tensors of it are one the first time, and two later, as in memory.
_LSTM_BACKWARD: Final = torch.ops.aten.mkldnn_rnn_layer_backward.default


def trace(
    step: Callable[[list[torch.Tensor]], Any],
    values: list[torch.Tensor],
    mode: FakeTensorMode,
    roots: Sequence[Any],
) -> tuple[GraphModule, frozenset[str]]:
    """The nodes of a step, and the attributes that it sets itself.

    The step runs twice without memory. Attributes of modules, and random generators, are then as before.

    Args:
        step: takes and gives tensors.
        values: what it takes, without memory.
        mode: of these.
        roots: the model and the loss.

    Raises UnsupportedError where the second run does something else than the first, where anything but an operator
    moves a random generator, and where PyTorch cannot trace the step.
    """
    modules = [m for root in roots if isinstance(root, nn.Module) for m in root.modules()]
    before = [dict(vars(m)) for m in modules]
    found, described = [], [describe(roots, {})]
    try:
        with GeneratorWatch(generators_of(roots)) as watch:
            for _ in range(2):
                found.append(_traced(step, values, mode, watch))
                described.append(describe(roots, {}))
                watch.check()
    finally:
        for module, attributes in zip(modules, before, strict=True):
            vars(module).clear()
            vars(module).update(attributes)
    differs = difference(described[1], described[2]) or _difference(*found)
    if differs:
        raise UnsupportedError(
            f"the training step does something else each time it runs ({differs}), which a captured step would not; "
            "take that out of the model, or run the step once before if it only keeps something for later"
        )
    return found[1], frozenset(_changed(described[0], described[1]))


def constants_of(module: GraphModule) -> dict[str, Any]:
    """What the nodes of a trace read besides its inputs, by name."""
    return {n.target: getattr(module, n.target) for n in module.graph.nodes if n.op == "get_attr"}


def _traced(
    step: Callable[[list[torch.Tensor]], Any], values: list[torch.Tensor], mode: FakeTensorMode, watch: GeneratorWatch
) -> GraphModule:
    def watched(flat: list[torch.Tensor]) -> Any:
        with watch.operators():
            return step(flat)

    try:
        with mode, torch.enable_grad():
            return make_fx(watched, tracing_mode="real")(values)
    except (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException) as e:
        raise UnsupportedError(
            f"the training step depends on values of tensors, not on their shapes alone ({e}); take that out of the "
            "model"
        ) from e
    except RuntimeError as e:
        said = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
        raise UnsupportedError(
            f"PyTorch cannot trace the training step ({said}); if it runs in plain PyTorch, it still cannot be captured"
        ) from e


def _changed(before: Sequence[Any], after: Sequence[Any]) -> Iterator[str]:
    """The attributes that are not as before."""
    known = dict(before)
    for name, values in after:
        old = dict(known.get(name, ()))
        yield from (f"{name}.{key}" for key, value in values if old.get(key, known) != value)


def _difference(first: GraphModule, second: GraphModule) -> str | None:
    """The first node that is not the same in both."""
    nodes = list(first.graph.nodes), list(second.graph.nodes)
    place = [{node: k for k, node in enumerate(each)} for each in nodes]
    for one, other in zip(*nodes, strict=False):
        if one.op != other.op or (one.op == "call_function" and one.target is not other.target):
            return f"{one.target} and then {other.target}"
        if one.op == "get_attr":
            if not _is_same(getattr(first, one.target), getattr(second, other.target)):
                return "another tensor or generator made in Python"
            continue
        mine, theirs = (pytree.tree_flatten((n.args, n.kwargs)) for n in (one, other))
        pairs = zip(mine[0], theirs[0], strict=False)
        if mine[1] != theirs[1] or not all(_equal(a, b, place[0], place[1]) for a, b in pairs):
            return f"other arguments for {one.target}"
    return None if len(nodes[0]) == len(nodes[1]) else "more operators"


def _equal(one: Any, other: Any, first: dict[Node, int], second: dict[Node, int]) -> bool:
    if isinstance(one, Node) and isinstance(other, Node):
        makers = [n.args[0] if n.target is operator.getitem else None for n in (one, other)]
        if all(isinstance(m, Node) and m.target is _LSTM_BACKWARD for m in makers):
            return first[makers[0]] == second[makers[1]]
        return first[one] == second[other]
    return type(one) is type(other) and bool(one == other or repr(one) == repr(other))


def _is_same(one: Any, other: Any) -> bool:
    """Whether two constants are one, or hold the same."""
    if one is other:
        return True
    if isinstance(one, torch.Generator) and isinstance(other, torch.Generator):
        return bool(one._cdata == other._cdata)  # noqa: SLF001 - there may be several objects for one
    if isinstance(one, GraphModule) and isinstance(other, GraphModule):
        return _difference(one, other) is None
    tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    if not tensors or isinstance(one, FakeTensor) or isinstance(other, FakeTensor):
        return False
    if (one.shape, one.stride(), one.dtype, one.layout) != (other.shape, other.stride(), other.dtype, other.layout):
        return False
    bits = [t.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for t in (one, other)]
    return bool(torch.equal(*bits))
