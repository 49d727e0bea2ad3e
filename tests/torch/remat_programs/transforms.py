"""Transforms of functions, forward mode, linear algebra, sorting, sums along axes."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from torch.nn import functional

from tests.torch.remat_programs.parts import mlp, pair
from tests.torch.remat_programs.registry import Keep, program


@program
def per_sample_gradients(keep: Keep) -> Any:
    """Gradients of each sample by vmap over grad of functional_call."""
    model, (batch, target) = mlp(2), pair(16)
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(p: Any, x: Any, y: Any) -> Any:
        return functional.mse_loss(functional_call(model, p, (x[None],)), y[None])

    with keep.context():
        each, losses = vmap(grad_and_value(loss), (None, 0, 0))(parameters, batch, target)
        norms = {name: g.flatten(1).norm(dim=1) for name, g in each.items()}
        updated = {name: p - 0.1 * each[name].mean(0) for name, p in parameters.items()}
    return each, losses, norms, updated


@program
def ensemble(keep: Keep) -> Any:
    """Several models as one, by stacked parameters and vmap with randomness."""
    models, (batch, _) = [mlp(2) for _ in range(3)], pair(32)
    with keep.context():
        parameters, buffers = stack_module_state(models)

        def run(p: Any, b: Any, x: Any) -> Any:
            return functional.dropout(functional_call(models[0], (p, b), (x,)), 0.3)

        a = vmap(run, (0, 0, None), randomness="different")(parameters, buffers, batch)
        b = vmap(run, (0, 0, None), randomness="same")(parameters, buffers, batch)
        c = vmap(lambda x: torch.randn(64) + x, randomness="different")(batch)
        (a * b).square().mean().backward()
    return a, b, c, [p.grad for p in parameters.values()]


@program
def jacobians(keep: Keep) -> Any:
    """Jacobians forward and reverse, Hessians, products with vectors."""
    w, x = torch.randn(64, 64) * 0.1, torch.randn(64)
    f = lambda t: (t @ w).tanh().sin()  # noqa: E731
    with keep.context():
        a, b, c = jacrev(f)(x), jacfwd(f)(x), hessian(lambda t: f(t).sum())(x)
        made: Any = jvp(f, (x,), (x.cos(),))
        d, e = made
        reverse: Any = vjp(f, x)
        g, pull = reverse
        more = [(a * k).cos() for k in range(1, 5)]
        h = pull(a[0])[0] + pull(b[1])[0]
    return a, b, c, d, e, g, h, more


@program
def meta_learning(keep: Keep) -> Any:
    """Steps of an inner loop by functional_call, with gradients through them."""
    model, (batch, target) = mlp(2, norm=False), pair()
    keep(model=model)
    loss = lambda p: functional.mse_loss(functional_call(model, p, (batch,)), target)  # noqa: E731
    with keep.context():
        fast = dict(model.named_parameters())
        for _ in range(2):
            gradients = torch.autograd.grad(loss(fast), list(fast.values()), create_graph=True)
            fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), gradients, strict=True)}
        outer = loss(fast)
        outer.backward()
    return outer, fast


@program
def nested_grad(keep: Keep) -> Any:
    """grad of grad with writes in place inside, and functionalized code."""
    x, w = torch.randn(64, 64), torch.randn(64, 64)

    def f(t: Any) -> Any:
        a = t @ w
        b = a.sin()
        b.mul_(2)
        b[:, 0] = 0
        return (b * a).mean()

    with keep.context():
        a = grad(f)(x)
        b = grad(lambda t: grad(f)(t).square().sum())(x)
        c = torch.func.functionalize(f)(x)
        d = [(a + k).cos() for k in range(5)]
        e = vmap(f)(x[:, None, :] + b[:, None, :])
    return a, b, c, d, e


@program
def dual_numbers(keep: Keep) -> Any:
    """Forward mode by dual numbers, and forward over reverse."""
    x, w, t = torch.randn(128, 64), torch.randn(64, 64, requires_grad=True), torch.randn(128, 64)
    keep(w=w)
    with keep.context(), forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        a = (dual @ w).tanh()
        b = [(a * k).sin() for k in range(1, 6)]
        primal, tangent = forward_ad.unpack_dual(b[0] * b[4])
        tangent.square().mean().backward()
        primal, tangent = primal.detach().clone(), tangent.detach().clone()
    return primal, tangent


@program
def vmapped_in_chunks(keep: Keep) -> Any:
    """vmap in chunks over functions with views, scatter and reductions."""
    x, w = torch.randn(64, 64), torch.randn(64, 64)

    def f(row: Any) -> Any:
        a = (row @ w).view(8, 8).t().flatten()
        return torch.zeros(64).scatter(0, a.argsort(), a).cumsum(0)

    with keep.context():
        a = vmap(f, chunk_size=16)(x)
        b = vmap(vmap(lambda p, q: (p * q).sin(), (0, None)), (None, 0))(x[:32], x[32:])
        c = [(a + k).cos() for k in range(5)]
        d = vmap(torch.linalg.norm)(b)
    return a, b, c, d


@program
def decompositions(keep: Keep) -> Any:
    """SVD, QR, LU, Cholesky and eigenvalues, with gradients."""
    x = torch.randn(48, 48, dtype=torch.float64, requires_grad=True)
    keep(x=x)
    with keep.context():
        s = x @ x.mT + 48 * torch.eye(48, dtype=torch.float64)
        low = torch.linalg.cholesky(s)
        q, r = torch.linalg.qr(x)
        values = torch.linalg.eigvalsh(s)
        singular = torch.linalg.svdvals(x)
        u, d, v = torch.linalg.svd(x.detach())
        p, lower, upper = torch.linalg.lu(s)
        (low.sum() + r.abs().sum() + q.sum() + values.log().sum() + singular.sum() + upper.sum()).backward()
    return low, q, r, values, singular, u, d, v, p, lower


@program
def solvers(keep: Keep) -> Any:
    """Solves, inverses, determinants, least squares, matrix exponentials, with out= and several results."""
    x, b = torch.randn(48, 48, dtype=torch.float64), torch.randn(48, 16, dtype=torch.float64)
    x.requires_grad_()
    keep(x=x)
    with keep.context():
        a = x + 48 * torch.eye(48, dtype=torch.float64)
        y = torch.linalg.solve(a, b)
        inverse, sign = torch.linalg.inv(a), torch.linalg.slogdet(a)
        factors, pivots = torch.linalg.lu_factor(a.detach())
        z = torch.linalg.lu_solve(factors, pivots, b)
        least = torch.linalg.pinv(a.detach()) @ b
        exponential = torch.linalg.matrix_exp(a / 48)
        triangle = torch.linalg.solve_triangular(a.tril(), b, upper=False)
        torch.linalg.inv(a.detach(), out=factors)
        (y.sum() + inverse.sum() + sign[1] + exponential.sum() + triangle.sum()).backward()
    return y, inverse, sign[1], factors, pivots, z, least, exponential, triangle


@program
def sorting(keep: Keep) -> Any:
    """sort, topk, kthvalue, unique, median, mode, searchsorted, with gradients to the values."""
    x = torch.randn(128, 64, requires_grad=True)
    keep(x=x)
    with keep.context():
        a = x.sin()
        b, order = a.sort(1)
        c, places = b.topk(8, 0)
        d = a.kthvalue(3, 1), a.median(0), (a * 10).round().mode(1)
        e = (a * 10).round().unique(return_inverse=True, return_counts=True)
        f = torch.searchsorted(b.detach(), a.detach())
        g = a.gather(1, order).msort() + a.take_along_dim(f.clamp(max=63), 1)
        h = torch.unique_consecutive(order.view(-1) // 8)
        (b.cumsum(0).square().mean() + c.sum() + d[0].values.sum() + d[1].values.sum() + g.sum()).backward()
    return a, b, order, c, places, [list(k) for k in d], e, f, g, h


@program
def sums_and_scans(keep: Keep) -> Any:
    """cumsum, cumprod, logcumsumexp, cummax, einsum, tensordot, var_mean, aminmax."""
    x, y = torch.randn(128, 64, requires_grad=True), torch.randn(64, 32)
    keep(x=x)
    with keep.context():
        a = [x.cumsum(0), (x * 0.1 + 1).cumprod(1), x.logcumsumexp(1), *x.cummax(0), *x.cummin(1)]
        b = torch.einsum("ij,jk,ik->ik", x, y, (x @ y).tanh())
        c = torch.tensordot(x, y, 1), torch.var_mean(x, 1), x.aminmax(dim=0), x.diff(dim=0), torch.trapezoid(x, dim=1)
        d = torch.cdist(x, x.roll(1, 0)), torch.cov(x.t()), torch.logsumexp(x, 1), x.renorm(2, 0, 1.0)
        (b.sum() + a[0].sum() + a[1].sum() + a[2].sum() + a[3].sum() + sum(k.sum() for k in d)).backward()
    return a, b, [list(k) if isinstance(k, tuple) else k for k in c], d


@program
def shapes(keep: Keep) -> Any:
    """stack, cat, roll, rot90, tile, meshgrid, block_diag, tril, repeat_interleave, combinations."""
    x = torch.randn(64, 64, requires_grad=True)
    keep(x=x)
    with keep.context():
        a = torch.cat([x, x.t().contiguous(), x.flip(0)], 1)
        b = torch.stack([x.roll((1, 2), (0, 1)), x.rot90(), x.tril(3)]).movedim(0, -1)
        c = torch.block_diag(x[:16], x[:, :16]), x.tile(2, 1), x.repeat_interleave(torch.arange(64) % 3, 0)
        grid = torch.meshgrid(x[0], x[:, 0], indexing="ij")
        d = torch.kron(x[:8, :8], x[8:16, :8]), torch.hstack([x, x]), torch.cartesian_prod(x[0], x[1])
        e = x.squeeze().expand(3, 64, 64).reshape(-1, 32).contiguous().swapaxes(0, 1)
        (a.sum() + b.square().sum() + c[1].sum() + d[0].sum() + (grid[0] * grid[1]).sum() + e.square().sum()).backward()
    return a, b, c, list(grid), d, e
