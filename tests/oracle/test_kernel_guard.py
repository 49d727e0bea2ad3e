"""No kernel writes more than its profile says: compiled kernels of libraries run between guard bytes.

CMSIS-NN 99f736a63036 and 4ab83cc3cc98 were compiled as plain C and for Arm with DSP instructions, ESP-NN d45b843ca5f8
as plain C. Builds for MVE, and the assembly of ESP32-S3 and -P4, need processors that no emulator here has.
"""

from __future__ import annotations

import os
from random import Random
from typing import Final

import pytest

from tests.oracle.kernel_guard import cmsis, esp
from tests.oracle.kernel_guard.draws import damage_of
from tests.oracle.kernel_guard.image import Server

CMSIS: Final = os.environ.get("EDGEMEM_CMSIS_NN", "")
ESP: Final = os.environ.get("EDGEMEM_ESP_NN_KERNELS", "")
CASES: Final = int(os.environ.get("EDGEMEM_GUARD_CASES", "1000"))


@pytest.mark.skipif(not CMSIS, reason="no kernels of CMSIS-NN: EDGEMEM_CMSIS_NN names no program")
@pytest.mark.parametrize("name", cmsis.OPERATORS)
def test_cmsis_nn(name: str) -> None:
    with Server(CMSIS) as server:
        assert damage_of(cmsis.OPERATORS[name], Random(1), server, CASES) == []


@pytest.mark.skipif(not ESP, reason="no kernels of ESP-NN: EDGEMEM_ESP_NN_KERNELS names no program")
@pytest.mark.parametrize("name", esp.OPERATORS)
def test_esp_nn(name: str) -> None:
    with Server(ESP) as server:
        assert damage_of(esp.OPERATORS[name], Random(1), server, CASES) == []
