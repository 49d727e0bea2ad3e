"""The inputs of a training step from a real model, optimizer and batch, checked against what was captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from edgemem.errors import RuntimeBindError
from edgemem.torch.fakes import aliases, form
from edgemem.torch.optimizers import form_of, rule_of
from edgemem.torch.surroundings import find_hook

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.torch.graph import Source, StepProgram

__all__ = ["bind"]


def bind(
    program: StepProgram,
    parameters: Mapping[str, torch.nn.Parameter],
    buffers: Mapping[str, torch.Tensor],
    optimizer: torch.optim.Optimizer | None,
    batch: Sequence[Any],
) -> list[Any]:
    """The values of a program's placeholders. States of the optimizer are made where there are none, and count a step.

    Raises RuntimeBindError where something is not like what was captured; then nothing has changed.
    """
    if type(optimizer) is not (program.optimizer or type(None)):
        wanted = program.optimizer.__name__ if program.optimizer else "no optimizer"
        raise RuntimeBindError(f"the step was captured with {wanted}, not with {type(optimizer).__name__}")
    leaves = _leaves(program, batch)
    _check_parameters(program, parameters, optimizer)
    values: list[Any] = []
    for source in program.sources:
        if source.role in ("parameter", "buffer"):
            values.append((parameters if source.role == "parameter" else buffers).get(source.name))
        else:
            values.append(leaves[source.index] if source.role == "batch" else None)
        if source.role in ("parameter", "buffer", "batch"):
            _check(source, values[-1])
    if aliases(values, program.written) != program.aliases:
        raise RuntimeBindError(
            "other tensors share memory than when the step was captured, and it writes into them; capture it again"
        )
    if optimizer is None:
        return values
    numbers, states = _prepared(program, parameters, optimizer)
    for k, source in enumerate(program.sources):
        if source.role == "scalar":
            values[k] = numbers[source.index][source.name]
        elif source.role == "state":
            values[k] = states[source.name][source.key]
    return values


def _leaves(program: StepProgram, batch: Sequence[Any]) -> list[Any]:
    leaves: list[Any]
    leaves, structure = pytree.tree_flatten(tuple(batch))
    wanted, others = program.batch
    if structure != wanted or any(leaves[k] != value for k, value in others.items()):
        raise RuntimeBindError("the batch is not made up like the example that was captured; capture this one")
    return leaves


def _check_parameters(
    program: StepProgram, parameters: Mapping[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer | None
) -> None:
    """Raise RuntimeBindError if others are trained than at the capture, or in another way."""
    again = "capture the step again"
    if parameters.keys() != program.gradients.keys():
        for name in program.gradients:
            if name not in parameters:
                raise RuntimeBindError(f"there is no {name}, which was captured; {again}")
        new = next(name for name in parameters if name not in program.gradients)
        raise RuntimeBindError(f"the model has a parameter {new}, which was not captured; {again}")
    for name, wanted in program.gradients.items():
        if parameters[name].requires_grad != wanted:
            raise RuntimeBindError(f"requires_grad of {name} is {not wanted}, and was {wanted} when captured; {again}")
    hooked = find_hook(parameters, optimizer)
    if hooked:
        raise RuntimeBindError(f"{hooked} has hooks, which a captured step does not call; remove them")
    groups = optimizer.param_groups if optimizer is not None else []
    if len(groups) != len(program.members):
        raise RuntimeBindError(
            f"the optimizer has {len(groups)} groups of parameters instead of {len(program.members)}; {again}"
        )
    for number, (group, names) in enumerate(zip(groups, program.members, strict=True)):
        if len(group["params"]) != len(names) or any(
            p is not parameters[name] for p, name in zip(group["params"], names, strict=True)
        ):
            raise RuntimeBindError(
                f"group {number} of the optimizer has not the parameters that were captured, which are "
                f"{', '.join(names)} of this model; {again}"
            )


def _prepared(
    program: StepProgram, parameters: Mapping[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer
) -> tuple[list[dict[str, float]], dict[str, dict[str, torch.Tensor]]]:
    """The numbers of each group, and the states of each parameter, which count this step already."""
    rule = rule_of(type(optimizer))
    if [form_of(rule, g) for g in optimizer.param_groups] != [g.form for g in program.groups]:
        raise RuntimeBindError("the optimizer's options are not those that were captured; capture the step again")
    known = {name: optimizer.state.get(parameters[name], {}) for group in program.groups for name in group.names}
    for source in program.sources:
        if source.role == "state" and known[source.name]:
            _check(source, known[source.name].get(source.key))
    numbers = [
        rule.numbers(group, [known[name] for name in captured.names]) if captured.names else {}
        for group, captured in zip(optimizer.param_groups, program.groups, strict=True)
    ]
    for captured in program.groups:
        for name in captured.names:
            if not known[name]:
                known[name] = optimizer.state[parameters[name]]
                rule.begin(parameters[name], known[name], captured.form)
            rule.count(known[name])
    return numbers, known


def _check(source: Source, tensor: Any) -> None:
    what = f"{source.key} of {source.name}" if source.key else source.name
    if not isinstance(tensor, torch.Tensor):
        raise RuntimeBindError(f"there is no {what}, which was captured; capture the step again")
    if source.role == "batch" and tensor.requires_grad:
        raise RuntimeBindError(f"{what} requires a gradient, which a captured step does not give; detach it")
    if form(tensor) != source.form:
        named = zip(("shape", "strides", "dtype", "device"), form(tensor), source.form, strict=True)
        differs = "; ".join(f"{name} {now} instead of {then}" for name, now, then in named if now != then)
        raise RuntimeBindError(f"{what} is not like what was captured: {differs}; capture the step again")
