"""What stands around a step: optimizers, schedules, scalers, averages, modes, and changes between steps."""

from __future__ import annotations

import copy
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional
from torch.optim import lr_scheduler, swa_utils

from tests.torch.step_programs.registry import Training, program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def layers(p: float = 0.2) -> Any:
    return nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(p), nn.Linear(16, 4))


def adam(model: Any, **options: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), 0.01, **options)


def changed(at: int, change: Callable[[Training], Any], training: Training) -> Training:
    """The training with a change before step `at`."""

    def prepare(step: int) -> None:
        if step == at:
            change(training)

    training.prepare = prepare
    return training


def plain() -> Training:
    model = layers()
    return Training(model, adam(model))


def halves(model: Any) -> list[dict[str, Any]]:
    return [
        {"params": [*model[0].parameters(), *model[1].parameters()], "lr": 0.1},
        {"params": [*model[4].parameters()]},
    ]


# Gradients that the loop uses itself


@program
def accumulated_gradients() -> Training:
    model = layers()
    optimizer = torch.optim.Adagrad(model.parameters(), 0.05)

    def finish(step: int) -> None:
        if step % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()

    return Training(model, finish=finish, loss=lambda o, t: functional.cross_entropy(o, t) / 3)


@program
def clipped_norm() -> Training:
    model = layers()
    optimizer = adam(model)
    norms: list[Any] = []

    def finish(_: int) -> None:
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1))
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    return Training(model, finish=finish, more=lambda: norms)


@program
def scaled_gradients() -> Training:
    model = layers()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)

    def finish(_: int) -> None:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    loss = lambda o, t: scaler.scale(functional.cross_entropy(o, t))  # noqa: E731
    return Training(model, finish=finish, loss=loss)


@program
def two_optimizers() -> Training:
    model = layers()
    optimizers = [torch.optim.SGD(model[0].parameters(), 0.1), torch.optim.Adam(model[4].parameters())]

    def finish(step: int) -> None:
        optimizers[step % 2].step()
        model.zero_grad()

    return Training(model, finish=finish)


@program
def gradients_made_before_the_step() -> Training:
    def change(training: Training) -> None:
        for p in training.model.parameters():
            p.grad = torch.ones_like(p)

    model = layers()
    optimizer = adam(model)

    def finish(_: int) -> None:
        optimizer.step()
        optimizer.zero_grad()

    return changed(4, change, Training(model, finish=finish))


# Schedules


@program
def step_schedule() -> Training:
    training = plain()
    schedule = lr_scheduler.StepLR(training.optimizer, 2, 0.5)
    training.finish = lambda _: schedule.step()
    return training


@program
def one_cycle() -> Training:
    model = layers()
    optimizer = torch.optim.SGD(halves(model), 0.05, momentum=0.9)
    schedule = lr_scheduler.OneCycleLR(optimizer, [0.2, 0.1], total_steps=12)
    return Training(model, optimizer, finish=lambda _: schedule.step())


@program
def weight_decay_changed() -> Training:
    return changed(3, lambda t: t.optimizer.param_groups[0].update(weight_decay=0.0), plain())


@program
def betas_changed() -> Training:
    return changed(3, lambda t: t.optimizer.param_groups[0].update(betas=(0.5, 0.6)), plain())


@program
def amsgrad_changed() -> Training:
    return changed(3, lambda t: t.optimizer.param_groups[0].update(maximize=True), plain())


# Averages and states


@program
def averaged_weights() -> Training:
    training = plain()
    average = swa_utils.AveragedModel(training.model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    training.finish = lambda _: average.update_parameters(training.model)
    training.more = lambda: [*average.parameters(), *average.buffers()]
    return training


@program
def states_loaded() -> Training:
    saved: dict[str, Any] = {}
    training = plain()

    def finish(step: int) -> None:
        if step == 2:
            saved.update(model=copy.deepcopy(training.model.state_dict()))
            saved.update(optimizer=copy.deepcopy(training.optimizer.state_dict()))
        if step == 5:
            training.model.load_state_dict(saved["model"])
            training.optimizer.load_state_dict(saved["optimizer"])

    training.finish = finish
    return training


@program
def states_assigned() -> Training:
    def change(training: Training) -> None:
        state = {k: v * 0.5 if v.is_floating_point() else v for k, v in training.model.state_dict().items()}
        training.model.load_state_dict(state, assign=True)

    return changed(4, change, plain())


@program
def data_of_a_parameter_replaced() -> Training:
    return changed(4, lambda t: setattr(t.model[0].weight, "data", torch.ones(16, 16) * 0.1), plain())


@program
def evaluated_between() -> Training:
    training = plain()

    def finish(_: int) -> None:
        training.model.eval()
        with torch.no_grad():
            training.model(torch.ones(2, 16))
        training.model.train()

    training.finish = finish
    return training


# Changes of what is trained


@program
def frozen_later() -> Training:
    return changed(3, lambda t: t.model[0].requires_grad_(requires_grad=False), plain())


@program
def unfrozen_later() -> Training:
    training = plain()
    training.model[0].requires_grad_(requires_grad=False)
    return changed(3, lambda t: t.model[0].requires_grad_(), training)


@program
def optimizer_of_the_head_later() -> Training:
    return changed(3, lambda t: setattr(t, "optimizer", adam(t.model[4])), plain())


def swap_groups(training: Training) -> None:
    first, second = training.optimizer.param_groups
    first["params"], second["params"] = second["params"], first["params"]


@program
def groups_swapped() -> Training:
    model = layers()
    return changed(3, swap_groups, Training(model, torch.optim.SGD(halves(model), 0.01)))


@program
def groups_in_another_order() -> Training:
    model = layers()
    training = Training(model, torch.optim.SGD(halves(model), 0.01))
    return changed(3, lambda t: setattr(t, "optimizer", torch.optim.SGD(halves(model)[::-1], 0.01)), training)


@program
def optimizer_of_another_model() -> Training:
    other = layers()
    training = plain()
    return changed(3, lambda t: setattr(t, "optimizer", adam(other)), training)


@program
def another_model_and_its_optimizer() -> Training:
    other = layers()

    def change(training: Training) -> None:
        training.model, training.optimizer = other, adam(other)

    return changed(3, change, plain())


@program
def group_added() -> Training:
    extra = nn.Parameter(torch.ones(3))
    return changed(3, lambda t: t.optimizer.add_param_group({"params": [extra]}), plain())


@program
def parameter_replaced() -> Training:
    return changed(3, lambda t: setattr(t.model[0], "weight", nn.Parameter(torch.ones(16, 16) * 0.1)), plain())


@program
def tied_later() -> Training:
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.Linear(16, 4))
    return changed(3, lambda t: setattr(t.model[2], "weight", t.model[0].weight), Training(model, adam(model)))


@program
def module_replaced() -> Training:
    return changed(3, lambda t: t.model.__setitem__(2, nn.ReLU()), plain())


@program
def forward_replaced() -> Training:
    return changed(3, lambda t: setattr(t.model[2], "forward", torch.relu), plain())


@program
def evaluation_mode_later() -> Training:
    return changed(3, lambda t: t.model.eval(), plain())


@program
def one_layer_in_evaluation_mode_later() -> Training:
    return changed(3, lambda t: t.model[1].eval(), plain())


@program
def momentum_of_a_layer_changed() -> Training:
    return changed(3, lambda t: setattr(t.model[1], "momentum", 0.5), plain())


@program
def doubled_later() -> Training:
    class Model(nn.Sequential):
        def forward(self, x: Any) -> Any:
            return super().forward(x.to(self[0].weight.dtype)).float()

    model = Model(*layers())
    return changed(3, lambda t: t.model.double(), Training(model, torch.optim.SGD(model.parameters(), 0.1)))


# Modes


def cast() -> Any:
    return torch.autocast("cpu", torch.bfloat16)


@program
def autocast_around_both() -> Training:
    training = plain()
    training.around = training.capturing = cast
    return training


@program
def autocast_at_the_capture_alone() -> Training:
    training = plain()
    training.capturing = cast
    return training


@program
def autocast_at_the_call_alone() -> Training:
    training = plain()
    training.around = cast
    return training


@program
def autocast_of_another_type() -> Training:
    training = plain()
    training.capturing, training.around = cast, partial(torch.autocast, "cpu", torch.float16)
    return training


@program
def autocast_in_forward() -> Training:
    class Model(nn.Sequential):
        def forward(self, x: Any) -> Any:
            with cast():
                x = super().forward(x)
            return x.float()

    model = Model(*layers())
    return Training(model, adam(model))


@contextmanager
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(mode=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(mode=False)


@program
def deterministic_algorithms() -> Training:
    training = plain()
    training.around = _deterministic
    return training


@contextmanager
def _doubles() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@program
def another_default_type() -> Training:
    class Model(nn.Sequential):
        def forward(self, x: Any) -> Any:
            return self[4]((self[0](x) * (torch.ones(16) / 3)).float())

    model = Model(*layers())
    return Training(model, torch.optim.SGD(model.parameters(), 0.1), around=_doubles)


@program
def anomalies_detected() -> Training:
    training = plain()
    training.around = torch.autograd.detect_anomaly
    return training


@program
def options_of_optimizers() -> Training:
    model = layers()
    return Training(model, torch.optim.Adam(halves(model), amsgrad=True, weight_decay=0.1, maximize=True))


@program
def update_of_all_at_once() -> Training:
    model = layers()
    return Training(model, adam(model, foreach=True))
