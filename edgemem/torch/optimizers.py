"""The updates of PyTorch's optimizers, operator by operator as `torch.optim` runs them for one parameter after another.

Results are bit-identical to those of the loops in torch/optim (`_single_tensor_sgd`, `_single_tensor_adam`), which
PyTorch runs on the CPU. Its other forms (`foreach`, the default on GPUs) compute the same with more memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch

from edgemem.errors import RuntimeBindError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["ParameterGroup", "Rule", "form_of", "rule_of"]

aten = torch.ops.aten

_REFUSED = ("fused", "capturable", "differentiable")


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """One group of an optimizer as it was captured.

    Attributes:
        names: of the parameters that get a gradient, in the group's order.
        form: what decides which operators update them (`Rule.form`).
    """

    names: tuple[str, ...]
    form: Mapping[str, bool]


class Rule(Protocol):
    """How an optimizer updates one parameter."""

    def form(self, group: Mapping[str, Any]) -> dict[str, bool]:
        """The options of a group that decide which operators run; numbers that they read are not among them."""

    def states(self, form: Mapping[str, bool]) -> tuple[str, ...]:
        """The names of the tensors that the optimizer keeps for each parameter, each as large as the parameter."""

    def begin(self, parameter: Any, state: dict[str, Any], form: Mapping[str, bool]) -> None:
        """Make the state of a parameter that has none yet."""

    def numbers(self, group: Mapping[str, Any], states: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """What the operators of a step read, by name.

        The states are those of the group's parameters before the step; empty before the first one. Raises
        RuntimeBindError if parameters of one group have done different numbers of steps.
        """

    def count(self, state: Mapping[str, Any]) -> None:
        """Count a step in the state of a parameter."""

    def update(
        self, run: Callable[..., Any], parameter: Any, gradient: Any, state: Mapping[str, Any], given: Mapping[str, Any]
    ) -> None:
        """Run the operators that update a parameter.

        Args:
            run: runs an operator on arguments: `run(aten.add.Tensor, a, b)`.
            parameter: is updated in place.
            gradient: of the loss.
            state: tensors by name, updated in place.
            given: what `form` and `numbers` said.
        """


class _Sgd:
    def form(self, group: Mapping[str, Any]) -> dict[str, bool]:
        return {
            "decays": group["weight_decay"] != 0,
            "remembers": group["momentum"] != 0,
            "nesterov": bool(group["nesterov"]),
            "maximizes": bool(group["maximize"]),
        }

    def states(self, form: Mapping[str, bool]) -> tuple[str, ...]:
        return ("momentum_buffer",) if form["remembers"] else ()

    def begin(self, parameter: Any, state: dict[str, Any], form: Mapping[str, bool]) -> None:
        if form["remembers"]:
            # Adding to -0 gives every gradient as it is, also 0 and -0.
            state["momentum_buffer"] = torch.full_like(parameter, -0.0, memory_format=torch.preserve_format)

    def numbers(self, group: Mapping[str, Any], states: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        first = _same([state.get("momentum_buffer") is None for state in states])
        return {
            "weight_decay": float(group["weight_decay"]),
            "momentum": float(group["momentum"]),
            "share": 1.0 if first else 1 - group["dampening"],
            "minus_lr": -float(group["lr"]),
        }

    def count(self, state: Mapping[str, Any]) -> None:
        """There is nothing to count."""

    def update(
        self, run: Callable[..., Any], parameter: Any, gradient: Any, state: Mapping[str, Any], given: Mapping[str, Any]
    ) -> None:
        if given["maximizes"]:
            gradient = run(aten.neg.default, gradient)
        if given["decays"]:
            gradient = run(aten.add.Tensor, gradient, parameter, alpha=given["weight_decay"])
        if given["remembers"]:
            buffer = run(aten.mul_.Tensor, state["momentum_buffer"], given["momentum"])
            buffer = run(aten.add_.Tensor, buffer, gradient, alpha=given["share"])
            if given["nesterov"]:
                gradient = run(aten.add.Tensor, gradient, buffer, alpha=given["momentum"])
            else:
                gradient = buffer
        run(aten.add_.Tensor, parameter, gradient, alpha=given["minus_lr"])


class _Adam:
    """Adam and AdamW, which scales the parameter itself instead of adding to the gradient."""

    _STATES: ClassVar = ("exp_avg", "exp_avg_sq")

    def form(self, group: Mapping[str, Any]) -> dict[str, bool]:
        return {
            "decays": group["weight_decay"] != 0,
            "decoupled": bool(group["decoupled_weight_decay"]),
            "amsgrad": bool(group["amsgrad"]),
            "maximizes": bool(group["maximize"]),
        }

    def states(self, form: Mapping[str, bool]) -> tuple[str, ...]:
        return (*self._STATES, "max_exp_avg_sq") if form["amsgrad"] else self._STATES

    def begin(self, parameter: Any, state: dict[str, Any], form: Mapping[str, bool]) -> None:
        state["step"] = torch.tensor(0.0, dtype=torch.get_default_dtype(), device="cpu")
        for name in self.states(form):
            state[name] = torch.zeros_like(parameter, memory_format=torch.preserve_format)

    def numbers(self, group: Mapping[str, Any], states: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        step = _same([float(state["step"]) if state else 0.0 for state in states]) + 1
        beta1, beta2 = group["betas"]
        lr = float(group["lr"])
        return {
            "weight_decay": float(group["weight_decay"]),
            "kept": 1 - lr * group["weight_decay"],
            "new1": 1 - beta1,
            "beta2": beta2,
            "new2": 1 - beta2,
            "correction": (1 - beta2**step) ** 0.5,
            "eps": float(group["eps"]),
            "minus_lr": -(lr / (1 - beta1**step)),
        }

    def count(self, state: Mapping[str, Any]) -> None:
        state["step"].add_(1)

    def update(
        self, run: Callable[..., Any], parameter: Any, gradient: Any, state: Mapping[str, Any], given: Mapping[str, Any]
    ) -> None:
        if given["maximizes"]:
            gradient = run(aten.neg.default, gradient)
        if given["decays"] and given["decoupled"]:
            parameter = run(aten.mul_.Tensor, parameter, given["kept"])
        elif given["decays"]:
            gradient = run(aten.add.Tensor, gradient, parameter, alpha=given["weight_decay"])
        average = run(aten.lerp_.Scalar, state["exp_avg"], gradient, given["new1"])
        square = run(aten.mul_.Tensor, state["exp_avg_sq"], given["beta2"])
        square = run(aten.addcmul_.default, square, gradient, gradient, value=given["new2"])
        if given["amsgrad"]:
            most = state["max_exp_avg_sq"]
            square = run(aten.maximum.out, most, square, out=most)
        root = run(aten.sqrt.default, square)
        divisor = run(aten.div.Tensor, root, given["correction"])
        divisor = run(aten.add_.Tensor, divisor, given["eps"])
        run(aten.addcdiv_.default, parameter, average, divisor, value=given["minus_lr"])


_RULES: dict[type, Rule] = {torch.optim.SGD: _Sgd(), torch.optim.Adam: _Adam(), torch.optim.AdamW: _Adam()}


def rule_of(kind: type) -> Rule:
    """The rule of a class of optimizers. Raises UnsupportedError for one that there is none for."""
    if kind not in _RULES:
        known = ", ".join(k.__name__ for k in _RULES)
        raise UnsupportedError(
            f"edgemem does not know how {kind.__name__} updates parameters, only {known}; without an optimizer, "
            "capture ends with the gradients"
        )
    return _RULES[kind]


def form_of(rule: Rule, group: Mapping[str, Any]) -> dict[str, bool]:
    """`Rule.form`. Raises UnsupportedError for options whose updates edgemem does not know."""
    refused = [name for name in _REFUSED if group.get(name)]
    if refused:
        raise UnsupportedError(f"an optimizer with {refused[0]}=True computes in another way; leave {refused[0]} out")
    tensors = [k for k, v in group.items() if isinstance(v, torch.Tensor)]
    if tensors:
        raise UnsupportedError(f"{tensors[0]} of an optimizer's group is a tensor; give a number")
    return rule.form(group)


def _same(values: Sequence[Any]) -> Any:
    """The one value of all parameters of a group."""
    if any(v != values[0] for v in values):
        raise RuntimeBindError(
            "the parameters of a group have done different numbers of steps; put them into groups of their own"
        )
    return values[0]
