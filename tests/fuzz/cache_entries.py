"""Entries of the cache of recorded plans. Whatever lies there, a session runs: nothing at all may be raised.

A case is the content of the entry that a session looks for. The session here is a program that asks the allocator for
memory as its recording says; its blocks must be apart from each other whatever plan it runs in.
"""

from __future__ import annotations

import atexit
import ctypes
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgemem.planfile import decode, encode
from edgemem.planning.recording_plan import plan_recording
from edgemem.plans import OffsetPlan, Settings
from edgemem.replay.cache import PlanCache
from edgemem.replay.library import library
from edgemem.replay.policy import ReplayPolicy
from edgemem.replay.replayer import Replayer
from edgemem.replay.store import StoredPlans
from edgemem.trace import Trace
from edgemem.trace.recording import Fingerprint, Recording, Signature
from tests.fuzz.cases import Target
from tests.fuzz.mutation import edge, mutate_bytes, reread
from tests.fuzz.plan_files import change_planset, resealed

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from edgemem.plans import PlanSet

__all__ = ["TARGET"]

_SIGNATURE = Signature("run", (("x", "float", (1, 4)),))
_FINGERPRINT = Fingerprint("runtime", "1", "model", {"threads": 1}, _SIGNATURE)
_SETTINGS = Settings()
_STREAM = (64, 128, -1, 256, 40, -2, -3, 100, -5)  # the request of 40 bytes outlives the run
_RUNS = 4
_PLANSET = plan_recording(Recording(_FINGERPRINT, Trace.from_stream(_STREAM)), _SETTINGS)


def _allocations() -> list[tuple[int, int]]:
    """Do as the recording says. The blocks, as addresses and bytes; those alive together must be apart."""
    c = library().c
    c.em_allocate.restype, c.em_allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    c.em_free.restype, c.em_free.argtypes = None, [ctypes.c_void_p]
    blocks: list[tuple[int, int]] = []
    alive: dict[int, tuple[int, int]] = {}
    for event in _STREAM:
        if event < 0:
            address, size = alive.pop(-event - 1)
            assert ctypes.string_at(address, size) == bytes([-event % 256]) * size, "something wrote over a block"
            c.em_free(address)
            continue
        address = c.em_allocate(event)
        assert address, "no memory"
        number = len(blocks)
        ctypes.memset(address, (number + 1) % 256, event)
        blocks.append((address, event))
        alive[number] = blocks[-1]
    for address, _ in alive.values():
        c.em_free(address)
    return blocks


def _run(data: bytes) -> None:
    cache = PlanCache(_PLACE)
    cache._path(_PLANSET).write_bytes(data)
    stored = StoredPlans(replace(_FINGERPRINT, signature=Signature("", ())), (), _SETTINGS, cache)
    plan = partial(plan_recording, settings=_SETTINGS)
    replayer = Replayer(stored, first=plan, better=plan, policy=ReplayPolicy(background=False))
    for _ in range(_RUNS):
        replayer.run(replayer.family(_SIGNATURE), lambda: _SIGNATURE, _allocations)
    assert replayer.totals().replayed >= 1, "the plan that is made now is replayed"
    replayer.close()


def _changed(planset: PlanSet, chance: random.Random) -> PlanSet:
    """As `change_planset`, but often one that the proof accepts: what is far away, or of another run."""
    if chance.random() < 0.5:
        return change_planset(planset, chance)
    kind = chance.randrange(3)
    (best,) = planset.offsets
    if kind == 0:
        moved = best.offsets + np.int64(64 * edge(chance, 2**50))
        size = int((moved + planset.problem.size).max(initial=0))
        return replace(planset, offsets=(OffsetPlan("naive", {}, moved, size, optimal=False),))
    if kind == 1:
        sizes = [max(1, edge(chance, 2**50)) for _ in range(chance.randrange(1, 4))]
        frees = [-k - 1 for k in range(len(sizes))]
        recording = Recording(_FINGERPRINT, Trace.from_stream([*sizes, *frees]))
        return plan_recording(recording, _SETTINGS)
    return plan_recording(
        Recording(_FINGERPRINT, Trace.from_stream(_STREAM)), Settings(alignment=1 << chance.randrange(50))
    )


def _mutate(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if chance.random() < 0.4:
        return resealed(data[:16] + mutate_bytes(chance, data[16:], [other[16:] for other in others[:50]], 2))
    return reread(
        lambda: encode(replace(_changed(decode(data), chance), settings=_SETTINGS)),
        resealed(mutate_bytes(chance, data, others)),
    )


def _seeds() -> list[bytes]:
    return [encode(_PLANSET), b""]


_FOLDER = tempfile.TemporaryDirectory(prefix="edgemem-fuzz-cache-")
atexit.register(_FOLDER.cleanup)
_PLACE = Path(_FOLDER.name)

TARGET = Target(_run, _seeds, _mutate, allowed=())
