"""Layers with states, shared and computed weights, and what a model does in Python."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, prune

from tests.torch.step_programs.registry import Training, images, program, words


def trained(model: Any, **options: Any) -> Training:
    return Training(model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), **options)


def two(first: Any, p: float = 0.2) -> Any:
    return nn.Sequential(first, nn.Dropout(p), nn.Tanh(), nn.Linear(16, 4))


@program
def spectral_norm() -> Training:
    return trained(two(parametrizations.spectral_norm(nn.Linear(16, 16))))


@program
def spectral_norm_of_old() -> Training:
    return trained(two(nn.utils.spectral_norm(nn.Linear(16, 16))))


@program
def weight_norm() -> Training:
    return trained(two(parametrizations.weight_norm(nn.Linear(16, 16))))


@program
def orthogonal() -> Training:
    return trained(two(parametrizations.orthogonal(nn.Linear(16, 16))))


@program
def pruned() -> Training:
    return trained(two(prune.random_unstructured(nn.Linear(16, 16), "weight", 0.3)))


@program
def batch_norm() -> Training:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(144, 4))
    return trained(model, batch=images)


@program
def batch_norm_of_all_batches() -> Training:
    return trained(nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16, momentum=None), nn.Linear(16, 4)))


@program
def instance_norm() -> Training:
    norm = nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
    return trained(nn.Sequential(nn.Conv2d(3, 4, 3), norm, nn.Flatten(), nn.Linear(144, 4)), batch=images)


@program
def averages_in_forward() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.Linear(16, 16), nn.Linear(16, 4)
            self.register_buffer("mean", torch.zeros(16))
            self.register_buffer("calls", torch.tensor(0))

        def forward(self, x: Any) -> Any:
            x = self.layer(x)
            with torch.no_grad():
                self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
                self.calls += 1
            return self.head((x - self.mean) / self.calls)

    return trained(Model())


@program
def averages_assigned() -> Training:
    class Model(nn.Module):
        mean: Any

        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.Linear(16, 16), nn.Linear(16, 4)
            self.register_buffer("mean", torch.zeros(16))

        def forward(self, x: Any) -> Any:
            x = self.layer(x)
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            return self.head(x - self.mean)

    return trained(Model())


@program
def tensor_attribute_assigned() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head, self.last = nn.Linear(16, 16), nn.Linear(16, 4), torch.ones(16)

        def forward(self, x: Any) -> Any:
            x = self.layer(x)
            self.last, before = x.detach().mean(0), self.last
            return self.head(x * before)

    return trained(Model())


@program
def counter_of_python() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls = nn.Linear(16, 4), 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return self.layer(x) * self.calls

    model = Model()
    return trained(model, more=lambda: (torch.tensor(model.calls),))


@program
def temperature_changed_between() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.temperature = nn.Linear(16, 4), 1.0

        def forward(self, x: Any) -> Any:
            return self.layer(x) / self.temperature

    model = Model()
    return trained(model, prepare=lambda k: setattr(model, "temperature", 1.0 + k / 4))


@program
def dropout_rate_changed_between() -> Training:
    model = two(nn.Linear(16, 16))
    return trained(model, prepare=lambda k: setattr(model[1], "p", 0.2 if k < 5 else 0.6))


@program
def tied_weights() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.layer = nn.Embedding(12, 16), nn.Linear(16, 16)
            self.out = nn.Linear(16, 12, bias=False)
            self.out.weight = self.words.weight

        def forward(self, x: Any) -> Any:
            return self.out(functional.dropout(self.layer(self.words(x)), 0.1).mean(1))

    return trained(Model(), batch=words)


@program
def tied_by_a_view() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(16, 16)

        def forward(self, x: Any) -> Any:
            return functional.linear(self.layer(x).tanh(), self.layer.weight.t()[:4])

    return trained(Model())


@program
def embedding_with_a_largest_norm() -> Training:
    model = nn.Sequential(nn.Embedding(12, 16, max_norm=0.5), nn.Flatten(), nn.Linear(96, 4))
    return trained(model, batch=words)


@program
def embedding_bag() -> Training:
    return trained(nn.Sequential(nn.EmbeddingBag(12, 16, mode="mean", padding_idx=0), nn.Linear(16, 4)), batch=words)


@program
def frozen_layer() -> Training:
    model = two(nn.Linear(16, 16))
    model[0].requires_grad_(False)
    return trained(model)


@program
def a_layer_that_is_not_used() -> Training:
    class Model(nn.Sequential):
        def forward(self, x: Any) -> Any:
            return self[3](x)

    return trained(Model(*two(nn.Linear(16, 16))))


@program
def experts() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router, self.parts = nn.Linear(16, 2), nn.ModuleList(nn.Linear(16, 4) for _ in range(2))

        def forward(self, x: Any) -> Any:
            best = self.router(x).argmax(-1)
            out = x.new_zeros(len(x), 4)
            for number, part in enumerate(self.parts):
                rows = torch.where(best == number)[0]
                out = out.index_add(0, rows, part(x[rows]))
            return out

    return trained(Model())


@program
def path_by_values() -> Training:
    class Model(nn.Sequential):
        def forward(self, x: Any) -> Any:
            x = self[0](x)
            return self[3](x.tanh() if x.mean() > 0 else x)

    return trained(Model(*two(nn.Linear(16, 16))))


@program
def choice_by_values_in_tensors() -> Training:
    class Model(nn.Sequential):
        def forward(self, x: Any) -> Any:
            x = self[0](x)
            return self[3](torch.where(x.mean() > 0, x.tanh(), x))

    return trained(Model(*two(nn.Linear(16, 16))))


@program
def functional_call() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part, self.gain = two(nn.Linear(16, 16)), nn.Parameter(torch.tensor(0.7))

        def forward(self, x: Any) -> Any:
            scaled = {k: v * self.gain for k, v in self.part.named_parameters()}
            return torch.func.functional_call(self.part, scaled, (x,))

    return trained(Model())


@program
def gradient_in_forward() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.energy, self.head = nn.Linear(16, 1), nn.Linear(16, 4)

        def forward(self, x: Any) -> Any:
            return self.head(torch.func.vmap(torch.func.grad(lambda r: self.energy(r).tanh().sum()))(x))

    return trained(Model())


@program
def gradient_penalty() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.Linear(16, 16), nn.Linear(16, 4)

        def forward(self, x: Any) -> Any:
            x = x.detach().requires_grad_()
            y = self.head(functional.dropout(self.layer(x).tanh(), 0.2))
            (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            return y + slope.square().sum()

    return trained(Model())


@program
def in_place_and_views() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.Linear(16, 16), nn.Linear(16, 4)

        def forward(self, x: Any) -> Any:
            x = self.layer(x)
            x[:, :8].mul_(2)
            x[:, 8:] = x[:, :8].detach().relu_() + x[:, 8:].clone()
            return self.head(functional.relu_(x))

    return trained(Model())


@program
def parameter_written_in_forward() -> Training:
    class Model(nn.Sequential):
        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                self[0].weight.clamp_(-0.1, 0.1)
            return super().forward(x)

    return trained(Model(*two(nn.Linear(16, 16))))


@program
def waves() -> Training:
    class Model(nn.Sequential):
        def forward(self, x: Any) -> Any:
            return self[3](torch.fft.irfft(torch.fft.rfft(self[0](x)) * 0.5, 16).abs())

    return trained(Model(*two(nn.Linear(16, 16))))


@program
def detached_teacher() -> Training:
    model = two(nn.Linear(16, 16))
    teacher = two(nn.Linear(16, 16)).eval()

    def loss(output: Any, target: Any) -> Any:
        with torch.no_grad():
            soft = teacher(torch.ones(1, 16)).softmax(-1)
        return functional.cross_entropy(output, target) + functional.kl_div(
            output.log_softmax(-1), soft.expand_as(output), reduction="batchmean"
        )

    return trained(model, loss=loss)


@program
def weights_of_the_loss_replaced() -> Training:
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def prepare(step: int) -> None:
        if step == 4:
            loss.weight = torch.ones(4)

    return trained(two(nn.Linear(16, 16)), loss=loss, prepare=prepare)


@program
def weights_of_the_loss_changed_in_place() -> Training:
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    return trained(two(nn.Linear(16, 16)), loss=loss, prepare=lambda k: loss.weight.fill_(1.0 + k))


@program
def a_tensor_of_the_enclosing_function() -> Training:
    mask = torch.ones(16)

    class Model(nn.Sequential):
        def forward(self, x: Any) -> Any:
            return self[3](self[0](x) * mask)

    return trained(Model(*two(nn.Linear(16, 16))), prepare=lambda k: mask[k].zero_())
