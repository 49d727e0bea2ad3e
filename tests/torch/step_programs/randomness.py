"""Generators, their states and seeds, and operators that draw numbers."""

from __future__ import annotations

import random as python_random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.torch.step_programs.registry import Training, classes, images, program, words

if TYPE_CHECKING:
    from collections.abc import Callable


class Body(nn.Module):
    """A layer, what the program does with its output, and a head."""

    def __init__(self, act: Callable[[Any], Any]) -> None:
        super().__init__()
        self.layer, self.head, self.act = nn.Linear(16, 16), nn.Linear(16, 4), act

    def forward(self, x: Any) -> Any:
        return self.head(self.act(self.layer(x)))


def with_body(act: Callable[[Any], Any], **options: Any) -> Training:
    model = Body(act)
    return Training(model, torch.optim.SGD(model.parameters(), 0.05), **options)


def drop(x: Any, p: float = 0.5) -> Any:
    return functional.dropout(x, p)


@program
def dropout_alone() -> Training:
    return with_body(drop)


@program
def forked() -> Training:
    def act(x: Any) -> Any:
        with torch.random.fork_rng():
            x = drop(x)
        return drop(x)

    return with_body(act)


@program
def forked_without_devices() -> Training:
    def act(x: Any) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(4)
            x = x + torch.randn(16)
        return drop(x)

    return with_body(act)


@program
def state_taken_and_set() -> Training:
    def act(x: Any) -> Any:
        state = torch.get_rng_state()
        x = drop(x)
        torch.set_rng_state(state)
        return drop(x)

    return with_body(act)


@program
def state_taken_alone() -> Training:
    return with_body(lambda x: drop(x) + torch.get_rng_state().float().mean())


@program
def seeded() -> Training:
    def act(x: Any) -> Any:
        torch.manual_seed(3)
        return drop(x)

    return with_body(act)


@program
def seeded_again_between() -> Training:
    def act(x: Any) -> Any:
        x = drop(x)
        torch.random.manual_seed(3)
        return drop(x)

    return with_body(act)


@program
def seeded_and_never_drawn() -> Training:
    def act(x: Any) -> Any:
        torch.manual_seed(3)
        return x.tanh()

    return with_body(act)


@program
def default_generator_seeded() -> Training:
    def act(x: Any) -> Any:
        torch.default_generator.manual_seed(8)
        return drop(x)

    return with_body(act)


@program
def initial_seed_as_a_number() -> Training:
    return with_body(lambda x: x * (torch.initial_seed() % 7))


@program
def default_generator_named() -> Training:
    return with_body(lambda x: x * torch.rand(16, generator=torch.default_generator))


@program
def local_generator() -> Training:
    def act(x: Any) -> Any:
        generator = torch.Generator().manual_seed(3)
        return x * torch.rand(16, generator=generator)

    return with_body(act)


@program
def local_generator_never_seeded() -> Training:
    def act(x: Any) -> Any:
        generator = torch.Generator()
        return x * torch.rand(16, generator=generator) + torch.randn(16, generator=generator)

    return with_body(act)


@program
def local_generator_with_the_state_of_another() -> Training:
    def act(x: Any) -> Any:
        generator = torch.Generator()
        generator.set_state(torch.get_rng_state())
        return drop(x * torch.rand(16, generator=generator))

    return with_body(act)


@program
def global_generator() -> Training:
    generator = torch.Generator().manual_seed(5)
    return with_body(lambda x: x * torch.rand(16, generator=generator), generators=(generator,))


@program
def a_generator_of_each_module() -> Training:
    class Noise(nn.Module):
        def __init__(self, seed: int) -> None:
            super().__init__()
            self.generator = torch.Generator().manual_seed(seed)

        def forward(self, x: Any) -> Any:
            return x + torch.empty_like(x).normal_(0, 0.3, generator=self.generator)

    parts = [Noise(1), Noise(2)]
    model = nn.Sequential(nn.Linear(16, 16), parts[0], nn.Linear(16, 4), parts[1])
    optimizer = torch.optim.AdamW(model.parameters())
    return Training(model, optimizer, generators=tuple(p.generator for p in parts))


@program
def a_generator_seeded_in_forward() -> Training:
    generator = torch.Generator()

    def act(x: Any) -> Any:
        generator.manual_seed(7)
        return x * torch.bernoulli(torch.full((8, 16), 0.5), generator=generator)

    return with_body(act, generators=(generator,))


@program
def a_generator_seeded_before_each_step() -> Training:
    generator = torch.Generator()
    act = lambda x: x * torch.rand(16, generator=generator)  # noqa: E731
    return with_body(act, generators=(generator,), prepare=generator.manual_seed)


@program
def a_generator_cloned_in_forward() -> Training:
    generator = torch.Generator().manual_seed(2)

    def act(x: Any) -> Any:
        twin = generator.clone_state()
        return x * torch.rand(16, generator=twin) + torch.rand(16, generator=generator)

    return with_body(act, generators=(generator,))


@program
def a_generator_of_the_loss() -> Training:
    generator = torch.Generator().manual_seed(6)

    def loss(output: Any, target: Any) -> Any:
        return functional.cross_entropy(output + torch.randn(output.shape, generator=generator), target)

    return with_body(torch.tanh, loss=loss, generators=(generator,))


@program
def seeds_between_steps() -> Training:
    return with_body(drop, prepare=lambda k: torch.manual_seed(100 - k))


@program
def kinds_of_dropout() -> Training:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.Dropout2d(0.3),
        nn.Conv2d(8, 8, 3),
        nn.FeatureAlphaDropout(0.2),
        nn.Flatten(),
        nn.AlphaDropout(0.2),
        nn.Linear(128, 16),
        nn.Dropout(0.3, inplace=True),
        nn.Linear(16, 4),
    )
    return Training(model, torch.optim.Adam(model.parameters()), batch=images)


@program
def randomized_relu() -> Training:
    model = nn.Sequential(nn.Linear(16, 16), nn.RReLU(), nn.Linear(16, 4), nn.RReLU(0.2, 0.4))
    return Training(model, torch.optim.SGD(model.parameters(), 0.05))


@program
def gumbel_softmax() -> Training:
    return with_body(lambda x: functional.gumbel_softmax(x, tau=0.7) + functional.gumbel_softmax(x, hard=True))


@program
def distributions() -> Training:
    def act(x: Any) -> Any:
        chosen = torch.multinomial(x.detach().softmax(-1), 4)
        x = x + torch.bernoulli(x.sigmoid().detach()) + torch.poisson(x.detach().exp().clamp(max=9))
        return x[:, torch.randperm(16)] * torch.randint(1, 3, (16,)) + chosen.sum()

    return with_body(act)


@program
def sampled_with_gradients() -> Training:
    def act(x: Any) -> Any:
        made = torch.distributions.Normal(x, functional.softplus(x) + 0.1, validate_args=False).rsample()
        return made + torch.distributions.Gamma(functional.softplus(x) + 0.5, 1.0, validate_args=False).rsample()

    return with_body(act)


@program
def recurrent_dropout() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.lstm = nn.Embedding(12, 8), nn.LSTM(8, 8, 2, dropout=0.4, batch_first=True)
            self.gru, self.head = nn.GRU(8, 8, 2, dropout=0.2, batch_first=True), nn.Linear(8, 4)

        def forward(self, x: Any) -> Any:
            return self.head(self.gru(self.lstm(self.words(x))[0])[0][:, -1])

    model = Model()
    return Training(model, torch.optim.SGD(model.parameters(), 0.1), batch=words)


@program
def attention_dropout() -> Training:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.attend = nn.Embedding(12, 16), nn.MultiheadAttention(16, 2, dropout=0.3, batch_first=True)
            self.head = nn.Linear(16, 4)

        def forward(self, x: Any) -> Any:
            x = self.words(x)
            y = self.attend(x, x, x, need_weights=False)[0]
            q = y.unsqueeze(1)
            return self.head((y + functional.scaled_dot_product_attention(q, q, q, dropout_p=0.2)[:, 0]).mean(1))

    model = Model()
    return Training(model, torch.optim.AdamW(model.parameters()), batch=words)


@program
def stochastic_depth_of_tensors() -> Training:
    def act(x: Any) -> Any:
        kept = torch.empty(len(x), 1).bernoulli_(0.8).div_(0.8)
        return x + kept * x.tanh()

    return with_body(act)


@program
def stochastic_depth_of_numbers() -> Training:
    return with_body(lambda x: x.tanh() if torch.rand(1).item() < 0.5 else x)


@program
def stochastic_depth_of_python() -> Training:
    return with_body(lambda x: x.tanh() if python_random.random() < 0.5 else x)


@program
def noise_of_numpy() -> Training:
    return with_body(lambda x: x + torch.from_numpy(np.random.randn(16).astype("f")))  # noqa: NPY002 - the global one


@program
def noise_of_a_generator_of_numpy() -> Training:
    generator = np.random.default_rng(3)
    return with_body(lambda x: x * float(generator.random()))


@program
def a_function_that_draws() -> Training:
    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            noise = torch.rand_like(x)
            ctx.save_for_backward(noise)
            return x * noise

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0] + torch.randn_like(grad) * 0.1

    return with_body(lambda x: drop(Noisy.apply(x), 0.2))


@program
def a_function_that_seeds_in_backward() -> Training:
    class Seeding(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            del ctx
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            del ctx
            torch.manual_seed(3)
            return grad * torch.rand_like(grad)

    return with_body(lambda x: Seeding.apply(drop(x)))


@program
def randomness_of_vmap() -> Training:
    def act(x: Any) -> Any:
        return torch.func.vmap(drop, randomness="different")(x) + torch.func.vmap(drop, randomness="same")(x)

    return with_body(act)


@program
def drawn_and_not_used() -> Training:
    def act(x: Any) -> Any:
        torch.rand(3)
        return drop(x)

    return with_body(act)


@program
def random_init_in_forward() -> Training:
    def act(x: Any) -> Any:
        fresh = nn.init.kaiming_uniform_(torch.empty(16, 16))
        return x @ fresh + nn.init.trunc_normal_(torch.empty(16))

    return with_body(act, batch=classes)
