"""Subclasses of tensors, and modes of the user."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.torch.remat_programs.parts import mlp, pair
from tests.torch.remat_programs.registry import Keep, program


class Named(torch.Tensor):
    """A plain subclass."""


class Logged(torch.Tensor):
    """Notes the functions that it meets."""

    calls: list[str] = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Logged.calls.append(getattr(func, "__name__", "?"))
        return super().__torch_function__(func, types, args, kwargs or {})


class Scaled(torch.Tensor):
    """A wrapper of a tensor that stands for its double."""

    inner: Any

    @staticmethod
    def __new__(cls: Any, inner: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, requires_grad=False)

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __tensor_flatten__(self) -> Any:
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, _meta: Any, _size: Any, _stride: Any) -> Any:
        return Scaled(inner["inner"])

    @classmethod
    def __torch_dispatch__(  # type: ignore[override, unused-ignore]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types
        opened = pytree.tree_map_only(Scaled, lambda t: t.inner * 2, (args, kwargs or {}))
        made = func(*opened[0], **opened[1])
        if func is torch.ops.aten.detach.default:
            return Scaled(args[0].inner)
        return pytree.tree_map_only(torch.Tensor, lambda t: Scaled(t / 2), made)


class Held(torch.Tensor):
    """A subclass with memory of its own whose operators run with dispatch to Python switched off."""

    @classmethod
    def __torch_dispatch__(  # type: ignore[override, unused-ignore]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types
        with no_dispatch():
            return func(*args, **(kwargs or {}))


@program
def plain_subclass(keep: Keep) -> Any:
    """A plain subclass goes through a step, and is written in place."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = model[:3](batch.as_subclass(Named))
        b = a * 1
        b[3:6] = 0
        c = model[3:](b.mul_(2))
        functional.mse_loss(c, target).backward()
    return a, b, c


@program
def as_subclass_then_written(keep: Keep) -> Any:
    """`as_subclass` shares memory with its tensor; both are written."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = (x @ w).tanh()
        b = a.as_subclass(Named)
        c = [(a + k).cos() for k in range(5)]
        b.mul_(2)
        d = a @ w
        a[3] = 1
        e = b @ w
        f = torch.Tensor._make_subclass(Named, a)
        f.add_(1)
        g = [(a + k).cos() for k in range(5)]
    return a, b, c, d, e, f, g


@program
def parameter_of_activation(keep: Keep) -> Any:
    """A Parameter and a Buffer are made of activations, share their memory, and are trained."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = x.t() @ x
        p = torch.nn.Parameter(a)
        buffer = torch.nn.Buffer(a)
        b = [(a + k).cos() for k in range(5)]
        (x @ p).square().mean().backward()
        torch.optim.SGD([p], 0.5).step()
        buffer[0] = 0
        c = [(a @ w + k).cos() for k in range(5)]
    return a, p, buffer, b, c


@program
def function_subclass(keep: Keep) -> Any:
    """A subclass with __torch_function__ notes calls."""
    Logged.calls.clear()
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = model(batch.as_subclass(Logged))
        b = torch.cat([a, a]).sum(0)
        functional.mse_loss(a, target).backward()
        said = a.detach().numpy().copy()
    return a.as_subclass(torch.Tensor), b.as_subclass(torch.Tensor), said, list(Logged.calls)


@program
def wrapper_subclass(keep: Keep) -> Any:
    """A wrapper subclass with __torch_dispatch__."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = Scaled(x.sin())
        keep(a=a)
        b: list[Any] = [a @ w]
        for _ in range(5):
            b.append((b[-1] @ w).tanh())
        c = a + b[-1]
        d = [t.inner.cos() for t in b]
    return a, b, c, d


@program
def dispatching_subclass(keep: Keep) -> Any:
    """A subclass that has memory and unwraps itself in __torch_dispatch__."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = (x @ w).as_subclass(Held)
        b = [a @ w]
        for _ in range(5):
            b.append((b[-1] @ w + a).tanh())
        a.mul_(2)
        c = a + b[0]
        d = [(c + k).cos() for k in range(4)]
        e = a + 1
        with no_dispatch():
            f = a.detach().clone().as_subclass(torch.Tensor)
    return b, c, d, e, f


@program
def masked_tensor(keep: Keep) -> Any:
    """MaskedTensor, a subclass of PyTorch's own, reduces and multiplies."""
    from torch.masked import masked_tensor as masked

    x = torch.randn(128, 64)
    with keep.context():
        a = masked(x.sin(), x > 0)
        b: Any = a * a + a
        c = [(x + k).cos() for k in range(6)]
        d: Any = b.sum(1)
        e: Any = b.amax(0)
    return c, [t.get_data() for t in (b, d, e)], [t.get_mask() for t in (b, d, e)]


class Replace(TorchDispatchMode):
    """Replaces sigmoid by its approximation, and doubles results of tanh in place."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        if func is torch.ops.aten.sigmoid.default:
            return (args[0] * 0.5).tanh() * 0.5 + 0.5
        made = func(*args, **(kwargs or {}))
        return made.mul_(2) if func is torch.ops.aten.tanh.default else made


class Tap(TorchDispatchMode):
    """Keeps all that operators return, and its sums."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Any] = []
        self.sums: list[float] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor) and made.dtype is torch.float32:
            self.kept.append(made.detach())
            self.sums.append(made.sum().item())
        return made


@program
def mode_inside(keep: Keep) -> Any:
    """A mode inside the context replaces operators and writes results."""
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    with keep.context():
        a = model[:3](batch)
        with Replace():
            b = a.sigmoid() + a.tanh()
            c = model[3:6](b)
        d = model[6:](c.sigmoid())
        functional.mse_loss(d, target).backward()
    return a, b, c, d


@program
def mode_outside(keep: Keep) -> Any:
    """A mode outside the context keeps what operators return."""
    model, (batch, target) = mlp(2), pair(64)
    keep(model=model)
    with Replace(), keep.context():
        a = model(batch).sigmoid()
        functional.mse_loss(a.tanh(), target).backward()
    return a


@program
def mode_that_keeps(keep: Keep) -> Any:
    """A mode inside the context keeps what operators return, and reads it."""
    model, (batch, target) = mlp(2), pair(64)
    tap = Tap()
    keep(model=model, kept=tap.kept)
    with keep.context():
        with tap:
            functional.mse_loss(model(batch), target).backward()
        total = sum(k.sum() for k in tap.kept)
    return total, tap.sums


@program
def function_modes(keep: Keep) -> Any:
    """A mode for functions, and a default device as a mode, inside and outside."""

    class Change(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            return (torch.cos if func is torch.sin else func)(*args, **(kwargs or {}))

    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with Change(), keep.context():
        a = torch.sin(x @ w)
        with Change(), torch.device("cpu"):
            b = [torch.sin(a * k) + torch.ones(64) for k in range(6)]
        c = a + b[0]
    return a, b, c


@program
def pytree_flows(keep: Keep) -> Any:
    """Activations go through trees: mapped, flattened, rebuilt, and written there."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        tree: Any = {"a": x @ w, "b": [x.sin(), (x.cos(), 3)]}
        tree = pytree.tree_map_only(torch.Tensor, lambda t: (t @ w).tanh(), tree)
        leaves, form = pytree.tree_flatten(tree)
        for leaf in leaves[:2]:
            leaf.mul_(2)
        again = pytree.tree_unflatten([leaf + 1 if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], form)
        more = [(again["a"] + k).cos() for k in range(5)]
    return tree, again, more
