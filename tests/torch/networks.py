"""Small networks with the structure of well-known ones: every kind of block, few channels."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

__all__ = ["CASES", "Experts", "Gpt", "MixtureOfExperts", "MobileNetV2", "ResNet18", "make"]


def _conv(inner: int, outer: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outer))


class _Residual(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _conv(inner, outer, 3, stride), _conv(outer, outer, 3)
        self.shortcut = _conv(inner, outer, 1, stride) if stride != 1 or inner != outer else nn.Identity()

    def forward(self, x: Any) -> Any:
        y = functional.relu(self.first(x), inplace=True)
        return functional.relu(self.second(y).add_(self.shortcut(x)), inplace=True)


class ResNet18(nn.Module):
    """The 18 layers of He et al. 2015, with `width` channels in the first stage instead of 64."""

    def __init__(self, width: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        blocks = []
        inner = width
        for stage in range(4):
            for k in range(2):
                outer = width << stage
                blocks.append(_Residual(inner, outer, 2 if stage and not k else 1))
                inner = outer
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inner, classes)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class _Inverted(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int, expand: int) -> None:
        super().__init__()
        middle = inner * expand
        grow = [_conv(inner, middle, 1), nn.ReLU6(inplace=True)] if expand != 1 else []
        depthwise = [_conv(middle, middle, 3, stride, groups=middle), nn.ReLU6(inplace=True)]
        self.body = nn.Sequential(*grow, *depthwise, _conv(middle, outer, 1))
        self.skips = stride == 1 and inner == outer

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.skips else self.body(x)


class MobileNetV2(nn.Module):
    """The blocks of Sandler et al. 2018 at a quarter of their width, with dropout before the classifier."""

    STAGES = ((1, 4, 1, 1), (6, 6, 2, 2), (6, 8, 3, 2), (6, 16, 4, 2), (6, 24, 3, 1), (6, 40, 3, 2), (6, 80, 1, 1))

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = [_conv(3, 8, 3, 2), nn.ReLU6(inplace=True)]
        inner = 8
        for expand, outer, count, stride in self.STAGES:
            for k in range(count):
                layers.append(_Inverted(inner, outer, 1 if k else stride, expand))
                inner = outer
        self.body = nn.Sequential(*layers, _conv(inner, 320, 1), nn.ReLU6(inplace=True))
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(320, classes))

    def forward(self, x: Any) -> Any:
        return self.head(self.body(x).mean((2, 3)))


class _Decoder(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        attended = functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0
        )
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        grown = functional.dropout(functional.gelu(self.grow(self.norm2(x))), self.dropout, self.training)
        return x + self.shrink(grown)


class Gpt(nn.Module):
    """Decoders before a head that has the embedding's weights."""

    def __init__(self, layers: int = 3, width: int = 32, heads: int = 4, words: int = 50, dropout: float = 0.0) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(16, width) * 0.02)
        self.blocks = nn.Sequential(*(_Decoder(width, heads, dropout) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.blocks(self.words(x) + self.places))).flatten(0, 1)


class Experts(nn.Module):
    """Each token goes through the `most` experts with the highest scores: what an expert gets depends on the data."""

    def __init__(self, width: int, experts: int, most: int) -> None:
        super().__init__()
        self.most = most
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(experts)
        )

    def forward(self, x: Any, scores: Any) -> Any:
        weights, chosen = scores.topk(self.most, -1)
        weights = weights.softmax(-1)
        out = torch.zeros_like(x)
        for number, part in enumerate(self.parts):
            token, place = torch.where(chosen == number)
            out = out.index_add(0, token, part(x[token]) * weights[token, place, None])
        return out


class _Mixed(nn.Module):
    def __init__(self, width: int, experts: int, most: int) -> None:
        super().__init__()
        self.norm, self.dense = nn.LayerNorm(width), nn.Linear(width, width)
        self.router = nn.Linear(width, experts)
        self.experts = Experts(width, experts, most)

    def forward(self, x: Any) -> Any:
        y = self.norm(x + self.dense(x))
        return x + self.experts(y, self.router(y))


class MixtureOfExperts(nn.Module):
    """Layers with a router and experts (Shazeer et al. 2017), between an embedding and a head."""

    def __init__(self, layers: int = 2, width: int = 32, experts: int = 4, most: int = 2, words: int = 50) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*(_Mixed(width, experts, most) for _ in range(layers)))
        self.head = nn.Linear(width, words)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.words(x.flatten())))


CASES = ("resnet18", "mobilenet_v2", "gpt", "gpt_dropout")


def make(name: str) -> tuple[nn.Module, tuple[Any, Any]]:
    """One of `CASES` with a batch of two; the same weights every time."""
    torch.manual_seed(0)
    if name.startswith("gpt"):
        words = torch.randint(0, 50, (2, 17))
        return Gpt(dropout=0.1 if "dropout" in name else 0.0), (words[:, :-1].clone(), words[:, 1:].reshape(-1))
    model = ResNet18() if name == "resnet18" else MobileNetV2()
    return model, (torch.randn(2, 3, 32, 32), torch.tensor([3, 7]))
