"""TensorFlow Lite files: their graph, their order, and a plan inside them.

A plan is stored as two metadata entries. `edgemem.plan` is the encoded plan. `OfflineMemoryAllocation` is what
TensorFlow Lite Micro reads and obeys: int32 [1, 0, n, offsets...] over the tensors of all subgraphs, -1 for those it
shall place itself.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np
from edgemem.converter import Bindings
from edgemem.errors import InvalidPlanError, ModelError
from edgemem.files import atomic_write

from edgemem_converters.tflite_graph import Place, Shapes, build
from edgemem_converters.tflite_reader import FileModel, read
from edgemem_converters.tflite_writer import permuted, split, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from edgemem.graph import Graph
    from edgemem.plan import OffsetPlan, PlanSet
    from edgemem.records import Problem

__all__ = ["TfliteConverter"]

_PLAN: Final = "edgemem.plan"
_OFFLINE: Final = "OfflineMemoryAllocation"
_ALIGNMENT: Final = 16  # of everything that TensorFlow Lite Micro places
