"""Branches and loops in LiteRT, which keeps their bodies outside the arena of the main subgraph."""

from __future__ import annotations

import pytest

from edgemem import api, planfile
from edgemem_converters.tflite.model import TfliteConverter
from tests.runtime.control_models import KINDS, control_model

pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import Interpreter as LiteRT

from edgemem.runtime.litert.interpreter import Interpreter
from tests.runtime.test_interpreter import BUILTIN, allocated, run, same

EACH = 4


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_the_arena_of_a_model_with_branches_and_loops_is_predicted(kind: str) -> None:
    for seed in range(EACH):
        model = TfliteConverter.from_bytes(control_model(seed, kind))
        planset = api.plan(model, target="litert")
        names = {name for record in planset.problem.records for name in record.tensors}
        assert names.isdisjoint(t.name for op in model.graph().ops for body in op.bodies for t in body.tensors)
        data = model.with_plan(planfile.encode(planset), planset).content()
        # With XNNPACK, LiteRT itself crashes on some that initialise variables.
        for options in (BUILTIN,) if kind in ("once", "mixed") else (BUILTIN, {}):
            bound = allocated(Interpreter, data, **options)
            plain = allocated(LiteRT, model.content(), **options)
            for inputs in range(3):
                assert same(run(bound, inputs), run(plain, inputs)), (kind, seed)
            if options:
                assert bound.memory.is_kept, str(bound.memory)
