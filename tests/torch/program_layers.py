"""Instructions of random programs: layers, and what a program does besides operators."""

from __future__ import annotations

import copy
import io
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.torch.program_run import SHAPES, fit
from tests.torch.training import bits

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.torch.program_run import Run

__all__ = ["STATEMENTS"]

INPUTS: Final[dict[str, tuple[int, ...]]] = {
    "linear": (6, 8),
    "conv": (2, 4, 6, 6),
    "transposed": (2, 4, 6, 6),
    "batch_norm": (2, 4, 6, 6),
    "batch_norm_1d": (6, 8),
    "average_norm": (6, 8),
    "instance_norm": (2, 4, 6, 6),
    "layer_norm": (4, 6, 8),
    "group_norm": (2, 4, 6, 6),
    "prelu": (2, 4, 6),
    "lstm": (2, 4, 8),
    "gru": (2, 4, 8),
    "lstm_cell": (4, 8),
    "encoder": (2, 6, 8),
    "dropout": (6, 8),
    "alpha_dropout": (6, 8),
    "channel_dropout": (2, 4, 6, 6),
    "rrelu": (6, 8),
}


class _Doubled(torch.autograd.Function):
    """A function whose backward pass reads what it has saved, its input and its result."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        made = x * x.tanh()
        ctx.save_for_backward(x, made)
        ctx.extra = made.sum()
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        x, made = ctx.saved_tensors
        return gradient * (x.tanh() + made.cos() + 0.001 * ctx.extra)


class _Changed(torch.autograd.Function):
    """A function that writes into its input."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        del ctx
        return gradient * 2


def _tensors(made: Any) -> list[Any]:
    """The tensors of what a layer has returned."""
    return (
        [made] if isinstance(made, torch.Tensor) else [t for part in made if part is not None for t in _tensors(part)]
    )


def _layer(run: Run, random: Random) -> None:
    name = random.choice(list(INPUTS))
    run.push(random, *_tensors(run.layers[name](run.picked(random, INPUTS[name]))))


def _block(run: Run, random: Random) -> None:
    """Convolution, normalisation and an activation in its memory, with what came in added, as in ResNet."""
    x = run.picked(random, INPUTS["conv"])
    y = functional.relu(run.layers["batch_norm"](run.layers["conv"](x)), inplace=True)
    run.push(random, functional.relu(run.layers["batch_norm"](run.layers["conv"](y)).add_(x), inplace=True))


def _attention(run: Run, random: Random) -> None:
    x = run.picked(random, (2, 6, 8))
    run.push(random, *_tensors(run.layers["attention"](x, x, x, need_weights=random.random() < 0.5)))


def _words(run: Run, random: Random) -> None:
    words = torch.tensor([[random.randrange(16) for _ in range(6)] for _ in range(3)])
    run.push(random, run.layers[random.choice(["embedding", "bag"])](words))


def _loss(run: Run, random: Random) -> None:
    x = run.picked(random, (6, 8))
    target = torch.tensor([random.randrange(8) for _ in range(6)])
    kind = random.choice([functional.cross_entropy, lambda a, _: functional.mse_loss(a, a.detach().flip(0))])
    run.push(random, kind(x, target))


def _checkpointed(run: Run, random: Random) -> None:
    names = random.sample(["linear", "layer_norm", "batch_norm_1d", "dropout", "rrelu"], 3)

    def part(x: Any) -> Any:
        for name in names:
            x = run.layers[name](x).tanh()
        return x

    run.push(random, checkpoint(part, run.picked(random, (6, 8)), use_reentrant=random.random() < 0.3))


def _mixed(run: Run, random: Random) -> None:
    """A part in bfloat16."""
    with torch.autocast("cpu", torch.bfloat16):
        x = run.layers["linear"](run.picked(random, (6, 8)))
        run.push(random, run.layers["conv"](fit(x, INPUTS["conv"])).float() + 1, (x @ x.t()).float())


def _function(run: Run, random: Random) -> None:
    x = run.pick(random)
    run.push(random, _Doubled.apply(x) if random.random() < 0.7 else _Changed.apply(x + 1))


def _hook(run: Run, random: Random) -> None:
    """A hook that changes a gradient, and keeps it."""
    x = run.pick(random) * 1.5
    if x.requires_grad:

        def keep(gradient: Any) -> Any:
            run.kept.append(gradient.detach())
            return gradient * 0.5

        x.register_hook(keep)
    run.push(random, x)


def _gradient(run: Run, random: Random) -> None:
    """A gradient that is itself differentiated."""
    x = run.picked(random, (6, 8)).detach().requires_grad_()
    y = run.layers["linear"](x).tanh().square().sum() + (run.picked(random, (6, 8)) * x.sin()).sum()
    (made,) = torch.autograd.grad(y, x, create_graph=random.random() < 0.7)
    run.push(random, made)


def _leaf(run: Run, random: Random) -> None:
    run.push(random, run.pick(random).detach().clone().requires_grad_())


def _constant(run: Run, random: Random) -> None:
    """A buffer is read, changed, and read again."""
    k = random.randrange(len(run.buffers))
    before = run.picked(random, (6, 8)).tanh() * run.buffers[k]
    run.push(random, before.detach().exp() if random.random() < 0.5 else before.clone())
    with torch.no_grad():
        run.buffers[k].mul_(0.9).add_(before.mean())
        if random.random() < 0.3:
            run.buffers[k][:3] = run.picked(random, (3, 8))
    run.push(random, run.buffers[k] + before.detach(), before.detach())


def _parameter(run: Run, random: Random) -> None:
    """A parameter is changed between passes; a graph that has saved it refuses then."""
    weight = run.layers["prelu"].weight
    with torch.no_grad():
        weight.mul_(0.99)
    run.push(random, run.layers["prelu"](run.picked(random, INPUTS["prelu"])))


def _look(run: Run, random: Random) -> None:
    """The program reads numbers, and goes on as they are."""
    x = run.pick(random)
    kind = random.randrange(6)
    if kind == 0:
        run.seen.append(repr(x.sum().item()))
    elif kind == 1:
        run.seen.append(repr(x.tolist()))
    elif kind == 2:
        run.seen += bits([x])
    elif kind == 3:
        run.seen.append(bool(torch.equal(x, x.clone())))
    elif kind == 4 and x.sum() > 0:
        run.push(random, x * 2)
    elif kind == 5:
        run.seen.append(str(x))


def _array(run: Run, random: Random) -> None:
    """An array of NumPy that has a tensor's memory, and writes into it."""
    x = run.picked(random, (6, 8)).detach() + 1
    array = x.numpy()
    run.kept.append(array)
    run.push(random, x * 2)
    array[0] += 1
    run.push(random, x, x * 3)


def _from_array(run: Run, random: Random) -> None:
    """A tensor that has an array's memory."""
    run.push(random, torch.from_numpy(run.picked(random, (6, 8)).detach().numpy().copy()) * 2)


def _saved(run: Run, random: Random) -> None:
    file = io.BytesIO()
    torch.save([run.pick(random).detach(), run.layers["linear"].state_dict()], file)
    file.seek(0)
    run.push(random, torch.load(file)[0])


def _copied(run: Run, random: Random) -> None:
    run.push(random, copy.deepcopy(run.pick(random).detach()))


def _exchanged(run: Run, random: Random) -> None:
    """A tensor gets other memory, or another size of it."""
    x = run.picked(random, (6, 8)).detach() + 1
    kind = random.randrange(4)
    if kind == 0:
        x.data = run.picked(random, (4, 8)).detach() * 2
    elif kind == 1:
        x.set_(run.picked(random, (4, 8)).detach() * 2)
    elif kind == 2:
        x.resize_(3, 8)
    else:
        x.resize_(8, 8)[6:] = 0.5
    run.push(random, x)


def _keep(run: Run, random: Random) -> None:
    run.kept.append(run.pick(random, is_floating=False).detach())
    del run.kept[:-6]


def _drop(run: Run, random: Random) -> None:
    for _ in range(random.randint(1, 4)):
        if len(run.tensors) > 4:
            del run.tensors[random.randrange(len(run.tensors))]


def _random_state(run: Run, random: Random) -> None:
    """The same random numbers twice."""
    state = torch.get_rng_state()
    first = torch.randn(random.choice(SHAPES)) * 0.1
    torch.set_rng_state(state)
    run.push(random, first, torch.randn(6, 8) + run.picked(random, (6, 8)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(random.randrange(99))
        run.push(random, functional.dropout(run.pick(random), 0.5))


def _evaluation(run: Run, random: Random) -> None:
    with torch.no_grad() if random.random() < 0.5 else torch.inference_mode():
        run.layers.eval()
        x = run.layers["batch_norm_1d"](run.layers["dropout"](run.picked(random, (6, 8))))
        run.layers.train()
        run.seen.append(repr(x.mean().item()))


STATEMENTS: Final[dict[str, tuple[Callable[[Run, Random], None], float]]] = {
    "layer": (_layer, 8),
    "block": (_block, 3),
    "attention": (_attention, 1),
    "words": (_words, 1),
    "loss": (_loss, 1),
    "checkpointed": (_checkpointed, 1),
    "mixed": (_mixed, 1),
    "function": (_function, 1),
    "hook": (_hook, 0.5),
    "gradient": (_gradient, 0.7),
    "leaf": (_leaf, 1),
    "constant": (_constant, 1.5),
    "parameter": (_parameter, 0.1),
    "look": (_look, 2),
    "array": (_array, 0.5),
    "from_array": (_from_array, 0.3),
    "saved": (_saved, 0.3),
    "copied": (_copied, 0.3),
    "exchanged": (_exchanged, 0.5),
    "keep": (_keep, 1),
    "drop": (_drop, 2),
    "random_state": (_random_state, 0.5),
    "evaluation": (_evaluation, 0.5),
}
