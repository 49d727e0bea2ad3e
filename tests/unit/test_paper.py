"""The tables of Pisarchyk & Lee 2020 on the networks that `models/` builds at the paper's granularity."""

from __future__ import annotations

import pytest

import edgemem
from models.build import records

MIB = 2**20

# naive, lower bounds (offsets, shared objects), best cell of Table 2 and of Table 1; MiB
TABLES = {
    "mobilenet_v1": (19.248, 4.594, 4.594, 4.594, 4.594),
    "mobilenet_v2": (26.313, 5.742, 6.604, 5.742, 6.699),
    "deeplab_v3": (48.642, 4.320, 6.105, 4.321, 6.437),
    "posenet": (28.556, 6.271, 6.347, 6.271, 6.347),
}


@pytest.mark.parametrize("name", TABLES)
def test_auto_is_never_above_the_best_cell(name: str) -> None:
    naive, offsets_bound, objects_bound, best_offsets, best_objects = TABLES[name]
    names, first, last, size = zip(*records(name), strict=True)
    planset = edgemem.plan(edgemem.Problem.from_arrays(first, last, size, names=names))
    assert round(planset.naive / MIB, 3) == naive
    assert round(planset.bounds.offsets / MIB, 3) == offsets_bound
    assert round(planset.bounds.shared_objects / MIB, 3) == objects_bound
    assert planset.best_offsets is not None
    assert planset.best_shared_objects is not None
    assert round(planset.best_offsets.size / MIB, 3) <= best_offsets
    assert round(planset.best_shared_objects.size / MIB, 3) <= best_objects
