"""The session of a device without one: host memory stands for the device's, and ctypes for PyTorch's CUDA side."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

# Replaces what the driver would do, and asks as CUDAPluggableAllocator does.
STAND_IN = """
import contextlib
import ctypes

import torch

import edgemem.torch
from edgemem.replay import cuda as replay_cuda
from edgemem.replay.library import library
from edgemem.torch import cuda as torch_cuda

libc = ctypes.CDLL(None)
taken = {}


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t)
def take(place, size):
    status = libc.posix_memalign(place, ctypes.c_size_t(512), ctypes.c_size_t(size))
    taken[place[0]] = size
    return status


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
def give(place):
    taken.pop(place)
    libc.free(ctypes.c_void_p(place))
    return 0


class Runtime:
    @staticmethod
    def cudaMalloc(place, size):
        return take(ctypes.cast(place, ctypes.POINTER(ctypes.c_void_p)), size)

    @staticmethod
    def cudaFree(place):
        return give(place)


waits = []
replay_cuda.cuda_runtime = lambda: Runtime
torch_cuda._allocator = object()
torch.cuda.device = lambda number: contextlib.nullcontext()
torch.cuda.synchronize = lambda number=None: waits.append(number)
c = library().c
c.em_cuda_source(ctypes.cast(take, ctypes.c_void_p), ctypes.cast(give, ctypes.c_void_p))
c.em_torch_malloc.restype = ctypes.c_void_p
c.em_torch_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
c.em_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
c.em_torch_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
MAIN, SIDE = 1, 2  # streams


def ask(size, stream=MAIN):
    return c.em_torch_malloc(size, 0, stream)


def free(block, stream=MAIN):
    c.em_torch_free(block, 0, 0, stream)


def step():
    first, second = ask(3 << 20), ask(1 << 20)
    side = ask(5000, SIDE)
    free(first)
    third = ask(2 << 20)
    for block in (second, third):
        free(block)
    free(side, SIDE)
    return first, second, third, side


"""


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", STAND_IN + program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_stream_of_the_plan_gets_its_places_and_the_other_one_the_fallback() -> None:
    run(
        """
plan = edgemem.torch.profile(step, device="cuda:0").plan()
assert plan.device == "cuda:0"
assert plan.size == plan.lower_bound == 4 << 20
cached = sum(taken.values())
assert cached > 0
with plan.session() as session:
    assert sum(taken.values()) == plan.size  # what the profile left in the fallback's cache went back
    (arena,) = taken
    for _ in range(3):
        with session.iteration():
            *inside, side = step()
            assert all(arena <= block < arena + plan.size for block in inside)
            assert not arena <= side < arena + plan.size
    stats = session.stats
    assert (stats.last.hits, stats.last.other_stream, stats.last.requests) == (3, 1, 4)
    assert stats.fallback.reserved == sum(taken.values()) - plan.size
    assert stats.fallback.used == 0
assert arena not in taken
"""
    )


def test_a_block_of_two_streams_waits_for_the_device() -> None:
    run(
        """
plan = edgemem.torch.profile(step, device="cuda:0").plan()
with plan.session(replans=0) as session:
    with session.iteration():
        first = ask(3 << 20)
        c.em_torch_record_stream(first, SIDE)
        free(first)
    with session.iteration():
        assert step()[0] != first
        assert session.stats.last.requests == 1
    while len(waits) < 3:  # one before each arena, and one after some iterations
        with session.iteration():
            step()
        assert session.stats.iterations < 40
    with session.iteration():
        assert step()[0] == first
"""
    )


def test_an_arena_whose_blocks_live_on_is_freed_with_the_last_of_them() -> None:
    run(
        """
plan = edgemem.torch.profile(step, device="cuda:0").plan()
with plan.session() as session:
    (arena,) = taken
    with session.iteration():
        kept = ask(3 << 20)
    assert kept == arena
assert arena in taken
ctypes.memset(kept, 7, 3 << 20)
with plan.session() as session:
    assert len(taken) == 2
free(kept)
with plan.session() as session:
    assert len(taken) == 1
"""
    )


def test_places_on_a_device_are_aligned_as_pytorch_aligns_them() -> None:
    run(
        """
def odd():
    blocks = [ask(size) for size in (100, 700, 65, 3000)]
    for block in blocks:
        free(block)
    return blocks


plan = edgemem.torch.profile(odd, device="cuda:0").plan()
(by_rank,) = edgemem.torch.plan_ranks([edgemem.torch.profile(odd, device="cuda:0")])
assert plan.size == by_rank.size == plan.lower_bound
for first in (plan.made, None):
    with edgemem.torch.sessions.Session(first, device="cuda:0") as session:
        for _ in range(8):
            with session.iteration():
                blocks = odd()
        assert session.stats.last.hits == 4
        assert not any(block % 512 for block in blocks)
"""
    )
