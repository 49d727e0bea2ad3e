"""The processor of this machine, as far as kernels of runtimes depend on it."""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["processor_features"]

# The instructions by which ONNX Runtime's kernels, and with them the layouts of packed weights, are chosen: by numpy's
# names, which it asks the processor for, and by those of Linux for what numpy does not know.
_INSTRUCTIONS: Final = re.compile(r"AVX2?|F16C|FMA3|AVX512(F|CD|BW|DQ|VL|VNNI)|NEON|ASIMD(HP|DP)?|SVE")
_OTHERS: Final = re.compile(r"avx_vnni\w*|avx512_bf16|avx_ne_convert|amx_\w+|i8mm|bf16|sve2|svei8mm|svebf16|sme2?")


def processor_features() -> str:
    """The machine, and those of its instructions that kernels are chosen by, such as "x86_64 AVX AVX2 FMA3"."""
    found = {name for name, is_there in _numpy_features().items() if is_there and _INSTRUCTIONS.fullmatch(name)}
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:  # noqa: PTH123
        line = next((line for line in lines if line.startswith(("flags", "Features"))), "")
        found |= set(filter(_OTHERS.fullmatch, line.partition(":")[2].split()))
    return " ".join((platform.machine(), *sorted(found)))


def _numpy_features() -> Mapping[str, bool]:
    for module in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):  # of numpy 2, and of numpy 1
        with suppress(ImportError):
            found: Mapping[str, bool] = import_module(module).__cpu_features__
            return found
    return {}
