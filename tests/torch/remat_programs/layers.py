"""Layers of `torch.nn`: convolutions, pooling, normalisations, recurrent and attention layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, spectral_norm, weight_norm

from tests.torch.remat_programs.parts import conv_net, mlp, pair, train
from tests.torch.remat_programs.registry import Keep, program


def _step(keep: Keep, model: Any, *given: Any, steps: int = 2) -> Any:
    """Steps of SGD on the squares of what the model returns."""
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.5)
    keep(model=model, optimizer=optimizer)
    made = []
    with keep.context():
        for _ in range(steps):
            optimizer.zero_grad()
            out = model(*given)
            parts = [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
            torch.stack([t.float().square().mean() for t in parts]).sum().backward()
            optimizer.step()
            made.append(out)
    return made


@program
def batch_norms(keep: Keep) -> Any:
    """Batch normalisation in training, with cumulative averages, and without running statistics."""
    norms = [nn.BatchNorm2d(8), nn.BatchNorm2d(8, momentum=None), nn.BatchNorm2d(8, track_running_stats=False)]
    parts = [part for norm in norms for part in (nn.Conv2d(8, 8, 3, padding=1), norm, nn.ReLU(inplace=True))]
    return _step(keep, nn.Sequential(*parts), torch.randn(4, 8, 16, 16), steps=3)


@program
def batch_norm_train_and_eval(keep: Keep) -> Any:
    """Training, evaluation and training with frozen statistics take turns."""
    model, x = conv_net(), torch.randn(4, 3, 16, 16)
    keep(model=model)
    made = []
    with keep.context():
        for mode in (True, False, True):
            out = model.train(mode)(x)
            out.square().mean().backward()
            made.append(out)
        with torch.no_grad():
            made.append(model(x + 1))
        model[1].reset_running_stats()
        made.append(model(x).detach())
    return made


@program
def other_norms(keep: Keep) -> Any:
    """Instance, group, local response and RMS normalisation."""
    parts: list[Any] = [nn.InstanceNorm2d(8, affine=True, track_running_stats=True), nn.GroupNorm(2, 8)]
    parts += [nn.LocalResponseNorm(3), nn.Conv2d(8, 8, 3, padding=1), nn.InstanceNorm2d(8), nn.RMSNorm(16)]
    return _step(keep, nn.Sequential(*parts), torch.randn(4, 8, 16, 16))


@program
def spectral_and_weight_norm(keep: Keep) -> Any:
    """Spectral norm and weight norm by hooks, the older kind, whose buffers are written in the forward pass."""
    model = nn.Sequential(spectral_norm(nn.Linear(64, 64)), nn.GELU(), weight_norm(nn.Linear(64, 64)), nn.GELU())
    return _step(keep, model, torch.randn(128, 64), steps=3)


@program
def parametrized(keep: Keep) -> Any:
    """Spectral norm, weight norm and orthogonality as parametrizations."""
    parts = [
        parametrizations.spectral_norm(nn.Linear(64, 64)),
        nn.GELU(),
        parametrizations.weight_norm(nn.Linear(64, 64)),
    ]
    return _step(keep, nn.Sequential(*parts, parametrizations.orthogonal(nn.Linear(64, 16))), torch.randn(128, 64))


@program
def convolutions(keep: Keep) -> Any:
    """Convolutions of one, two and three dimensions, grouped, dilated and transposed."""
    parts: list[Any] = [
        nn.Conv1d(4, 8, 5, padding=2),
        nn.ReLU(),
        nn.ConvTranspose1d(8, 8, 4, 2, 1),
        nn.Unflatten(2, (8, 16)),
    ]
    parts += [
        nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4),
        nn.ConvTranspose2d(8, 4, 3, 2, 1, 1),
        nn.Unflatten(2, (4, 4)),
    ]
    parts += [nn.Conv3d(4, 4, 3, padding=1), nn.ELU(inplace=True), nn.ConvTranspose3d(4, 2, 2, 2)]
    return _step(keep, nn.Sequential(*parts), torch.randn(2, 4, 64))


@program
def channels_last(keep: Keep) -> Any:
    """Convolutions with channels last, where results keep the layout."""
    model = conv_net().to(memory_format=torch.channels_last)
    x = torch.randn(4, 3, 16, 16).contiguous(memory_format=torch.channels_last)
    return _step(keep, model, x)


@program
def pooling(keep: Keep) -> Any:
    """Pooling with indices, unpooling, adaptive, fractional and power-average pooling."""
    conv = nn.Conv2d(3, 8, 3, padding=1)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = conv

        def forward(self, x: Any) -> Any:
            a = self.conv(x)
            b, places = functional.max_pool2d(a, 2, return_indices=True)
            c = functional.max_unpool2d(b.tanh(), places, (2, 2))
            d = (
                functional.adaptive_avg_pool2d(a + c, 5),
                functional.adaptive_max_pool2d(c, 3),
                functional.lp_pool2d(a.abs() + 1, 2, 2),
            )
            return a, b, c, d, functional.fractional_max_pool2d(a, 2, 7), functional.avg_pool2d(c, 3, 1)

    return _step(keep, Net(), torch.randn(4, 3, 16, 16))


@program
def resampling(keep: Keep) -> Any:
    """interpolate in its modes, grid_sample with affine_grid, pixel_shuffle, fold and unfold, pad."""
    x, theta = torch.randn(2, 4, 16, 16, requires_grad=True), torch.randn(2, 2, 3, requires_grad=True)
    keep(x=x, theta=theta)
    with keep.context():
        a = [functional.interpolate(x, scale_factor=2, mode=m) for m in ("nearest", "bilinear", "bicubic", "area")]
        b = functional.grid_sample(
            a[1], functional.affine_grid(theta, [2, 4, 16, 16], align_corners=False), align_corners=False
        )
        c = functional.pixel_shuffle(b, 2)
        d = functional.fold(functional.unfold(b, 3, padding=1), 16, 3, padding=1)
        e = functional.pad(d, (2, 2, 1, 1), mode="reflect")
        (sum(t.square().mean() for t in a) + c.sum() + e.square().mean()).backward()
    return a, b, c, d, e


@program
def lstm(keep: Keep) -> Any:
    """A bidirectional LSTM of two layers with dropout."""
    return _step(keep, nn.LSTM(32, 32, 2, dropout=0.2, bidirectional=True), torch.randn(8, 16, 32), steps=1)


@program
def gru_packed(keep: Keep) -> Any:
    """A GRU over packed sequences, and its hidden state carried to the next call."""
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    model, x = nn.GRU(32, 32), torch.randn(8, 8, 32)
    lengths = torch.tensor([8, 7, 7, 5, 4, 3, 2, 1])
    keep(model=model)
    with keep.context():
        packed = pack_padded_sequence(x.sin(), lengths)
        out, hidden = model(packed)
        again, hidden = model(packed, hidden.detach())
        padded, sizes = pad_packed_sequence(again)
        (padded.square().mean() + out.data.mean()).backward()
    return out.data, padded, sizes, hidden


@program
def cells(keep: Keep) -> Any:
    """Cells of LSTM, GRU and RNN in a loop of Python."""
    cells_ = nn.ModuleList([nn.LSTMCell(64, 64), nn.GRUCell(64, 64), nn.RNNCell(64, 64)])
    x = torch.randn(6, 64, 64)
    keep(cells=cells_)
    with keep.context():
        h = c = torch.zeros(64, 64)
        made = []
        for step in x:
            h, c = cells_[0](step, (h, c))
            h = cells_[2](h, cells_[1](h, c))
            made.append(h)
        torch.stack(made).square().mean().backward()
    return made, c


@program
def attention(keep: Keep) -> Any:
    """MultiheadAttention with masks and weights, in training and in its fast path of evaluation."""
    model, x = nn.MultiheadAttention(64, 4, dropout=0.1, batch_first=True), torch.randn(4, 32, 64)
    mask = torch.ones(32, 32, dtype=torch.bool).triu(1)
    keep(model=model)
    with keep.context():
        a, weights = model(x, x, x, attn_mask=mask)
        a.square().mean().backward()
        model.eval()
        with torch.no_grad():
            b = [model(x + k, x + k, x + k, need_weights=False)[0] for k in range(3)]
    return a, weights, b


@program
def encoder(keep: Keep) -> Any:
    """TransformerEncoder in training, and in evaluation with padding, where it makes nested tensors."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2), torch.randn(4, 32, 64)
    padding = torch.arange(32).expand(4, 32) >= torch.tensor([[32], [20], [9], [30]])
    keep(model=model)
    with keep.context():
        a = model(x)
        a.square().mean().backward()
        model.eval()
        with torch.inference_mode():
            b = model(x, src_key_padding_mask=padding).clone()
        with torch.no_grad():
            c = model(x)
    return a, b, c


@program
def scaled_dot_product(keep: Keep) -> Any:
    """Attention by its kernels: causal, with masks, with dropout, with gradients of bias."""
    q, k, v = (torch.randn(2, 4, 32, 16, requires_grad=True) for _ in range(3))
    bias = torch.randn(32, 32, requires_grad=True)
    keep(q=q, k=k, v=v, bias=bias)
    with keep.context():
        a = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        b = functional.scaled_dot_product_attention(a.sin(), k, v, attn_mask=bias)
        c = functional.scaled_dot_product_attention(b, k.tanh(), v, dropout_p=0.2)
        with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
            d = functional.scaled_dot_product_attention(c, k, v)
        d.square().mean().backward()
    return a, b, c, d


@program
def tied_weights(keep: Keep) -> Any:
    """An embedding shares its weight with the last layer."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.body, self.last = nn.Embedding(100, 64), mlp(2), nn.Linear(64, 100, bias=False)
            self.last.weight = self.embedding.weight

        def forward(self, words: Any) -> Any:
            return self.last(self.body(self.embedding(words)))

    return _step(keep, Net(), torch.randint(0, 100, (8, 32)))


@program
def lazy_modules(keep: Keep) -> Any:
    """Lazy modules take their shapes, and make their parameters, inside the context."""
    model = nn.Sequential(nn.LazyConv2d(8, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(16))
    x = torch.randn(4, 3, 16, 16)
    with keep.context():
        model(x)
        keep(model=model)  # until then parameters are memory that nothing has written
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        return train(model, optimizer, x, torch.randn(4, 16))


@program
def losses(keep: Keep) -> Any:
    """Losses of all kinds over one network."""
    model, (batch, target) = mlp(), pair()
    classes = torch.randint(0, 64, (128,))
    keep(model=model)
    with keep.context():
        x = model(batch)
        log = x.log_softmax(1)
        made = [
            functional.nll_loss(log, classes),
            functional.cross_entropy(x, classes, label_smoothing=0.1),
            functional.smooth_l1_loss(x, target),
        ]
        made += [functional.kl_div(log, target.softmax(1), reduction="batchmean"), functional.huber_loss(x, target)]
        made += [
            functional.binary_cross_entropy_with_logits(x, target.sigmoid()),
            functional.cosine_embedding_loss(x, target, torch.ones(128)),
        ]
        made += [
            functional.multi_margin_loss(x, classes),
            functional.triplet_margin_loss(x, target, batch),
            functional.gaussian_nll_loss(x, target, x.exp()),
        ]
        made += [
            functional.ctc_loss(
                log.view(16, 8, 64), classes.view(8, 16)[:, :4], torch.full((8,), 16), torch.full((8,), 4)
            )
        ]
        torch.stack(made).sum().backward()
    return x, made
