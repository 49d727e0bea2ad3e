"""What is fuzzed: the list of targets, and what each of them says of itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

from edgemem.errors import EdgememError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

__all__ = ["MOST_BYTES", "TARGETS", "Target", "load_target", "outcome"]

MOST_BYTES: Final = 1 << 18  # of one case

# By name: the module whose `TARGET` it is.
TARGETS: Final = {
    "onnx": "tests.fuzz.onnx_files",
    "tflite": "tests.fuzz.tflite_files",
    "plan": "tests.fuzz.plan_files",
    "embedded": "tests.fuzz.embedded_plans",
    "csv": "tests.fuzz.csv_files",
    "toml": "tests.fuzz.toml_files",
    "snapshot": "tests.fuzz.snapshot_files",
    "trace": "tests.fuzz.trace_files",
    "report": "tests.fuzz.report_pages",
    "cache": "tests.fuzz.cache_entries",
    "kernels": "tests.fuzz.kernel_calls",
}


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of bytes that a stranger may give.

    Attributes:
        run: all that is done with them. It may raise what is in `allowed`, and nothing else.
        seeds: well-formed cases, made by scripts.
        mutate: (chance, a case, all cases kept so far) -> another case.
        allowed: errors that may come of it.
    """

    run: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    mutate: Callable[[random.Random, bytes, Sequence[bytes]], bytes]
    allowed: tuple[type[BaseException], ...] = (EdgememError,)


def load_target(name: str) -> Target:
    """A target of the list, or `faulty`, by which the harness is tested."""
    target: Target = import_module(TARGETS.get(name, f"tests.fuzz.{name}")).TARGET
    return target


def outcome(target: Target, data: bytes) -> str:
    """What came of a case, in words that are equal for cases of one sort. Raises what the target may not raise."""
    try:
        target.run(data)
    except target.allowed as e:
        return f"{type(e).__name__}: {re.sub(r'[0-9]+|[^ -~]', '', re.sub(_QUOTED, '', str(e)))[:100]}"
    return "ok"


_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|\b[\w./-]*/[\w./-]*")
