"""Random operators of every signature, generators and their states."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tests.torch.remat_programs.parts import mlp, pair, train
from tests.torch.remat_programs.registry import Keep, program

SHAPE = (128, 64)


def _mixed(values: list[Any]) -> list[Any]:
    """Two rounds over all values, so that the early ones are needed late."""
    first = [(v.float() * (k + 1)).sin() for k, v in enumerate(values)]
    return [a + b.float() for a, b in zip(first, reversed(values), strict=True)]


@program
def dropouts(keep: Keep) -> Any:
    """All kinds of dropout, in place too, in a network that is trained."""
    parts = [nn.Linear(64, 64), nn.Dropout(0.3), nn.Linear(64, 64), nn.AlphaDropout(0.2), nn.Linear(64, 64)]
    model = nn.Sequential(*parts, nn.Dropout(0.5, inplace=True), nn.Linear(64, 64), nn.FeatureAlphaDropout(0.1))
    batch, target = pair()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    keep(model=model, optimizer=optimizer)
    with keep.context():
        losses = train(model, optimizer, batch, target)
        features = functional.dropout2d(batch.view(8, 16, 8, 8), 0.4) * functional.dropout1d(
            batch.view(8, 16, 64), 0.4
        ).view(8, 16, 8, 8)
    return losses, features


@program
def bernoulli(keep: Keep) -> Any:
    """bernoulli with a tensor of probabilities, a number, in place with both, and out=."""
    p = torch.rand(SHAPE)
    with keep.context():
        made = [torch.bernoulli(p), torch.bernoulli(p, 0.3), p.bernoulli(), p.bernoulli(0.7)]
        made += [torch.empty(SHAPE).bernoulli_(p), torch.empty(SHAPE).bernoulli_(0.4), torch.empty(SHAPE).bernoulli_()]
        made.append(torch.bernoulli(p * 0.5, out=torch.empty(0)))
        made.append(torch.empty(SHAPE, dtype=torch.bool).bernoulli_(0.5))
        return made, _mixed(made)


@program
def normals(keep: Keep) -> Any:
    """normal with tensors and numbers in all places, randn, normal_, log_normal_, out=."""
    mean, std = torch.randn(SHAPE), torch.rand(SHAPE)
    with keep.context():
        made = [torch.normal(mean, std), torch.normal(mean, 0.5), torch.normal(0.1, std), torch.normal(0.0, 1.0, SHAPE)]
        made += [torch.randn(SHAPE), torch.empty(SHAPE).normal_(1, 2), torch.empty(SHAPE).log_normal_(0, 0.5)]
        made += [torch.normal(mean, std, out=torch.empty(0)), torch.randn_like(mean), torch.randn(SHAPE, out=mean * 0)]
        return made, _mixed(made)


@program
def in_place_distributions(keep: Keep) -> Any:
    """exponential_, geometric_, cauchy_, uniform_, random_ with all ranges."""
    with keep.context():
        new = lambda: torch.empty(SHAPE)  # noqa: E731
        made = [new().exponential_(), new().exponential_(2.0), new().geometric_(0.3), new().cauchy_(), new().uniform_()]
        made += [new().cauchy_(1, 2).clamp_(-9, 9), new().uniform_(-1, 1), new().random_(), new().random_(50)]
        made += [new().random_(5, 20), torch.empty(SHAPE, dtype=torch.int64).random_(100)]
        return made, _mixed(made)


@program
def integers(keep: Keep) -> Any:
    """randint, randint_like, randperm, multinomial with and without replacement."""
    weights = torch.rand(256, 64)
    with keep.context():
        made = [torch.randint(10, SHAPE), torch.randint(5, 9, SHAPE), torch.randint_like(weights, 7)]
        made += [torch.randint_like(weights, 2, 9), torch.randperm(8192), torch.randperm(4096, dtype=torch.int32)]
        made += [torch.multinomial(weights, 32, replacement=True), weights.multinomial(16)]
        made += [torch.multinomial(weights * 2, 8, False), torch.rand(SHAPE), torch.rand_like(weights)]
        return made, [(v.float() + 1).log() for v in made], [v.sum() for v in reversed(made)]


@program
def poisson_and_binomial(keep: Keep) -> Any:
    """poisson, binomial and gamma samples, also through `torch.distributions`, with gradients."""
    rate = torch.rand(SHAPE) * 5
    p = torch.rand(SHAPE, requires_grad=True)
    keep(p=p)
    with keep.context():
        made = [torch.poisson(rate), torch.binomial(rate.floor(), p.detach()), torch.poisson(rate * 0.5)]
        gamma = torch.distributions.Gamma(p + 1, torch.ones(SHAPE), validate_args=False).rsample()
        normal = torch.distributions.Normal(p, p + 0.1, validate_args=False).rsample()
        beta = torch.distributions.Beta(p + 1, p + 2, validate_args=False).rsample()
        made += [gamma, normal, beta]
        (gamma * normal * beta).sum().backward()
        return made, _mixed([m.detach() for m in made])


@program
def noisy_activations(keep: Keep) -> Any:
    """rrelu, gumbel_softmax and dropout by function, in place and not, with gradients."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = functional.rrelu(model[0](batch), training=True)
        b = functional.gumbel_softmax(model[3](a), hard=True)
        c = functional.gumbel_softmax(model[6](b + a), tau=0.5)
        d = functional.rrelu_(c + c.roll(1, 0) - 0.1, training=True)
        e = functional.dropout(d * 1, 0.3, inplace=True)
        functional.mse_loss(e, target).backward()
    return a, b, c, d, e


@program
def generator_by_keyword(keep: Keep) -> Any:
    """Operators take a generator of the user by keyword; it is used in turns with the default one."""
    g = torch.Generator().manual_seed(5)
    p = torch.rand(SHAPE)
    with keep.context():
        made = [torch.randn(SHAPE, generator=g), torch.rand(SHAPE), torch.bernoulli(p, generator=g)]
        made += [torch.empty(SHAPE).normal_(generator=g), torch.empty(SHAPE).uniform_(0, 1, generator=g)]
        made += [torch.randint(9, SHAPE, generator=g), torch.randperm(8192, generator=g).view(SHAPE)]
        made += [torch.empty(SHAPE).exponential_(1, generator=g), torch.poisson(p, generator=g)]
        made += [torch.multinomial(p, 64, True, generator=g), torch.normal(p, p, generator=g), torch.randn(SHAPE)]
        made += [torch.binomial(p, p, generator=g), torch.empty(SHAPE).random_(0, 9, generator=g)]
        return made, _mixed(made), g.get_state()


@program
def generator_by_position(keep: Keep) -> Any:
    """Operators of `torch.ops.aten` take a generator by position, wherever their schema has it."""
    g = torch.Generator().manual_seed(5)
    aten = torch.ops.aten
    p = torch.rand(SHAPE)
    with keep.context():
        made = [aten.poisson(p * 3, g), aten.binomial(p.round() * 9, p, g), aten._standard_gamma(p + 1, g)]
        made += [
            aten.rrelu(p - 0.5, 0.1, 0.4, True, g),
            aten.rrelu_with_noise(p - 0.5, torch.empty_like(p), 0.1, 0.4, True, g),
        ]
        made += [aten._sample_dirichlet(p + 0.1, g), aten.poisson(p, None), aten.poisson(p)]
        return made, _mixed(made), g.get_state()


@program
def several_generators(keep: Keep) -> Any:
    """Generators are cloned, seeded again, and set to states that were read before."""
    g = torch.Generator().manual_seed(1)
    h = torch.Generator().manual_seed(2)
    with keep.context():
        made = [torch.randn(SHAPE, generator=g), torch.randn(SHAPE, generator=h)]
        state = g.get_state()
        made.append(torch.rand(SHAPE, generator=g))
        h.set_state(state)
        made += [torch.rand(SHAPE, generator=h), torch.rand(SHAPE, generator=g)]
        g.manual_seed(7)
        made += [torch.rand(SHAPE, generator=g), torch.rand(SHAPE, generator=g.clone_state())]
        made += [torch.rand(SHAPE, generator=g), torch.rand(SHAPE, generator=h)]
        return made, _mixed(made), g.get_state(), h.get_state()


@program
def seeded_in_the_middle(keep: Keep) -> Any:
    """The default generator is seeded, saved, restored and forked in the middle of a step."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = functional.dropout(model[0](batch), 0.3)
        torch.manual_seed(3)
        b = functional.dropout(model[3](a), 0.3)
        state = torch.get_rng_state()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(9)
            c = functional.dropout(model[6](b), 0.3)
        d = functional.dropout(c, 0.2)
        torch.set_rng_state(state)
        e = functional.dropout(c, 0.2)
        torch.seed()
        torch.default_generator.manual_seed(4)
        functional.mse_loss(d + e + torch.rand_like(e), target).backward()
    return a, b, c, d, e, state


@program
def noise_added_in_place(keep: Keep) -> Any:
    """Noise is written into activations that exist, and into views of them."""
    x, w = torch.randn(SHAPE), torch.randn(64, 64)
    with keep.context():
        a = x @ w
        kept = []
        for k in range(5):
            a[k::5].normal_()
            kept.append(a.tanh())
            a.t()[k].uniform_()
            kept.append(a * a)
        b = a.clone().bernoulli_(a.sigmoid())
    return a, b, kept


@program
def same_state_twice(keep: Keep) -> Any:
    """A mask is drawn twice from the same state, as reversible layers do, and must agree."""
    x = torch.randn(SHAPE)
    with keep.context():
        state = torch.get_rng_state()
        a = functional.dropout(x, 0.5)
        b = [(a + k).cos() for k in range(5)]
        after = torch.get_rng_state()
        torch.set_rng_state(state)
        again = functional.dropout(x, 0.5)
        torch.set_rng_state(after)
        c = torch.randn(SHAPE)
        said = [torch.equal(a, again), torch.allclose(b[0], b[1])]
    return a, again, b, c, said


@program
def random_by_numpy_and_python(keep: Keep) -> Any:
    """Random numbers of NumPy and of Python steer the step."""
    import random

    import numpy as np

    x, w = torch.randn(SHAPE), torch.randn(64, 64)
    with keep.context():
        a = [x]
        for _ in range(6):
            noise = torch.from_numpy(np.random.randn(*SHAPE).astype(np.float32))  # noqa: NPY002
            a.append((a[random.randrange(len(a))] @ w).tanh() + noise)
        b = a[-1] * a[1] + a[2]
    return a, b


@program
def initialised_inside(keep: Keep) -> Any:
    """The model, its initialisation and its data are made inside the context."""
    with keep.context():
        model = mlp()
        for p in model.parameters():
            if p.dim() == 2:
                nn.init.orthogonal_(p)
        nn.init.kaiming_normal_(model[0].weight)
        nn.init.trunc_normal_(model[3].weight, std=0.1)
        batch, target = pair()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        keep(model=model, optimizer=optimizer)
        return train(model, optimizer, batch, target)
