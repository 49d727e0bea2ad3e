"""Whether the kernels of the installed TensorFlow Lite Micro keep the distances that a kernel profile claims.

A model of one operator runs with its input at every distance from its output, from one side to the other. Where its
output differs from that of a run with the two apart, the kernel has overwritten what it still had to read. So a probe
can show that a claim is wrong. It cannot prove one: other shapes may behave otherwise, and so may a value that happens
to come out the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from edgemem.errors import MissingDependencyError, RuntimeBindError
from edgemem.formats import open_bytes, write_operator
from edgemem.model.overlap import distance
from edgemem.runtime.tflm.execution import is_installed
from edgemem.runtime.tflm.probe_cases import probe_cases
from edgemem.system.child_call import Message, stream_child

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from edgemem.runtime.tflm.probe_cases import ProbeCase

__all__ = ["DTYPES", "ProbeResult", "Verdict", "probe"]

Verdict = Literal["contradicted", "exact", "slack", "disjoint", "not run"]

DTYPES: Final = ("float32", "int8")
_ALIGNMENT: Final = 16
_RUNS: Final = 3  # of each model at each distance, with other inputs in one interpreter
_TIMEOUT_S: Final = 300.0
_APART: Final = (0x5A5EED10, 0x5B5EED20)  # offsets in the file until the worker writes others; each stands there once


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What one case has shown.

    Attributes:
        name: of the case.
        dtype: of the input.
        type: of the operator.
        claimed: the profile's least safe distance in bytes, of the input's offset less the output's; None: disjoint.
        observed: the least distance from which on no run differed; None if it did not run.
        disjoint: the output's size: from this distance on the two are disjoint.
        step: bytes from one distance that was tried to the next.
        reason: why it did not run, or "".
    """

    name: str
    dtype: str
    type: str
    claimed: int | None
    observed: int | None
    disjoint: int
    step: int
    reason: str = ""

    @property
    def verdict(self) -> Verdict:
        """What the runs say about the claim.

        `contradicted`: a run at the claimed distance, or at a greater one, differed. `exact`: none did, but one at the
        next distance below. `slack`: that one did not either. `disjoint`: nothing is claimed.
        """
        if self.observed is None:
            return "not run"
        if self.claimed is None:
            return "disjoint"
        if self.claimed <= self.observed - self.step:
            return "contradicted"
        return "exact" if self.claimed <= self.observed else "slack"


def probe(
    profile: str, dtypes: Iterable[str] = DTYPES, *, cases: Sequence[ProbeCase] | None = None
) -> tuple[ProbeResult, ...]:
    """Run all cases at all distances, and compare with what a kernel profile claims.

    Args:
        profile: one of `edgemem.model.profiles.PROFILES`.
        dtypes: of the inputs.
        cases: these alone.

    Raises:
        MissingDependencyError: tflite-micro is not installed, or ai-edge-litert, which has the schema of the files.
        RuntimeBindError: it does not run a single case.
    """
    if not is_installed():
        raise MissingDependencyError("tflite-micro", purpose="probing TensorFlow Lite Micro")
    chosen = [case for dtype in dtypes for case in probe_cases(dtype)] if cases is None else list(cases)
    jobs = [_job(number, case) for number, case in enumerate(chosen)]
    observed = _observe(jobs)
    found = []
    for case, job, result in zip(chosen, jobs, observed, strict=True):
        least = result if isinstance(result, int) else None
        reason = result if isinstance(result, str) else ""
        claimed = _claimed(profile, job.model)
        found.append(ProbeResult(case.name, case.dtype, case.operator.type, claimed, least, job.made, job.step, reason))
    if found and all(row.observed is None for row in found):
        raise RuntimeBindError(f"TensorFlow Lite Micro ran none of the {len(found)} cases: {found[0].reason}")
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """A file with inputs for each run, and the sizes of its input and output, and of the input's elements, in bytes."""

    model: bytes
    inputs: NDArray[np.generic]
    read: int
    made: int
    step: int


def _claimed(profile: str, model: bytes) -> int | None:
    graph = open_bytes(model, ".tflite").graph()
    op = graph.ops[0]
    return distance(profile, graph, op, op.inputs.index(graph.inputs[0]))


def _job(number: int, case: ProbeCase) -> _Job:
    model = write_operator(case.operator, _APART, ".tflite")
    if any(model.count(number.to_bytes(4, "little")) != 1 for number in _APART):
        raise RuntimeBindError(f"the file of {case.name!r} does not have its offsets once; leave the case out")
    given = next(value for value in case.operator.inputs if value.data is None)
    dtype = np.dtype(given.dtype)
    rng = np.random.default_rng(number + 1)
    inputs = [_random(rng, given.shape, dtype) for _ in range(_RUNS)]
    made = int(np.prod(case.operator.output.shape)) * np.dtype(case.operator.output.dtype).itemsize
    return _Job(model, np.stack(inputs), inputs[0].nbytes, made, dtype.itemsize)


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    """Values none of which is zero: what is destroyed is to be seen."""
    if dtype.kind == "f":
        values = rng.uniform(0.5, 4, shape) * rng.choice((-1, 1), shape)
    else:
        values = rng.integers(1, 127, shape) * rng.choice((-1, 1), shape)
    return np.asarray(values, dtype)


def _observe(jobs: Sequence[_Job]) -> list[int | str]:
    """For each job the least safe distance, or why it did not run."""
    results: list[int | str] = []
    while len(results) < len(jobs):
        left = jobs[len(results) :]
        table = [{"read": job.read, "made": job.made, "step": job.step} for job in left]
        arrays = [array for job in left for array in (np.frombuffer(job.model, np.uint8), job.inputs)]
        question = Message({"apart": _APART, "alignment": _ALIGNMENT, "jobs": table}, arrays)
        answers, failure = stream_child("edgemem.runtime.tflm.probe_worker", question, timeout_s=_TIMEOUT_S)
        results += [answer.data["result"] for answer in answers]
        if len(results) < len(jobs):  # the next one has ended the process
            results.append(f"TensorFlow Lite Micro did not run it: {failure}")
    return results
