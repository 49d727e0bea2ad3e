"""`torch.autograd.Function`, hooks for saved tensors, gradients of gradients, checkpoints."""

from __future__ import annotations

import io
from typing import Any

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn import functional
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.torch.remat_programs.parts import mlp, pair
from tests.torch.remat_programs.registry import Keep, program


def _between(keep: Keep, function: Any) -> Any:
    """A step of a network with `function` after each of its thirds."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = function(model[:3](batch))
        b = function(model[3:6](a))
        c = function(model[6:](b))
        loss = functional.mse_loss(c, target)
        loss.backward()
    return loss, a, b, c


class Swish(Function):
    """Saves its input and its result."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x * torch.sigmoid(x)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        s = torch.sigmoid(x)
        return g * (y + s * (1 - y))


class OnContext(Function):
    """Holds tensors as attributes, in a list and in a closure, against the advice."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.x, ctx.others = x.detach(), [x.detach().sin(), {"cos": x.detach().cos()}]
        ctx.late = lambda: ctx.x * 2
        return ctx.others[0] + x * 0.5

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * (ctx.others[1]["cos"] + 0.5) + 0 * ctx.late() * ctx.others[0]


class ClampInPlace(Function):
    """Changes its input and says so."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward((x > -0.5) & (x < 0.5))
        ctx.mark_dirty(x)
        return x.clamp_(-0.5, 0.5)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        (mask,) = ctx.saved_tensors
        return g.mul_(mask)


class Several(Function):
    """Several results, of which one is not differentiable and one has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: float) -> Any:
        order = x.argsort(1)
        ctx.mark_non_differentiable(order)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, order)
        ctx.scale = scale
        return x.gather(1, order) * scale, order, x.sum(0)

    @staticmethod
    def backward(ctx: Any, g: Any, _order: Any, total: Any) -> Any:
        x, order = ctx.saved_tensors
        assert total is None
        return torch.zeros_like(x).scatter_(1, order, g * ctx.scale), None


class WithSetup(Function):
    """The new form, with setup_context and a rule for vmap."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x.tanh()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output, *inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        y, x = ctx.saved_tensors
        return g * (1 - y * y) + 0 * x


@program
def saves_input_and_result(keep: Keep) -> Any:
    """A Function that saves its input and its result."""
    return _between(keep, Swish.apply)


@program
def tensors_on_context(keep: Keep) -> Any:
    """A Function that holds tensors as attributes of its context."""
    return _between(keep, OnContext.apply)


@program
def marks_dirty(keep: Keep) -> Any:
    """A Function that writes its input, and a gradient in place."""
    return _between(keep, lambda x: ClampInPlace.apply(x + 0.1) + 0.1)


@program
def several_results(keep: Keep) -> Any:
    """A Function with several results, one of which is of integers."""
    orders: list[Any] = []
    keep(orders=orders)

    def apply(x: Any) -> Any:
        y, order, _ = Several.apply(x, 1.5)
        orders.append(order)
        return y

    return _between(keep, apply)


@program
def new_form(keep: Keep) -> Any:
    """A Function with setup_context, also under vmap and grad."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = WithSetup.apply(model[:3](batch))
        b = torch.func.vmap(WithSetup.apply)(a)
        c = torch.func.grad(lambda x: WithSetup.apply(x).square().sum())(b.detach())
        functional.mse_loss(model[3:](b) * c, target).backward()
    return a, b, c


@program
def recomputes_by_itself(keep: Keep) -> Any:
    """A Function that runs a part of the network again in its backward pass, as reversible layers do."""
    block = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU())

    class Again(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.x = x.detach()
            with torch.no_grad():
                return x + block(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            with torch.enable_grad():
                x = ctx.x.detach().requires_grad_()
                (x + block(x)).backward(g)
            return x.grad

    keep(block=block)
    return _between(keep, Again.apply)


def _packed(keep: Keep, pack: Any, unpack: Any) -> Any:
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        with saved_tensors_hooks(pack, unpack):
            a = model(batch)
        b = [(a.detach() + k).cos() for k in range(4)]
        loss = functional.mse_loss(a, target)
        loss.backward()
    return loss, a, b


@program
def packed_as_numpy(keep: Keep) -> Any:
    """What autograd saves is packed as NumPy arrays that share the memory."""
    return _packed(keep, lambda t: t.detach().numpy(), torch.from_numpy)


@program
def packed_as_numpy_copies(keep: Keep) -> Any:
    """What autograd saves is packed as copies in half precision."""
    return _packed(keep, lambda t: t.half().numpy().copy(), lambda a: torch.from_numpy(a).float())


@program
def packed_as_bytes(keep: Keep) -> Any:
    """What autograd saves is written to files in memory."""

    def pack(t: Any) -> Any:
        file = io.BytesIO()
        torch.save(t.detach(), file)
        return file.getvalue()

    return _packed(keep, pack, lambda data: torch.load(io.BytesIO(data)))


@program
def packed_with_version(keep: Keep) -> Any:
    """Packing keeps the tensor in a list, and clones some; unpacking returns what is in the list."""
    stored: list[Any] = []

    def pack(t: Any) -> int:
        stored.append(t.detach().clone() if len(stored) % 2 else t)
        return len(stored) - 1

    return _packed(keep, pack, stored.__getitem__)


@program
def saved_on_cpu(keep: Keep) -> Any:
    """`save_on_cpu` around a part of the step."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        with save_on_cpu(pin_memory=False):
            a = model[:6](batch)
        loss = functional.mse_loss(model[6:](a), target)
        loss.backward()
    return loss, a


@program
def double_backward(keep: Keep) -> Any:
    """A penalty on the gradient, with create_graph."""
    model, (batch, target) = mlp(norm=False), pair()
    keep(model=model)
    batch.requires_grad_()
    with keep.context():
        loss = functional.mse_loss(model(batch), target)
        (g,) = torch.autograd.grad(loss, batch, create_graph=True)
        penalty = (g.norm(dim=1) - 1).square().mean()
        (loss + penalty).backward()
    return loss, g, penalty, batch


@program
def hessian_products(keep: Keep) -> Any:
    """Products with the Hessian by gradients of gradients through Functions of the user."""
    w, x = torch.randn(64, 64, requires_grad=True), torch.randn(128, 64)
    v = [torch.randn(64, 64) for _ in range(3)]
    keep(w=w)
    with keep.context():
        y = Swish.apply(x @ w)
        (g,) = torch.autograd.grad(WithSetup.apply(y).square().sum(), w, create_graph=True)
        products = [torch.autograd.grad(g, w, k, retain_graph=True)[0] for k in v]
        (g * g).sum().backward()
    return y, g, products


@program
def batched_gradients(keep: Keep) -> Any:
    """Gradients for a batch of directions at once, and a Jacobian and a Hessian."""
    w, x = torch.randn(64, 64, requires_grad=True), torch.randn(16, 64)
    with keep.context():
        y = (x @ w).tanh()
        g = torch.autograd.grad(y, w, torch.eye(8)[:, :, None].expand(8, 8, 64).repeat(1, 2, 1), is_grads_batched=True)
        jacobian = torch.autograd.functional.jacobian(lambda t: (t @ w).tanh().sum(0), x)
        hessian = torch.autograd.functional.hessian(lambda t: (t @ w[:, :2]).tanh().sum(), x[:2])
    return y, g, jacobian, hessian


def _checkpointed(keep: Keep, reentrant: bool) -> Any:
    model, (batch, target) = mlp(), pair()
    model.append(torch.nn.Dropout(0.2))
    keep(model=model)
    batch.requires_grad_()
    with keep.context():
        a = checkpoint(model[:4], batch, use_reentrant=reentrant)
        b = checkpoint(
            lambda x: checkpoint(model[6:], model[4:6](x), use_reentrant=reentrant), a, use_reentrant=reentrant
        )
        loss = functional.mse_loss(b, target)
        loss.backward()
    return loss, a, b, batch


@program
def checkpoint_reentrant(keep: Keep) -> Any:
    """Checkpoints of the older kind, one within another, with dropout."""
    return _checkpointed(keep, reentrant=True)


@program
def checkpoint_by_hooks(keep: Keep) -> Any:
    """Checkpoints of the newer kind, one within another, with dropout."""
    return _checkpointed(keep, reentrant=False)


@program
def checkpoint_parts(keep: Keep) -> Any:
    """A sequence of checkpoints, twice over, with gradients accumulated."""
    model, (batch, target) = mlp(4), pair()
    keep(model=model)
    with keep.context():
        for _ in range(2):
            functional.mse_loss(checkpoint_sequential(model, 4, batch, use_reentrant=False), target).backward()


@program
def selective_checkpoint(keep: Keep) -> Any:
    """A checkpoint that keeps results of matrix products."""
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    model, (batch, target) = mlp(), pair()
    keep(model=model)
    make = lambda: create_selective_checkpoint_contexts([torch.ops.aten.addmm.default])  # noqa: E731
    with keep.context():
        a = checkpoint(model, batch, use_reentrant=False, context_fn=make)
        functional.mse_loss(a, target).backward()
    return a
