"""Types and layouts: sparse, nested, complex, integers, low precision, quantized."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tests.torch.remat_programs.parts import conv_net, mlp, pair
from tests.torch.remat_programs.registry import Keep, program


@program
def sparse_embedding(keep: Keep) -> Any:
    """An embedding with sparse gradients, trained by SGD and by SparseAdam."""
    tables: Any = nn.ModuleList([nn.Embedding(512, 32, sparse=True) for _ in range(2)])
    optimizers = [
        torch.optim.SGD(tables[0].parameters(), 0.1),
        torch.optim.SparseAdam(list(tables[1].parameters()), 0.01),
    ]
    words = torch.randint(0, 512, (64, 8))
    keep(tables=tables, optimizers=optimizers)
    made = []
    with keep.context():
        for _ in range(3):
            out = (tables[0](words) * tables[1](words)).sum(1)
            out.square().mean().backward()
            made += [out, tables[0].weight.grad.coalesce().values()]
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    return made


@program
def embedding_bag(keep: Keep) -> Any:
    """Bags of embeddings: sums with weights, means, maxima, with offsets, dense and sparse gradients."""
    bags = nn.ModuleList([nn.EmbeddingBag(256, 32, mode="sum"), nn.EmbeddingBag(256, 32, mode="mean", sparse=True)])
    bags.append(nn.EmbeddingBag(256, 32, mode="max"))
    words, offsets, weights = torch.randint(0, 256, (512,)), torch.arange(0, 512, 4), torch.rand(512)
    keep(bags=bags)
    with keep.context():
        made = [bags[0](words, offsets, weights), bags[1](words, offsets), bags[2](words.view(128, 4))]
        sum(m.square().mean() for m in made).backward()
    return made


@program
def sparse_products(keep: Keep) -> Any:
    """Sparse matrices are made of activations, coalesced and multiplied, with gradients."""
    places = torch.stack([torch.randint(0, 128, (1024,)), torch.randint(0, 64, (1024,))])
    values, x = torch.randn(1024, requires_grad=True), torch.randn(64, 64, requires_grad=True)
    keep(values=values, x=x)
    with keep.context():
        s = torch.sparse_coo_tensor(places, values.tanh(), (128, 64))
        a = torch.sparse.mm(s, x)
        b = s.coalesce()
        c = [(a + k).cos() for k in range(5)]
        d = (b.to_dense() * a).sin()
        e = (a * (a > 0)).detach().to_sparse()
        f = torch.sparse.sum(b, 1).to_dense()
        (d.sum() + f.sum() + sum(k.sum() for k in c)).backward()
    return s, a, b, c, d, e


@program
def compressed_sparse(keep: Keep) -> Any:
    """CSR matrices of activations, multiplied with dense ones."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = functional.threshold(x @ w, 5, 0)
        s = a.to_sparse_csr()
        b = [(a + k).cos() for k in range(5)]
        c = s @ w
        d = s.to_dense() + c
    return a, s, b, c, d


@program
def nested_tensors(keep: Keep) -> Any:
    """Nested tensors, strided and jagged, through a linear layer and back to padding."""
    layer = nn.Linear(64, 64)
    parts = [torch.randn(n, 64) for n in (30, 17, 50)]
    keep(layer=layer)
    with keep.context():
        strided = torch.nested.as_nested_tensor([p.sin() for p in parts])
        a = torch.nested.to_padded_tensor(layer(strided).relu(), 0.0)
        jagged = torch.nested.as_nested_tensor([p.cos() for p in parts], layout=torch.jagged)
        b = layer(jagged).values()
        c = [(p + k).cos() for k in range(3) for p in parts]
        (a.square().sum() + b.square().sum()).backward()
    return a, b, c, strided.unbind()[1]


@program
def complex_numbers(keep: Keep) -> Any:
    """Complex tensors: views of real ones, conjugates without a copy, writes to the imaginary part."""
    x, w = torch.randn(128, 64), torch.randn(32, 32, dtype=torch.complex64, requires_grad=True)
    keep(w=w)
    with keep.context():
        z = torch.view_as_complex(x.sin().view(128, 32, 2))
        a = (z.clone() @ w).conj()
        b = torch.view_as_real(z)
        c = [(z * k).cos() for k in range(1, 6)]
        z.imag.mul_(2)
        b[..., 0] += 1
        d = a.mH @ z.clone()
        e = torch.polar(d.abs(), d.angle())
        e.real.square().mean().backward()
    return z, a, b, c, d, e, a.imag


@program
def fourier(keep: Keep) -> Any:
    """Transforms of Fourier: real, complex, short-time, and back, with gradients."""
    x = torch.randn(8, 2048, requires_grad=True)
    keep(x=x)
    with keep.context():
        a = torch.fft.rfft(x)
        b = torch.fft.irfft(a * a.abs())
        c = torch.fft.fftshift(torch.fft.fft2(b.view(8, 32, 64)), dim=(1, 2))
        window = torch.hann_window(128)
        d = torch.stft(b, 128, window=window, return_complex=True)
        e = torch.istft(d, 128, window=window)
        (c.abs().mean() + e.square().mean()).backward()
    return a, b, c, d, e


@program
def integers_and_booleans(keep: Keep) -> Any:
    """Large tensors of integers and booleans: bits, shifts, counts, comparisons, written in place."""
    x = torch.randint(-(2**31), 2**31 - 1, (128, 64), dtype=torch.int64)
    with keep.context():
        a = x.bitwise_xor(x >> 3)
        b = (a & 255).to(torch.uint8)
        c = [(a * k).remainder(997) for k in range(1, 6)]
        d = torch.bincount(b.view(-1), minlength=256)
        mask = a > c[0]
        mask.logical_xor_(c[1] > 400)
        a[mask] = -1
        e = torch.bucketize(a, torch.tensor([-5, 0, 2**20]))
        f = torch.where(mask, a, c[2]).cumsum(1)
        a <<= 1
        g = mask.sum(0), mask.any(1), mask.nonzero(), torch.histc(f.float(), 16)
    return a, b, c, d, e, f, g, mask


@program
def autocast(keep: Keep) -> Any:
    """A step under autocast to bfloat16, whose cache of cast weights lives through the step."""
    model, (batch, target) = mlp(), pair()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    keep(model=model, optimizer=optimizer)
    made = []
    with keep.context():
        for _ in range(2):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                a = model(batch)
                b = model(a)
                with torch.autocast("cpu", enabled=False):
                    loss = functional.mse_loss(b.float(), target)
            loss.backward()
            optimizer.step()
            made += [a, b, loss]
    return made


@program
def master_weights(keep: Keep) -> Any:
    """A model in bfloat16 with master weights in float32, gradients scaled and unscaled."""
    model, (batch, target) = mlp().bfloat16(), pair()
    master = [p.detach().float().requires_grad_() for p in model.parameters()]
    optimizer = torch.optim.Adam(master, 1e-2)
    keep(model=model, master=master, optimizer=optimizer)
    with keep.context():
        for _ in range(2):
            loss = functional.mse_loss(model(batch.bfloat16()).float(), target)
            model.zero_grad()
            (loss * 256).backward()
            for m, p in zip(master, model.parameters(), strict=True):
                m.grad = p.grad.float() / 256
            optimizer.step()
            with torch.no_grad():
                torch._foreach_copy_(list(model.parameters()), master)
    return loss


@program
def half_and_double(keep: Keep) -> Any:
    """Types are mixed and changed, with promotion, and a default type is set for a while."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        a = x.double() @ w.double()
        b = a.half() * x
        torch.set_default_dtype(torch.float64)
        try:
            c = torch.ones(128, 64) * b + torch.randn(128, 64)
        finally:
            torch.set_default_dtype(torch.float32)
        d = [(c.to(t) + 1).sin() for t in (torch.float32, torch.float16, torch.bfloat16, torch.float64)]
    return a, b, c, d


@program
def quantized(keep: Keep) -> Any:
    """Quantized tensors, by tensor and by channel, and fake quantization with gradients."""
    x = torch.randn(128, 64, requires_grad=True)
    keep(x=x)
    with keep.context():
        a = x.detach().sin()
        q = torch.quantize_per_tensor(a, 0.02, 3, torch.qint8)
        r = torch.quantize_per_channel(a, torch.full((64,), 0.02), torch.zeros(64), 1, torch.quint8)
        b = [(a + k).cos() for k in range(5)]
        c = q.dequantize() + r.dequantize() + q.int_repr()
        d = torch.fake_quantize_per_tensor_affine(x.tanh(), 0.01, 0, -128, 127)
        e = torch.fake_quantize_per_channel_affine(d, torch.full((64,), 0.02), torch.zeros(64), 1, -128, 127)
        e.square().mean().backward()
    return a, b, c, d, e, q


@program
def observers(keep: Keep) -> Any:
    """Quantization-aware training: fake quantizers whose observers write their statistics."""
    from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver

    make = lambda: FakeQuantize(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255)  # noqa: E731
    model = nn.Sequential(nn.Linear(64, 64), make(), nn.GELU(), nn.Linear(64, 64), make())
    batch, target = pair()
    keep(model=model)
    with keep.context():
        for k in range(3):
            functional.mse_loss(model(batch * (k + 1)), target).backward()
    return model(batch)


@program
def float8_and_bits(keep: Keep) -> Any:
    """8-bit floats and views of bits, as inference libraries keep weights."""
    x, w = torch.randn(128, 64), torch.randn(64, 64)
    with keep.context():
        packed = [(w * k).to(torch.float8_e4m3fn) for k in range(1, 5)]
        a = x
        for p in packed:
            a = (a @ p.float()).tanh()
        bits = packed[0].view(torch.uint8)
        b = [(a + k).cos() for k in range(5)]
        bits.bitwise_and_(0xF0)
        c = x @ packed[0].to(torch.float32)
    return packed, a, b, c


@program
def amp_convolutions(keep: Keep) -> Any:
    """Convolutions under autocast with channels last and a batch norm in float32."""
    model = conv_net().to(memory_format=torch.channels_last)
    x = torch.randn(4, 3, 16, 16).to(memory_format=torch.channels_last)
    keep(model=model)
    with keep.context():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = model(x)
        a.float().square().mean().backward()
    return a
