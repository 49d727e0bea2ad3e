"""Trains a small network in an order that needs less memory, with the losses of plain PyTorch bit for bit."""

import copy

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import edgemem
import edgemem.torch

torch.manual_seed(0)
layers = [layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.ReLU())]
model = nn.Sequential(*layers, nn.Linear(256, 10))
plain = copy.deepcopy(model)
optimizer, plain_optimizer = torch.optim.AdamW(model.parameters()), torch.optim.AdamW(plain.parameters())
data = [(torch.randn(4, 256), torch.randint(0, 10, (4,))) for _ in range(10)]

graph = edgemem.torch.capture(model, cross_entropy, data[0], optimizer)
ordering = edgemem.order(graph)
step = edgemem.torch.reorder(graph, ordering.order)
print(f"bytes of a step: {ordering.given_peak:,} in PyTorch's order, {ordering.peak:,} reordered")

for inputs, targets in data:
    with edgemem.torch.LiveBytes() as live:
        loss = step(model, optimizer, (inputs, targets))
    plain_optimizer.zero_grad()
    plain_loss = cross_entropy(plain(inputs), targets)
    plain_loss.backward()
    plain_optimizer.step()
    assert torch.equal(loss, plain_loss)
print(f"measured: {live.peak:,}")
print(f"{len(data)} steps with equal losses")
