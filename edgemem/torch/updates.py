"""Writes an optimizer's updates behind the backward pass in a graph of FX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from edgemem.torch.fakes import form
from edgemem.torch.graph import Source
from edgemem.torch.optimizers import ParameterGroup, form_of, rule_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx import Graph, Node

__all__ = ["add_updates"]


def add_updates(
    graph: Graph,
    sources: list[Source],
    gradients: Mapping[str, tuple[int, Node]],
    optimizer: torch.optim.Optimizer,
    mode: FakeTensorMode,
) -> tuple[frozenset[Node], tuple[ParameterGroup, ...]]:
    """Write the updates of all parameters, one after another, at the point where the graph inserts nodes.

    Args:
        graph: of the step up to the gradients.
        sources: of its placeholders, the parameters' first. Those of new placeholders are added: numbers and states.
        gradients: parameter -> its group's number and the node of its gradient, in the order of the optimizer.
        optimizer: one that `edgemem.torch.optimizers` knows.
        mode: what nodes give is computed in it.

    Returns:
        the nodes that were written, and how each group was captured.
    """
    rule = rule_of(type(optimizer))
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    last = placeholders[-1]
    parameters = {s.name: n for s, n in zip(sources, placeholders, strict=True) if s.role == "parameter"}
    written: list[Node] = []

    def take(source: Source, value: Any) -> Node:
        nonlocal last
        with graph.inserting_after(last):
            last = graph.placeholder(f"{source.role}_{len(sources)}")
        last.meta["val"] = value
        sources.append(source)
        return last

    def run(target: Any, *args: Any, **kwargs: Any) -> Node:
        node = graph.call_function(target, args, kwargs)
        plain, named = torch.fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
        with mode, torch.no_grad():
            node.meta["val"] = target(*plain, **named)
        written.append(node)
        return node

    groups = []
    for number, group in enumerate(optimizer.param_groups):
        names = tuple(name for name, (of, _) in gradients.items() if of == number)
        chosen = form_of(rule, group)
        groups.append(ParameterGroup(names, chosen))
        given = rule.numbers(group, [{}] * len(names)) if names else {}
        numbers = {key: take(Source("scalar", key, index=number), value) for key, value in given.items()}
        for name in names:
            fresh: dict[str, Any] = {}
            with mode, torch.no_grad():
                rule.begin(parameters[name].meta["val"], fresh, chosen)
            keys = rule.states(chosen)
            state = {key: take(Source("state", name, key, number, form(fresh[key])), fresh[key]) for key in keys}
            rule.update(run, parameters[name], gradients[name][1], state, {**chosen, **numbers})
    return frozenset(written), tuple(groups)
