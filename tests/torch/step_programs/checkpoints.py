"""Layers that torch.utils.checkpoint runs again in the backward pass."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)

from tests.torch.step_programs.registry import Training, images, program, words


def sgd(model: Any, **options: Any) -> Any:
    return torch.optim.SGD(model.parameters(), 0.05, **options)


class Checkpointed(nn.Module):
    """Two blocks, each under checkpoint, and a head."""

    def __init__(self, p: float = 0.5, **options: Any) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.Dropout(p), nn.Tanh()) for _ in range(2))
        self.head, self.options = nn.Linear(16, 4), {"use_reentrant": False, **options}

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = checkpoint(block, x, **self.options)
        return self.head(x)


def trained(model: Any, **options: Any) -> Training:
    return Training(model, sgd(model), **options)


@program
def without_dropout() -> Training:
    return trained(Checkpointed(0.0))


@program
def reentrant_without_dropout() -> Training:
    class Model(Checkpointed):
        def forward(self, x: Any) -> Any:
            return super().forward(x * self.head.weight.sum())  # an input that requires a gradient

    return trained(Model(0.0, use_reentrant=True))


@program
def dropout() -> Training:
    return trained(Checkpointed())


@program
def dropout_gradients_alone() -> Training:
    model = Checkpointed()
    optimizer = torch.optim.RMSprop(model.parameters())

    def finish(_: int) -> None:
        optimizer.step()
        optimizer.zero_grad()

    return Training(model, finish=finish)


@program
def reentrant_dropout() -> Training:
    class Model(Checkpointed):
        def forward(self, x: Any) -> Any:
            return super().forward(x * self.head.weight.sum())

    return trained(Model(use_reentrant=True))


@program
def random_state_not_kept() -> Training:
    return trained(Checkpointed(preserve_rng_state=False))


@program
def determinism_not_checked() -> Training:
    return trained(Checkpointed(determinism_check="none"))


@program
def no_early_stop() -> Training:
    model = Checkpointed()
    return Training(model, sgd(model), around=partial(set_checkpoint_early_stop, enable=False))


@program
def dropout_between_and_after() -> Training:
    class Model(Checkpointed):
        def forward(self, x: Any) -> Any:
            x = nn.functional.dropout(x, 0.2)
            x = checkpoint(self.blocks[0], x, use_reentrant=False)
            x = nn.functional.dropout(x, 0.2)
            return self.head(nn.functional.dropout(checkpoint(self.blocks[1], x, use_reentrant=False), 0.2))

    return trained(Model())


@program
def nested() -> Training:
    class Model(Checkpointed):
        def inner(self, x: Any) -> Any:
            return checkpoint(self.blocks[1], checkpoint(self.blocks[0], x, use_reentrant=False), use_reentrant=False)

        def forward(self, x: Any) -> Any:
            return self.head(checkpoint(self.inner, x, use_reentrant=False))

    return trained(Model())


@program
def sequential() -> Training:
    class Model(Checkpointed):
        def forward(self, x: Any) -> Any:
            return self.head(checkpoint_sequential(list(self.blocks), 2, x, use_reentrant=False))

    return trained(Model())


@program
def selective() -> Training:
    def policy(_: Any, op: Any, *args: Any, **options: Any) -> Any:
        del args, options
        saved = op in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    return trained(Checkpointed(context_fn=partial(create_selective_checkpoint_contexts, policy)))


@program
def selective_without_dropout() -> Training:
    ops = [torch.ops.aten.addmm.default]
    return trained(Checkpointed(0.0, context_fn=partial(create_selective_checkpoint_contexts, ops)))


@program
def one_layer_twice() -> Training:
    class Model(Checkpointed):
        def forward(self, x: Any) -> Any:
            for _ in range(3):
                x = checkpoint(self.blocks[0], x, use_reentrant=False)
            return self.head(x)

    return trained(Model())


@program
def batch_norm() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.Dropout2d(0.3))
            self.head = nn.Linear(216, 4)

        def forward(self, x: Any) -> Any:
            return self.head(checkpoint(self.body, x, use_reentrant=False).flatten(1))

    return trained(Model(), batch=images)


@program
def noise_of_its_own_generator() -> Training:
    generator = torch.Generator().manual_seed(5)

    class Model(Checkpointed):
        def noisy(self, x: Any) -> Any:
            return self.blocks[0][0](x) * torch.rand(x.shape, generator=generator)

        def forward(self, x: Any) -> Any:
            return self.head(checkpoint(self.noisy, x, use_reentrant=False))

    return trained(Model(), generators=(generator,))


@program
def transformer() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(12, 16), nn.Linear(16, 4)
            self.layers = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 32, 0.2, batch_first=True) for _ in range(2))

        def forward(self, x: Any) -> Any:
            x = self.words(x)
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False)
            return self.head(x.mean(1))

    return trained(Model(), batch=words)


@program
def saved_tensors_on_cpu() -> Training:
    class Model(Checkpointed):
        def forward(self, x: Any) -> Any:
            with torch.autograd.graph.save_on_cpu():
                return self.head(self.blocks[0](x))

    return trained(Model())


@program
def saved_tensors_packed() -> Training:
    class Model(Checkpointed):
        def forward(self, x: Any) -> Any:
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
                return self.head(self.blocks[0][0](x).tanh())

    return trained(Model())


@program
def fork_in_a_checkpoint() -> Training:
    class Model(Checkpointed):
        def forked(self, x: Any) -> Any:
            with torch.random.fork_rng():
                torch.manual_seed(11)
                return self.blocks[0](x)

        def forward(self, x: Any) -> Any:
            return self.head(checkpoint(self.forked, x, use_reentrant=False))

    return trained(Model())


@program
def a_checkpointed_loss() -> Training:
    def loss(output: Any, target: Any) -> Any:
        part = partial(nn.functional.cross_entropy, target=target)
        return checkpoint(lambda o: part(nn.functional.dropout(o, 0.3)), output, use_reentrant=False)

    return trained(Checkpointed(0.0), loss=loss)
