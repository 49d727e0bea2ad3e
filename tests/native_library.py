"""The C ABI of kernels/android/edgemem_android.h through ctypes, and what it should say of a plan set."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.replay.library import library

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from edgemem.plans import OffsetPlan, PlanSet

__all__ = [
    "FILE",
    "MADE_HERE",
    "ONNX",
    "PLANFILE",
    "RECORDED",
    "TFLITE",
    "PlanFile",
    "Planned",
    "Record",
    "Run",
    "Session",
    "SetFacts",
    "c",
    "expected",
    "last_error",
]

PLANFILE, ONNX, TFLITE = 0, 1, 2  # forms
RECORDED, FILE, MADE_HERE = 0, 1, 2  # sources of a run
GRAPH, RECORDING, CYCLE = 0, 1, 2
_KINDS: Final = ("tensor", "input", "output", "variable", "scratch", "state")
_INT64_MAX: Final = 2**63 - 1


class _Set(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("is_usable", ctypes.c_int32),
        *((name, ctypes.c_char_p) for name in ("target", "digest", "strategy", "runtime", "version", "model")),
        *((name, ctypes.c_int64) for name in ("arena", "lower_bound", "naive", "alignment", "records", "steps")),
        ("is_optimal", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class _Record(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        *((name, ctypes.c_int64) for name in ("first", "last", "size", "offset")),
        ("kind", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class Planned(ctypes.Structure):
    """`em_planned`."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("arena", "lower_bound", "naive", "requests")),
        ("strategy", ctypes.c_char_p),
    ]


class Run(ctypes.Structure):
    """`em_run`."""

    _fields_ = [
        ("source", ctypes.c_int32),
        ("is_complete", ctypes.c_int32),
        *(
            (name, ctypes.c_int64)
            for name in (
                *("planned", "arena", "measured", "lower_bound", "naive"),
                *("requests", "hits", "misses", "heap_peak", "replans"),
            )
        ),
    ]


Record = tuple[bytes, int, int, int, int, int]


@dataclass(frozen=True)
class SetFacts:
    """One plan set: what `em_planset` says, and its records as (name, first, last, size, offset, kind)."""

    kind: int
    is_usable: bool
    texts: tuple[bytes, ...]
    numbers: tuple[int, ...]
    is_optimal: bool
    records: tuple[Record, ...]


def c() -> Any:
    """The library with its functions' types."""
    lib = library().c
    lib.em_planfile_read.restype = lib.em_planfile_plan.restype = ctypes.c_void_p
    lib.em_planfile_read.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int32]
    lib.em_planfile_release.argtypes = lib.em_planfile_sets.argtypes = [ctypes.c_void_p]
    lib.em_planfile_sets.restype = ctypes.c_int64
    lib.em_planfile_set.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    lib.em_planfile_record.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    lib.em_planfile_plan.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    lib.em_plan_release.argtypes = [ctypes.c_void_p]
    lib.em_plan_record.restype = ctypes.c_void_p
    lib.em_plan_record.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    lib.em_session_create.restype = ctypes.c_void_p
    lib.em_session_create.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    lib.em_session_begin.argtypes = lib.em_session_destroy.argtypes = [ctypes.c_void_p]
    lib.em_session_end.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    lib.em_session_places.restype = ctypes.c_int64
    lib.em_session_places.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    lib.em_tflite_place.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int64]
    lib.em_last_error.restype = ctypes.c_char_p
    return lib


def last_error() -> str:
    return str(c().em_last_error(), "utf-8", "replace")


def _row(record: _Record) -> Record:
    return (record.name, record.first, record.last, record.size, record.offset, record.kind)


class PlanFile:
    """`em_planfile`. Raises ValueError with the library's text for bytes that it refuses."""

    def __init__(self, data: bytes, form: int = PLANFILE) -> None:
        self.handle = c().em_planfile_read(data, len(data), form)
        if not self.handle:
            raise ValueError(last_error())

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            c().em_planfile_release(self.handle)

    def __iter__(self) -> Iterator[SetFacts]:
        return (self.facts(k) for k in range(c().em_planfile_sets(self.handle)))

    def facts(self, index: int) -> SetFacts:
        s, record = _Set(), _Record()
        assert c().em_planfile_set(self.handle, index, ctypes.byref(s)) == 0
        records = []
        for k in range(s.records):
            assert c().em_planfile_record(self.handle, index, k, ctypes.byref(record)) == 0
            records.append(_row(record))
        texts = (s.target, s.digest, s.strategy, s.runtime, s.version, s.model)
        numbers = (s.arena, s.lower_bound, s.naive, s.alignment, s.steps)
        return SetFacts(s.kind, bool(s.is_usable), texts, numbers, bool(s.is_optimal), tuple(records))

    def has_plan(self, index: int) -> bool:
        """Whether em_planfile_plan gives a plan."""
        plan = c().em_planfile_plan(self.handle, index)
        c().em_plan_release(plan)
        return bool(plan)


class Session:
    """`em_session`."""

    def __init__(self, file: PlanFile | None = None, flags: int = 0) -> None:
        self.handle = c().em_session_create(file and file.handle, flags)
        assert self.handle, last_error()

    def __del__(self) -> None:
        c().em_session_destroy(self.handle)

    def __enter__(self) -> Run:
        """Begins a run; the structure is filled when it ends."""
        assert c().em_session_begin(self.handle) == 0, last_error()
        self._run = Run()
        return self._run

    def __exit__(self, *_: object) -> None:
        assert c().em_session_end(self.handle, ctypes.byref(self._run)) == 0, last_error()

    def places(self) -> list[Record]:
        count = c().em_session_places(self.handle, 0, None)
        held = (_Record * count)()
        assert c().em_session_places(self.handle, count, held) == count
        return [_row(r) for r in held]


def _seen(text: str) -> bytes:
    """A text as C has it: up to its first zero."""
    return text.encode().partition(b"\0")[0]


def expected(p: PlanSet) -> SetFacts:
    """What the C ABI should say of a plan set."""
    q, fingerprint = p.problem, p.recording and p.recording.fingerprint
    best = min(p.offsets, key=lambda plan: plan.size, default=None)
    kind = RECORDING if p.recording is not None else CYCLE if p.cycle is not None else GRAPH
    texts = (
        *(p.target.name if p.target else "", p.digest, best.strategy if best else ""),
        *((fingerprint.runtime, fingerprint.version, fingerprint.model) if fingerprint else ("", "", "")),
    )
    if p.recording is not None:
        steps = len(p.recording.trace)
    elif p.cycle is not None:
        steps = p.cycle.length
    else:
        steps = len(p.steps) or min(int(q.last_op.max(initial=-1)) + 1, _INT64_MAX)
    offsets = best.offsets.tolist() if best else [-1] * len(q)
    columns = zip(q.names, q.first_op.tolist(), q.last_op.tolist(), q.size.tolist(), offsets, q.records, strict=True)
    return SetFacts(
        kind,
        best is not None and _is_usable(p, best),
        tuple(map(_seen, texts)),
        (best.size if best else 0, p.bounds.offsets, p.naive, q.alignment, steps),
        best is not None and best.size == p.bounds.offsets,  # whatever flag the file has
        tuple((_seen(name), *rest, _KINDS.index(record.kind)) for name, *rest, record in columns),
    )


def _is_usable(p: PlanSet, best: OffsetPlan) -> bool:
    """By the words of the header, pair by pair."""
    q = p.problem
    if p.target is not None and not p.target.is_dense:
        return False
    if p.cycle is not None or q.features - {"pinned", "state"} or q.extents is not None:
        return False
    if best.regions is not None or best.region_sizes or tuple(p.order or ()) != tuple(range(len(p.order or ()))):
        return False
    rows = list(zip(q.first_op.tolist(), q.last_op.tolist(), q.size.tolist(), best.offsets.tolist(), strict=True))
    if any(at % q.alignment or at + size > best.size for _, _, size, at in rows):
        return False
    if q.pinned is not None and ((q.pinned >= 0) & (q.pinned != best.offsets) & (q.size > 0)).any():
        return False
    return not _meet([row for row in rows if row[2] > 0])


def _meet(rows: Sequence[tuple[int, int, int, int]]) -> bool:
    """Whether two records that are in use at the same time have common bytes."""
    for i, (first, last, size, at) in enumerate(rows):
        for other_first, other_last, other_size, other_at in rows[:i]:
            in_time = max(first, other_first) <= min(last, other_last)
            if in_time and max(at, other_at) < min(at + size, other_at + other_size):
                return True
    return False


def stacked(p: PlanSet) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Offsets of the records end to end, each aligned: right for any problem without pins."""
    q = p.problem
    padded = -(-q.size // q.alignment) * q.alignment
    return np.concatenate(([0], np.cumsum(padded)[:-1])).astype(np.int64)[: len(q)]
