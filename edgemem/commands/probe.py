"""What `edgemem probe` does: a kernel profile's claims against the kernels of the installed runtime."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from edgemem.model.profiles import PROFILES
from edgemem.runtime.tflm.probe import probe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.runtime.tflm.probe import ProbeResult, Verdict

__all__ = ["ProbeReport", "probe_kernels"]


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What all cases have shown.

    Attributes:
        runtime: its name and version.
        profile: whose claims were tried.
        rows: the cases.
    """

    runtime: str
    profile: str
    rows: tuple[ProbeResult, ...]

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """How many cases have each verdict."""
        return Counter(row.verdict for row in self.rows)


def probe_kernels(profile: str) -> ProbeReport:
    """Probe the installed TensorFlow Lite Micro. Raises ModelError for a profile that claims nothing.

    Otherwise raises as `edgemem.runtime.tflm.probe.probe`.
    """
    known = [name for name in PROFILES if name != "none"]
    if profile not in known:
        raise ModelError(f"the kernel profile {profile!r} claims nothing; there are {', '.join(known)}")
    rows = probe(profile)
    return ProbeReport(f"tflite-micro {version('tflite-micro')}", profile, rows)
