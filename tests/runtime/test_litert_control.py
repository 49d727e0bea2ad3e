"""Branches and loops in LiteRT, which keeps bodies elsewhere: they are left to it, whatever plan is in the file."""

from __future__ import annotations

import pytest

from edgemem import api, planfile
from edgemem.errors import RuntimeBindError
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.control_models import KINDS, control_model

pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import Interpreter as LiteRT

from edgemem.runtime.litert.interpreter import Interpreter
from tests.runtime.test_interpreter import BUILTIN, allocated, run, same

EACH = 4


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_loops_are_refused_or_left_to_litert(kind: str) -> None:
    for seed in range(EACH):
        model = TfliteConverter.from_bytes(control_model(seed, kind))
        planset = api.plan(model, target="litert", strategy="offsets/greedy_by_size")
        names = {name for record in planset.problem.records for name in record.tensors}
        assert names.isdisjoint(t.name for op in model.graph().ops for body in op.bodies for t in body.tensors)
        data = model.with_plan(planfile.encode(planset), planset).content()
        with pytest.raises(RuntimeBindError, match="cannot run in a planned arena"):
            allocated(Interpreter, data, refuse="raise", **BUILTIN)
        # With XNNPACK, LiteRT itself crashes on some that initialise variables.
        for options in (BUILTIN,) if kind in ("once", "mixed") else (BUILTIN, {}):
            bound = allocated(Interpreter, data, poison=True, **options)
            plain = allocated(LiteRT, model.content(), **options)
            for inputs in range(3):
                assert same(run(bound, inputs), run(plain, inputs)), (kind, seed)
