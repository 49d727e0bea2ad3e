"""Instructions of random programs: operators that make tensors, or write into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn import functional

from tests.torch.program_run import SHAPES, fit

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.torch.program_run import Run

__all__ = ["OPERATORS"]

_UNARY: Final[tuple[Callable[[Any], Any], ...]] = (
    torch.relu,
    torch.tanh,
    torch.sigmoid,
    torch.sin,
    torch.neg,
    torch.abs,
    lambda x: torch.exp(torch.tanh(x)),
    lambda x: torch.log1p(x.abs()),
    lambda x: x.softmax(-1),
    lambda x: x.log_softmax(0),
    lambda x: x.clamp(-1, 1),
    lambda x: x.cumsum(-1).tanh(),
    lambda x: x.flip(0),
    lambda x: x.roll(1, -1),
    lambda x: x.contiguous(),
    lambda x: x.clone(),
    lambda x: x.double().tanh().float(),
    lambda x: x.bfloat16().float(),
    functional.gelu,
    functional.silu,
    functional.softplus,
    functional.leaky_relu,
    functional.hardswish,
    functional.logsigmoid,
)
_VIEWS: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda x: x.reshape(-1),
    lambda x: x.transpose(0, -1),
    lambda x: x[: max(1, len(x) // 2)],
    lambda x: x[..., ::2],
    lambda x: x[1:] if len(x) > 1 else x,
    lambda x: x.unsqueeze(0),
    lambda x: x.squeeze(),
    lambda x: x.unsqueeze(-1).expand(*x.shape, 3),
    lambda x: x.narrow(-1, 0, max(1, x.shape[-1] // 2)),
    lambda x: x.select(0, 0) if x.dim() > 1 else x,
    lambda x: x.unfold(-1, 2, 1) if x.shape[-1] > 1 else x,
    lambda x: x.movedim(-1, 0),
    lambda x: torch.as_strided(x.reshape(-1), (x.numel() // 2 or 1,), (1,), x.reshape(-1).storage_offset()),
    lambda x: x.diagonal(0, 0, -1) if x.dim() > 1 else x,
    lambda x: x.view(torch.int32).view(torch.float32),
    lambda x: x.detach(),
)
_BINARY: Final[tuple[Callable[[Any, Any], Any], ...]] = (
    torch.add,
    torch.sub,
    lambda a, b: a * b.tanh(),
    lambda a, b: a / (1 + b.abs()),
    torch.maximum,
    torch.minimum,
    torch.atan2,
    torch.hypot,
    lambda a, b: torch.where(a > b, a, b.sin()),
    lambda a, b: torch.lerp(a, b, 0.3),
    lambda a, b: torch.addcmul(a, b, b, value=0.01),
    lambda a, b: a.masked_fill(b > 0, 0.5),
    lambda a, b: torch.cat([a, b.expand_as(a)]),
    lambda a, b: torch.stack([a, b.expand_as(a), a])[1:],
)
_REDUCTIONS: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda x: x.sum(0),
    lambda x: x.mean(-1, keepdim=True),
    lambda x: x.amax(-1),
    lambda x: x.std(),
    lambda x: torch.logsumexp(x, -1),
    lambda x: x.norm(),
    lambda x: x.max(0)[0],
    lambda x: x.median(-1)[0],
    lambda x: torch.var_mean(x)[0],
    lambda x: x.prod(-1).tanh(),
)
_IN_PLACE: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda x: x.add_(1),
    lambda x: x.mul_(0.7),
    lambda x: functional.relu(x, inplace=True),
    lambda x: x.tanh_(),
    lambda x: x.clamp_(-2, 2),
    lambda x: x[..., :1].mul_(2),
    lambda x: x.select(0, 0).fill_(0.25),
    lambda x: x.view(-1)[::3].sub_(0.5),
    lambda x: x.masked_fill_(x > 1, 0.125),
    lambda x: x.zero_() if x.numel() < 32 else x.neg_(),
    lambda x: x.t_() if x.dim() == 2 else x.unsqueeze_(0),
    lambda x: x.copy_(x.flip(0)),
    lambda x: x.index_fill_(0, torch.tensor([0]), 0.75),
    lambda x: torch.mul(x.detach(), 0.9, out=x) if not x.requires_grad else x.mul_(0.9),
)
_LINEAR: Final[tuple[Callable[[Any], Any], ...]] = (  # of which no backward pass reads the input
    lambda x: x.add_(1),
    lambda x: x.mul_(0.7),
    lambda x: x[..., :1].mul_(2),
    lambda x: x.select(0, 0).fill_(0.25),
    lambda x: x.view(-1)[::3].sub_(0.5),
    lambda x: functional.dropout(x, 0.1, inplace=True),
)
_INDEXED: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda x: x.sort(-1)[0],
    lambda x: x.topk(min(3, x.shape[-1]), -1)[0],
    lambda x: x.gather(-1, x.argsort(-1)),
    lambda x: x.index_select(0, torch.arange(len(x)).flip(0)),
    lambda x: x[x.reshape(len(x), -1).sum(1) > 0],
    lambda x: x[torch.tensor([0, -1, 0])],
    lambda x: torch.zeros_like(x).scatter_add(-1, x.argsort(-1), x),
    lambda x: x.masked_select(x > 0)[:100],
    lambda x: torch.zeros_like(x).index_put((torch.tensor([0, 0]),), x[:1].expand(2, *x.shape[1:]), accumulate=True),
    lambda x: x.nonzero()[:50].float() + x.mean(),
    lambda x: functional.one_hot(x.argmax(-1) % 5, 5).float() * x.mean(),
    lambda x: x.unique()[:40],
    lambda x: x.kthvalue(1, -1)[0],
)
_RANDOM: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda x: functional.dropout(x, 0.4),
    lambda x: functional.dropout(x.clone(), 0.2, inplace=True),
    lambda x: x + torch.randn_like(x),
    lambda x: x * torch.rand(x.shape),
    lambda x: x * torch.bernoulli(torch.sigmoid(x)),
    lambda x: x[torch.randperm(len(x))],
    lambda x: torch.empty_like(x).normal_(0, 0.1) + x,
    lambda x: x.clone().uniform_() - x,
    lambda x: functional.gumbel_softmax(x, -1),
    lambda x: functional.rrelu(x, training=True),
    lambda x: x.reshape(-1)[torch.multinomial(x.reshape(-1).detach().abs() + 0.1, 3)],
    lambda x: torch.normal(x.detach(), 0.5) * x,
    lambda x: x * torch.randint(0, 2, x.shape),
    lambda x: functional.feature_alpha_dropout(fit(x, (2, 4, 6)), 0.3, training=True),
)
_IMAGES: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda x: functional.max_pool2d(x, 2),
    lambda x: functional.avg_pool2d(x, 2),
    lambda x: functional.adaptive_avg_pool2d(x, 3),
    lambda x: functional.adaptive_max_pool2d(x, 2),
    lambda x: functional.interpolate(x, scale_factor=2, mode="nearest"),
    lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False),
    lambda x: functional.pad(x, (1, 1, 0, 1)),
    lambda x: functional.pad(x, (1, 1, 1, 1), mode="reflect"),
    lambda x: functional.unfold(x, 3),
    lambda x: functional.pixel_shuffle(x, 2),
    lambda x: functional.max_pool2d(x, 2, return_indices=True)[1].float() * x.mean(),
    lambda x: functional.local_response_norm(x, 2),
    lambda x: torch.fft.rfft2(x).abs(),
    lambda x: torch.view_as_real(torch.fft.fft(x)).flatten(-2),
)
_PRODUCTS: Final[tuple[Callable[[Any, Any], Any], ...]] = (
    lambda a, b: (a @ b.t()).tanh(),
    lambda a, b: torch.einsum("ij,kj->ik", a, b) / 8,
    lambda a, b: torch.addmm(a, b, a, alpha=0.1),
    lambda a, b: torch.bmm(a[None], b[None])[0] / 8,
    lambda a, b: torch.linalg.solve(a @ a.t() + 8 * torch.eye(8), b),
    lambda a, b: torch.linalg.qr(a + 4 * torch.eye(8))[1] + b,
    lambda a, b: torch.linalg.cholesky(a @ a.t() + torch.eye(8)) + b,
    lambda a, b: torch.cdist(a, b + 1),
    lambda a, b: torch.outer(a[0], b[1]),
    lambda a, b: functional.cosine_similarity(a, b + 0.1),
    lambda a, b: functional.scaled_dot_product_attention(a[None, None], b[None, None], a[None, None]),
    lambda a, b: functional.scaled_dot_product_attention(a[None, None], b[None, None], b[None, None], dropout_p=0.2),
)


def _unary(run: Run, random: Random) -> None:
    run.push(random, random.choice(_UNARY)(run.pick(random)))


def _view(run: Run, random: Random) -> None:
    run.push(random, random.choice(_VIEWS)(run.pick(random)))


def _binary(run: Run, random: Random) -> None:
    a = run.pick(random)
    shape = tuple(a.shape) if random.random() < 0.7 or a.dim() < 2 else (a.shape[0], *[1] * (a.dim() - 1))
    run.push(random, random.choice(_BINARY)(a, fit(run.pick(random), shape)))


def _reduction(run: Run, random: Random) -> None:
    run.push(random, random.choice(_REDUCTIONS)(run.pick(random)))


def _in_place(run: Run, random: Random) -> None:
    """Mostly on a result that no operator has saved; otherwise the backward pass may refuse."""
    x = run.pick(random)
    if random.random() < 0.85:
        x = x + 0.5
        run.push(random, x)
    random.choice(_IN_PLACE)(x)
    if random.random() < 0.2:
        random.choice(_IN_PLACE)(x)


def _chain(run: Run, random: Random) -> None:
    """A chain of in-place operators on one result, with readers between them."""
    x = run.picked(random, random.choice(SHAPES)) + 0.1
    for _ in range(random.randint(2, 5)):
        random.choice(_LINEAR)(x)
        if random.random() < 0.4:
            run.push(random, x * 0.5 if random.random() < 0.9 else x.sin())
    run.push(random, x)


def _indexed(run: Run, random: Random) -> None:
    run.push(random, random.choice(_INDEXED)(run.pick(random)))


def _random(run: Run, random: Random) -> None:
    run.push(random, random.choice(_RANDOM)(run.pick(random)))


def _own_generator(run: Run, random: Random) -> None:
    run.push(random, torch.randn(random.choice(SHAPES), generator=run.generator) * run.pick(random).mean())


def _image(run: Run, random: Random) -> None:
    run.push(random, random.choice(_IMAGES)(run.picked(random, (2, 4, 6, 6))))


def _product(run: Run, random: Random) -> None:
    run.push(random, random.choice(_PRODUCTS)(run.picked(random, (8, 8)), run.picked(random, (8, 8))))


def _parts(run: Run, random: Random) -> None:
    """Views of one tensor, some of which are let go."""
    x = run.picked(random, (6, 8))
    kind = random.randrange(3)
    parts = x.chunk(3, 0) if kind == 0 else x.split([2, 5, 1], 1) if kind == 1 else x.unbind(0)
    run.push(random, *random.sample(list(parts), min(2, len(parts))))
    if random.random() < 0.5:
        run.push(random, torch.cat([p.reshape(-1) * 2 for p in parts]))


def _written_slice(run: Run, random: Random) -> None:
    """Parts of a fresh tensor are written one by one, as a batch is put together."""
    made = torch.empty(4, 8) if random.random() < 0.5 else torch.zeros(4, 8)
    for row in range(4):
        made[row] = run.picked(random, (8,))
    run.push(random, made)


def _large(run: Run, random: Random) -> None:
    """A result much larger than others."""
    x = run.picked(random, (32, 32)).tanh()
    y = (x[:, :, None] * x[None]).tanh() if random.random() < 0.3 else (x @ x).tanh()
    run.push(random, y.sum(0) if random.random() < 0.7 else y[:8])


def _foreach(run: Run, random: Random) -> None:
    made = [run.picked(random, random.choice(SHAPES)).detach() + 1 for _ in range(3)]
    torch._foreach_mul_(made, 0.5)
    torch._foreach_add_(made, torch._foreach_sin(made))
    run.push(random, *made)


OPERATORS: Final[dict[str, tuple[Callable[[Run, Random], None], float]]] = {
    "unary": (_unary, 6),
    "view": (_view, 4),
    "binary": (_binary, 6),
    "reduction": (_reduction, 1.5),
    "in_place": (_in_place, 3),
    "chain": (_chain, 1),
    "indexed": (_indexed, 2),
    "random": (_random, 3),
    "own_generator": (_own_generator, 0.5),
    "image": (_image, 2),
    "product": (_product, 3),
    "parts": (_parts, 1),
    "written_slice": (_written_slice, 1),
    "large": (_large, 1.5),
    "foreach": (_foreach, 0.5),
}
