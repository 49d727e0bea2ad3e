"""Hooks of modules, tensors, parameters and optimizers, there at the capture or put on and taken off later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.modules import module as global_hooks
from torch.optim.optimizer import register_optimizer_step_post_hook

from tests.torch.step_programs.registry import Training, program

if TYPE_CHECKING:
    from collections.abc import Callable


def layers(p: float = 0.2) -> Any:
    return nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Dropout(p), nn.Linear(16, 4))


def with_hook(put: Callable[[Any, Any], Any], *, at: int = -1, off: int = 99, p: float = 0.2) -> Training:
    """A model and its optimizer, on which `put` puts a hook at the beginning or before step `at`, off before `off`."""
    model = layers(p)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    handles = [put(model, optimizer)] if at < 0 else []

    def prepare(step: int) -> None:
        if step == at:
            handles.append(put(model, optimizer))
        if step == off:
            handles.pop().remove()

    return Training(model, optimizer, prepare=prepare)


def scale_output(_: Any, __: Any, output: Any) -> Any:
    return output * 1.5


def scale_gradients(_: Any, given: Any, __: Any) -> Any:
    return tuple(None if g is None else g * 0.5 for g in given)


def shrink(parameter: Any) -> None:
    parameter.grad.mul_(0.1)


@program
def forward_hook() -> Training:
    return with_hook(lambda m, _: m[0].register_forward_hook(scale_output))


@program
def forward_hook_later() -> Training:
    return with_hook(lambda m, _: m[0].register_forward_hook(scale_output), at=3)


@program
def forward_hook_taken_off_later() -> Training:
    return with_hook(lambda m, _: m[0].register_forward_hook(scale_output), off=3)


@program
def forward_pre_hook() -> Training:
    return with_hook(lambda m, _: m[3].register_forward_pre_hook(lambda _, args: (args[0] + 1,)))


@program
def forward_pre_hook_later() -> Training:
    return with_hook(lambda m, _: m[3].register_forward_pre_hook(lambda _, args: (args[0] + 1,)), at=4)


@program
def forward_hook_that_draws() -> Training:
    return with_hook(lambda m, _: m[0].register_forward_hook(lambda _, __, o: o + torch.randn_like(o)))


@program
def forward_hook_that_seeds() -> Training:
    def seed(*_: Any) -> None:
        torch.manual_seed(9)

    return with_hook(lambda m, _: m[0].register_forward_hook(seed))


@program
def backward_hook() -> Training:
    return with_hook(lambda m, _: m[0].register_full_backward_hook(scale_gradients))


@program
def backward_hook_later() -> Training:
    return with_hook(lambda m, _: m[1].register_full_backward_hook(scale_gradients), at=3)


@program
def backward_pre_hook() -> Training:
    return with_hook(lambda m, _: m[3].register_full_backward_pre_hook(lambda _, g: (g[0] * 2,)))


@program
def backward_hook_that_seeds() -> Training:
    def seed(*_: Any) -> None:
        torch.manual_seed(9)

    return with_hook(lambda m, _: m[3].register_full_backward_hook(seed))


@program
def backward_hook_that_draws() -> Training:
    return with_hook(lambda m, _: m[1].register_full_backward_hook(lambda _, g, __: (g[0] * torch.rand_like(g[0]),)))


@program
def tensor_hook_in_forward() -> Training:
    class Model(nn.Sequential):
        def forward(self, x: Any) -> Any:
            x = self[0](x)
            x.register_hook(lambda g: g.clamp(-0.01, 0.01))
            return self[3](self[2](x.tanh()))

    model = Model(*layers())
    return Training(model, torch.optim.SGD(model.parameters(), 0.05))


@program
def tensor_hook_that_seeds() -> Training:
    class Model(nn.Sequential):
        def forward(self, x: Any) -> Any:
            x = self[2](self[0](x))

            def seed(_: Any) -> None:
                torch.manual_seed(12)

            x.register_hook(seed)
            return self[3](x)

    model = Model(*layers())
    return Training(model, torch.optim.SGD(model.parameters(), 0.05))


@program
def retained_gradient() -> Training:
    class Model(nn.Sequential):
        def forward(self, x: Any) -> Any:
            self.kept = self[0](x)
            self.kept.retain_grad()
            return self[3](self.kept)

    model = Model(*layers())
    return Training(model, torch.optim.SGD(model.parameters(), 0.05))


@program
def activation_kept_by_a_hook() -> Training:
    model, kept = layers(), []
    model[0].register_forward_hook(lambda _, __, output: kept.append(output.detach()))
    return Training(model, torch.optim.SGD(model.parameters(), 0.05))


@program
def parameter_hook() -> Training:
    return with_hook(lambda m, _: m[0].weight.register_hook(lambda g: g * 0.1))


@program
def parameter_hook_later() -> Training:
    return with_hook(lambda m, _: m[0].weight.register_hook(lambda g: g * 0.1), at=3)


@program
def accumulate_hook() -> Training:
    return with_hook(lambda m, _: m[0].weight.register_post_accumulate_grad_hook(shrink))


@program
def accumulate_hook_later() -> Training:
    return with_hook(lambda m, _: m[3].bias.register_post_accumulate_grad_hook(shrink), at=5)


@program
def optimizer_in_the_backward_pass() -> Training:
    model = layers()
    for parameter in model.parameters():
        own = torch.optim.SGD([parameter], 0.05)

        def update(_: Any, own: Any = own) -> None:
            own.step()
            own.zero_grad()

        parameter.register_post_accumulate_grad_hook(update)
    return Training(model)


@program
def accumulate_hook_without_an_optimizer_later() -> Training:
    model = layers()

    def prepare(step: int) -> None:
        if step == 2:
            model[0].weight.register_post_accumulate_grad_hook(shrink)

    def finish(_: int) -> None:
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(0.1 * p.grad)
                p.grad = None

    return Training(model, prepare=prepare, finish=finish)


def shrink_gradients(optimizer: Any, _: Any, __: Any) -> None:
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                p.grad.mul_(0.1)


@program
def optimizer_pre_hook() -> Training:
    return with_hook(lambda _, o: o.register_step_pre_hook(shrink_gradients))


@program
def optimizer_pre_hook_later() -> Training:
    return with_hook(lambda _, o: o.register_step_pre_hook(shrink_gradients), at=3)


def shrink_weights(optimizer: Any, _: Any, __: Any) -> None:
    with torch.no_grad():
        for p in optimizer.param_groups[0]["params"]:
            p.mul_(0.9)


@program
def optimizer_post_hook() -> Training:
    return with_hook(lambda _, o: o.register_step_post_hook(shrink_weights))


@program
def optimizer_post_hook_later() -> Training:
    return with_hook(lambda _, o: o.register_step_post_hook(shrink_weights), at=6)


class _Around:
    """Puts a hook of the whole process on for the length of each step."""

    def __init__(self, put: Callable[[], Any]) -> None:
        self.put = put

    def __enter__(self) -> None:
        self.handle = self.put()

    def __exit__(self, *_: object) -> None:
        self.handle.remove()


@program
def optimizer_hook_of_the_process() -> Training:
    model = layers()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    around = lambda: _Around(lambda: register_optimizer_step_post_hook(shrink_weights))  # noqa: E731
    return Training(model, optimizer, around=around)


@program
def module_hook_of_the_process() -> Training:
    model = layers()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    hook = lambda m, _, o: o * 1.5 if isinstance(m, nn.Tanh) else None  # noqa: E731
    put = lambda: _Around(lambda: global_hooks.register_module_forward_hook(hook))  # noqa: E731
    return Training(model, optimizer, around=put)


@program
def module_hook_of_the_process_at_the_capture() -> Training:
    model = layers()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    hook = lambda m, _, o: o * 1.5 if isinstance(m, nn.Tanh) else None  # noqa: E731
    put = lambda: _Around(lambda: global_hooks.register_module_forward_hook(hook))  # noqa: E731
    return Training(model, optimizer, around=put, capturing=put)


@program
def forward_hook_that_counts() -> Training:
    model = layers()
    model.calls = 0

    def count(_: Any, __: Any, output: Any) -> Any:
        model.calls += 1
        return output * model.calls

    model[0].register_forward_hook(count)
    return Training(model, torch.optim.SGD(model.parameters(), 0.05), more=lambda: (torch.tensor(model.calls),))


@program
def saved_tensor_hooks_around() -> Training:
    model = layers()

    def loss(output: Any, target: Any) -> Any:
        return (output - target[:, None]).square().mean()

    around = lambda: torch.autograd.graph.saved_tensors_hooks(  # noqa: E731
        lambda t: t * 2 if t.is_floating_point() else t, lambda t: t
    )
    return Training(model, torch.optim.SGD(model.parameters(), 0.05), loss, around=around)


@program
def gradient_hook_of_a_node() -> Training:
    class Model(nn.Sequential):
        def forward(self, x: Any) -> Any:
            x = self[0](x).tanh()
            x.grad_fn.register_hook(lambda given, _: tuple(g * 0.5 for g in given))
            return self[3](x)

    model = Model(*layers())
    return Training(model, torch.optim.SGD(model.parameters(), 0.05))
