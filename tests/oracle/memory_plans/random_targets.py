"""Targets for random models: the built-in ones, and others with pins, states, regions and reserved ranges."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgemem.targets import BUILT_IN, Region, Target

if TYPE_CHECKING:
    from random import Random

    from tests.oracle.memory_plans.program import Program

__all__ = ["random_target"]


def random_target(rng: Random, program: Program) -> Target:
    """A target that asks no runtime; one in two is built in."""
    plain = [t for t in BUILT_IN.values() if t.scratch == "unknown"]
    target = rng.choice(plain)
    if rng.random() < 0.5:
        return target
    texels = rng.random() < 0.15
    target = Target(
        "random",
        alignment=rng.choice((1, 4, 16, 64, 256)),
        inputs=rng.choice(("outside", "until_last_use", "whole_run")),
        outputs=rng.choice(("outside", "to_end")),
        unread=rng.choice(("one_op", "to_end")),
        variables=rng.choice(("outside", "whole_run")),
        aliasing="none" if texels else rng.choice(("none", "elementwise", "elementwise", "litert")),
        bodies=rng.choice(("inline", "inline", "outside")),
        sub_byte=rng.choice(("packed", "unpacked")),
        texels=texels,
    )
    if rng.random() < 0.3:
        target = _for_gpus(rng, target)
    if rng.random() < 0.3:
        begin = rng.choice((0, 16, 100))
        ranges = ((begin, begin + rng.choice((1, 64))), (1000, 1010))
        near = Region("near", reserved=ranges, cost=rng.choice((1, 2)), alignment=rng.choice((1, 32)))
        target = replace(target, regions=(near, *rng.choice(((), (Region("far", alignment=rng.choice((1, 128))),)))))
    if rng.random() < 0.3 and not target.texels:
        target = replace(target, states=_states(rng, program))
    if rng.random() < 0.2 and not target.texels:
        made = [n for call in program.main.calls for n in call.writes if n] or [""]
        name = rng.choice([*made, *program.main.inputs])
        target = replace(target, pins={name: target.alignment * rng.choice((0, 1, 5))})
    return target


def _for_gpus(rng: Random, target: Target) -> Target:
    side = rng.choice((64, 8192, 8192))
    row = rng.choice((0, 0, 1, 3, 16)) if target.texels else 0
    rules = ("none", "gpu-views") if target.texels else ("none", "gpu-views", "gpu", "gpu")
    return replace(
        target,
        storage="phwc4",
        precision=rng.choice(("fp32", "fp16")),
        texel_row=row,
        texture_side=side,
        aliasing=rng.choice(rules),
        bodies="outside",
    )


def _states(rng: Random, program: Program) -> dict[str, str]:
    """An input and a value of the same form that the last reader of the input writes, or any later operator."""
    calls = program.main.calls
    pairs = []
    for name in program.main.inputs:
        readers = [k for k, call in enumerate(calls) if name in (*call.reads, *call.captured)]
        value = program.values[name]
        for call in calls[max(readers, default=0) :]:
            for result in filter(None, call.writes):
                made = program.values[result]
                if (
                    made.role == "activation"
                    and made.elements
                    and (made.dtype, made.elements) == (value.dtype, value.elements)
                ):
                    pairs.append((name, result))
    return dict([rng.choice(pairs)]) if pairs else {}
