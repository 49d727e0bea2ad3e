"""CSV files of usage records: wrong numbers, names, columns and relations."""

from __future__ import annotations

import atexit
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.errors import PlanError
from edgemem.formats import Bindings
from edgemem.planning.model_plan import plan_problem
from edgemem.plans import Settings
from edgemem.report.csv import as_csv
from edgemem_converters.csv import CsvConverter
from tests.fuzz.cases import Target
from tests.fuzz.mutation import mutate_text

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

__all__ = ["TARGET"]

_SEEDS = (
    "tensor,first_op,last_op,size\na,0,1,100\nb,1,2,200\nc,2,3,64\n",
    "id,lower,upper,size_bytes\na,0,1,100\nb,1,2,200\n",
    "tensor,first_op,last_op,size\na,0,1,4x8\nb,1,2,16X2\n",
    "tensor,first_op,last_op,size,offset,kind,object\na,0,1,100,0,input,0\nb,1,2,200,,state,1\nb,0,2,8,512,output,\n",
    "tensor,first_op,last_op,size,regions,traffic\na,0,1,100,0|1,3\nb,1,2,200,1,\n",
    "tensor,first_op,last_op,size,overlap,within\na,0,1,100,b@0 c@-4,\nb,1,2,200,,\nc,1,2,4,,b@8\nd%20e,1,1,4,,c@0\n",
    "tensor,first_op,last_op,size,offset\n" + "".join(f"t{i},{i},{i + 3},{64 * i},\n" for i in range(40)),
)
_WORDS = (
    *("tensor", "first_op", "last_op", "size", "size_bytes", "id", "lower", "upper", "offset", "kind", "regions"),
    *("traffic", "overlap", "within", "object", "input", "output", "state", "variable", "scratch", "0|1", "61|62"),
    *("a@0", "b@-4", "c@8", "4x8", "4x8x2", "1x1x1x1", "0x0", "99999999999x99999999999"),
)
_RULES = ("offsets/greedy_by_size", "shared_objects/greedy_by_size", "offsets/pyramid", "offsets/naive")
_MOST = 2000  # records that are planned


def _run(data: bytes) -> None:
    path = _PLACE / "records.csv"
    path.write_bytes(data)
    problem = CsvConverter.open(path, Bindings()).problem()
    if len(problem) > _MOST:
        return
    for name in ("offsets/strip_packing", _RULES[len(data) % len(_RULES)], "offsets/search:effort=fast"):
        try:
            as_csv(plan_problem(problem, Settings((name,))))
        except PlanError:  # it does not honour what the records demand
            continue


def _mutate(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return mutate_text(chance, data, others, _WORDS)


_FOLDER = tempfile.TemporaryDirectory(prefix="edgemem-fuzz-csv-")
atexit.register(_FOLDER.cleanup)
_PLACE = Path(_FOLDER.name)

TARGET = Target(_run, lambda: [text.encode() for text in _SEEDS], _mutate)
