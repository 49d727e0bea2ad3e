"""Memory of tensors that is read and written by itself: NumPy, pointers, DLPack, storages."""

from __future__ import annotations

import ctypes
import io
from typing import Any

import numpy as np
import torch
import torch.utils.dlpack
from torch.nn import functional

from tests.torch.remat_programs.parts import mlp, pair
from tests.torch.remat_programs.registry import Keep, program

dlpack: Any = torch.utils.dlpack
from_dlpack: Any = torch.from_dlpack  # type: ignore[attr-defined, unused-ignore]


def _base(keep: Keep) -> tuple[Any, Any, Any]:
    model, (batch, target) = mlp(), pair()
    keep(model=model)
    return model, batch, target


@program
def numpy_kept_and_written(keep: Keep) -> Any:
    """The array of an activation is kept and written long after."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = x @ w
        b = a.tanh()
        array = a.numpy()
        keep(a=a, b=b)
        c = b @ w
        array[:, 0] = 7
        d = (a * c).relu()
        array[3] += 1
        e = d @ w + a
    return a, b, c, d, e, array


@program
def numpy_read_late(keep: Keep) -> Any:
    """An array is kept, and read after much else was computed, and after the tensor is gone."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = (x @ w).sin()
        array = a.numpy()
        del a
        b = x
        for _ in range(6):
            b = (b @ w).softmax(1)
        total = float(array.sum())
    return b, array, total


@program
def numpy_in_forward(keep: Keep) -> Any:
    """A forward pass that goes through NumPy without gradients."""
    model, batch, target = _base(keep)
    with keep.context():
        a = model[:3](batch)
        mask = torch.from_numpy((a.detach().numpy() > 0).astype(np.float32))
        b = model[3:](a * mask)
        functional.mse_loss(b, target).backward()
    return a, b, mask


@program
def from_numpy_then_written(keep: Keep) -> Any:
    """A tensor of an array of the user, which is changed by operators on the tensor."""
    array = np.random.rand(128, 64).astype(np.float32)  # noqa: NPY002
    w = torch.randn(64, 64)
    with keep.context():
        a = torch.from_numpy(array)
        b = a @ w
        a.mul_(2)
        c = a @ w
        d = (b + c).tanh()
        a[0] = 0
        e = d @ w + a
    return array, a, b, c, d, e


@program
def as_tensor_and_asarray(keep: Keep) -> Any:
    """`as_tensor`, `asarray`, `frombuffer` and a list of numbers share or copy memory."""
    array = np.arange(8192, dtype=np.float32).reshape(128, 64) / 8192
    raw = bytearray(array.tobytes())
    with keep.context():
        a, b = torch.as_tensor(array), torch.asarray(array, copy=True)
        c = torch.frombuffer(raw, dtype=torch.float32).view(128, 64)
        d = torch.tensor(array.tolist())
        e = a + b * c
        b.add_(1)
        f = e * b - d
        g = [(f + k).sin() for k in range(6)]
    return a, b, c, d, e, f, g


@program
def numpy_functions(keep: Keep) -> Any:
    """Functions of NumPy are called with tensors, `__array__` with a type, and arrays multiply tensors."""
    x, w = torch.rand(128, 64), torch.randn(64, 64)
    with keep.context():
        a = x @ w
        b = (a * 2).exp()
        said = [float(np.mean(np.asarray(a))), float(np.max(np.abs(a.numpy())))]
        c = b.sin() @ w
        said += [float(np.asarray(a).sum()), float(np.array(b).max()), float(np.asarray(c, dtype=np.float64).sum())]
        d = c + torch.from_numpy(np.asarray(a))
    return said, a, b, c, d


@program
def pointer_read(keep: Keep) -> Any:
    """Bytes are read at `data_ptr()`, at once."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        made = [x]
        for _ in range(6):
            made.append((made[-1] @ w).tanh())
        read = [ctypes.string_at(t.data_ptr(), t.numel() * 4) for t in made]
    return made, read


@program
def pointer_written(keep: Keep) -> Any:
    """Bytes are written at `data_ptr()`, and the tensor is used again later."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = (x @ w).tanh()
        keep(a=a)
        ctypes.memset(a.data_ptr(), 0, 4 * 64)
        b = [a]
        for _ in range(6):
            b.append((b[-1] @ w).tanh())
        c = a + b[-1]
    return a, b, c


@program
def pointer_of_view_kept(keep: Keep) -> Any:
    """The pointer of a view is kept while much else runs, then its memory is written and read."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = (x @ w).tanh()
        view = a[64:]
        pointer = view.data_ptr()
        b = x
        for _ in range(6):
            b = (b @ w).softmax(0)
        (ctypes.c_float * 64).from_address(pointer)[:] = [float(k) for k in range(64)]
        c = a @ w
        read = ctypes.string_at(pointer, 256)
    return a, b, c, read


@program
def dlpack_capsule(keep: Keep) -> Any:
    """A capsule of the old protocol is kept, and taken up after much else was computed."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = (x @ w).tanh()
        capsule = dlpack.to_dlpack(a)
        b = x
        for _ in range(6):
            b = (b @ w).softmax(0)
        c = dlpack.from_dlpack(capsule)
        c.mul_(2)
        d = a @ w + c
        e = [(d + k).cos() for k in range(4)]
    return a, b, c, d, e


@program
def dlpack_protocol(keep: Keep) -> Any:
    """`from_dlpack` of a tensor shares its memory; both names are written."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = (x @ w).tanh()
        b = from_dlpack(a)
        c = [(a + k).cos() for k in range(5)]
        b[0] = 5
        d = a @ w
        a[1] = 6
        e = b @ w
        f = [(e + k).cos() for k in range(5)]
    return a, b, c, d, e, f


@program
def numpy_from_dlpack(keep: Keep) -> Any:
    """NumPy takes a tensor by DLPack, and PyTorch takes an array; both are written later."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = (x @ w).tanh()
        array = np.from_dlpack(a)
        other = np.ones((128, 64), np.float32)
        b = from_dlpack(other)
        c = [(a * b + k).cos() for k in range(5)]
        a.add_(1)
        b.add_(2)
        total = float(array.sum())
        d = [(a * b + k).cos() for k in range(5)]
    return a, b, c, d, other, total, np.array(array)


@program
def storage_written(keep: Keep) -> Any:
    """The untyped storage of an activation is filled byte by byte and copied into."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = (x @ w).tanh()
        keep(a=a)
        b = [(a + k).cos() for k in range(5)]
        storage = a.untyped_storage()
        for k in range(64):
            storage[k] = 0
        c = [(a + k).sin() for k in range(5)]
        storage.copy_(x.untyped_storage())
        d = [(a + k).tan() for k in range(5)]
    return a, b, c, d


@program
def storage_read(keep: Keep) -> Any:
    """The untyped storage is kept and read after much else: as bytes, as a list, cloned."""
    x, w = torch.randn(64, 64), torch.randn(64, 64)
    with keep.context():
        a: Any = (x @ w).tanh()
        storage = a.untyped_storage()
        b = a
        for _ in range(6):
            b = (b @ w).softmax(0)
        first = bytes(storage[k] for k in range(0, 1024, 7))
        b = b + 1
        copy = torch.empty(0).set_(storage.clone(), 0, (64, 64), (64, 1))
        pointer = storage.data_ptr() == a.data_ptr()
        b = b @ w
        whole = bytes(storage.tolist())
    return a, b, copy, pointer, first, whole


@program
def storage_shared_by_set(keep: Keep) -> Any:
    """`set_` makes a tensor of the storage of another, and both are written."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = (x @ w).tanh()
        b = torch.empty(0).set_(a.untyped_storage(), 64, (64, 64), (64, 1))
        c = [(a + k).cos() for k in range(5)]
        b.zero_()
        d = a @ w
        a[1:3] = 1
        e = b @ w
        f: Any = torch.empty(0)
        f.set_(a)
        f.mul_(3)
        g = [(a + b.sum() + k).cos() for k in range(5)]
    return a, b, c, d, e, f, g


@program
def storage_resized(keep: Keep) -> Any:
    """A storage is freed by `resize_(0)` and filled again, as sharded training does with parameters."""
    x, full = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        w = full.clone()
        a = (x @ w).tanh()
        w.untyped_storage().resize_(0)
        b = [(a + k).cos() for k in range(5)]
        w.untyped_storage().resize_(64 * 64 * 4)
        w.copy_(full)
        c = a @ w
        d = [(c + k).cos() for k in range(5)]
    return w, a, b, c, d


@program
def tensor_resized(keep: Keep) -> Any:
    """`resize_` grows and shrinks tensors, `resize_as_` and out= into an empty tensor do it too."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = x @ w
        b = a.clone().resize_(64, 64)
        c = torch.empty(0)
        torch.mm(b, w, out=c)
        d = [(a + k).cos() for k in range(5)]
        b.resize_(128, 64).copy_(a)
        e = torch.empty(4).resize_as_(a).copy_(b).mul_(2)
        torch.add(e, a, out=c.resize_(0))
        f = [(c + k).sin() for k in range(5)]
    return a, b, c, d, e, f


@program
def bytes_in_the_middle(keep: Keep) -> Any:
    """`torch.save`, `bytes`, `memoryview` of NumPy, and load, in the middle of a step."""
    model, batch, target = _base(keep)
    with keep.context():
        a = model[:5](batch)
        b = model[5:](a)
        file = io.BytesIO()
        torch.save({"a": a.detach(), "view": a.detach()[3:], "model": model.state_dict()}, file)
        functional.mse_loss(b, target).backward()
        file.seek(0)
        loaded = torch.load(file)
        c = loaded["a"] + b.detach()
        view = memoryview(a.detach().numpy()).tobytes()
    return loaded, c, view


@program
def function_backward_by_numpy(keep: Keep) -> Any:
    """A Function whose forward and backward passes are NumPy's."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.array = x.numpy()
            return torch.from_numpy(ctx.array**2)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return torch.from_numpy(2 * ctx.array * g.numpy())

    model, batch, target = _base(keep)
    with keep.context():
        a = Square.apply(model[:3](batch))
        b = Square.apply(model[3:6](a))
        c = model[6:](b)
        functional.mse_loss(c, target).backward()
    return a, b, c


@program
def set_data(keep: Keep) -> Any:
    """`.data` of a tensor is read, written, and replaced by another tensor; two of them are swapped."""
    model, batch, target = _base(keep)
    with keep.context():
        p, q = model[0].weight, model[3].weight
        loss = functional.mse_loss(model(batch), target)
        loss.backward()
        p.data.add_(p.grad.data, alpha=-0.1)
        q.data = q.data - 0.1 * q.grad
        model.zero_grad()
        a = model(batch)
        p.data, q.data = q.data, p.data
        b = model(batch)
        functional.mse_loss(a.detach() + b, target).backward()
    return loss, a, b
