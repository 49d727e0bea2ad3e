"""Plans on a CUDA device. Each test has a process of its own: PyTorch's allocator is changed at its beginning, once."""

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import edgemem.torch  # noqa: E402
from edgemem.errors import RuntimeBindError  # noqa: E402

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no CUDA device")

TRAIN = """
import os
import sys

import torch

import edgemem.torch
from tests.torch.training import Training, bits


def trained(planned):
    training = Training("gpt", "adam")
    training.model.cuda()
    batches = [[part.cuda() for part in training.batch()] for _ in range(20)]
    left = iter(batches)

    def step():
        given, target = next(left)
        training.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(training.model(given), target)
        loss.backward()
        training.optimizer.step()
        training.losses.append(float(loss))

    if planned:
        plan = edgemem.torch.profile(step, device="cuda").plan()
        assert plan.size <= 1.01 * plan.lower_bound
        with plan.session() as session:
            for _ in range(13):
                with session.iteration():
                    step()
            last = session.stats.last
        assert last.hits == last.requests > 100, last
    else:
        for _ in range(20):
            step()
    return training.losses, bits(p.cpu() for p in training.model.parameters())


os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else cuBLAS is refused as not deterministic
torch.use_deterministic_algorithms(True)
"""


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", TRAIN + program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_gpu
def test_training_is_bit_identical_and_in_the_plan() -> None:
    run("edgemem.torch.use_cuda_allocator()\nassert trained(planned=True) == trained(planned=False)\n")


@needs_gpu
def test_the_fallback_alone_computes_what_pytorchs_allocator_does() -> None:
    digest = "import hashlib\nprint(hashlib.sha256(repr(trained(planned=False)).encode()).hexdigest())\n"
    assert run(digest) == run("edgemem.torch.use_cuda_allocator()\n" + digest)


@needs_gpu
def test_blocks_that_another_stream_uses_are_not_given_again_early() -> None:
    run(
        """
edgemem.torch.use_cuda_allocator()
side = torch.cuda.Stream()
results = []
with edgemem.torch.Session(device="cuda") as session:
    for k in range(40):
        with session.iteration():
            block = torch.full((1 << 22,), float(k), device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.cuda._sleep(1_000_000)
                results.append((k, block.sum()))
            block.record_stream(side)
            del block
            torch.zeros(1 << 22, device="cuda")
torch.cuda.synchronize()
assert session.stats.replans >= 1
for k, total in results:
    assert float(total) == k * (1 << 22), (k, float(total))
"""
    )


@needs_gpu
def test_the_allocator_is_set_before_the_first_tensor_or_not_at_all() -> None:
    run(
        """
torch.zeros(1, device="cuda")
try:
    edgemem.torch.use_cuda_allocator()
except edgemem.errors.RuntimeBindError as e:
    assert "before the first tensor" in str(e)
else:
    raise SystemExit("not refused")
"""
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="PyTorch finds a CUDA device")
def test_without_a_device_the_error_says_so() -> None:
    with pytest.raises(RuntimeBindError, match="finds no CUDA device"):
        edgemem.torch.use_cuda_allocator()
    with pytest.raises(RuntimeBindError, match="use_cuda_allocator"):
        edgemem.torch.Session(device="cuda:0")
