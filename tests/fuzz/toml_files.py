"""Targets in TOML files, and plans of a small graph under them."""

from __future__ import annotations

import atexit
import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import parser

from edgemem.planfile import decode, encode
from edgemem.planning.model_plan import plan_graph
from edgemem.plans import Settings
from edgemem.targets import Target as Rules
from edgemem.targets import find_target
from edgemem_converters.onnx.model import OnnxConverter
from tests.fuzz.cases import Target
from tests.fuzz.mutation import mutate_text

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

__all__ = ["TARGET"]

_SEEDS = (
    'alignment = 16\ninputs = "whole_run"\noutputs = "to_end"\nunread = "to_end"\nvariables = "whole_run"\n',
    'aliasing = "none"\nbodies = "outside"\nscratch = "unknown"\ntexels = true\nname = "mine"\n',
    """[[region]]
name = "sram"
capacity = "256KiB"
reserved = ["0..4KiB", "64KiB..65KiB"]
[[region]]
name = "dram"
capacity = 1048576
[pins]
a = "4KiB"
b = 8192
[states]
x = "y"
""",
    'alignment = 1\n[states]\n"x*" = "y*"\n',
    "",
)
_WORDS = (
    *(f'"{word}"' for word in ("outside", "until_last_use", "whole_run", "to_end", "one_op", "inline", "none", "tflm")),
    *("alignment", "inputs", "region", "reserved", "capacity", "pins", "states", "texels", "scratch", '"litert"'),
    *('"0..1"', '"1..0"', '"0.5KiB"', "1979-05-27T07:32:00Z", "1979-05-27", "inf", "nan", "1e400", "0b1", "0o7", "a.b"),
    *('"""', "'''", "[[region]]", "[pins]", "[states]", "[a.b.c]", "{a = {b = 1}}", '["0..4KiB"]', '"\\ud800"'),
    *(field.name for field in dataclasses.fields(Rules)),
)
_NETWORK = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 4] x) => (float[1, 4] y) { a = Exp (x)  b = Neg (a)  c = Add (a, b)  d = Relu (c)  y = Mul (d, b) }""")
_GRAPH = OnnxConverter.from_bytes(_NETWORK.SerializeToString()).graph()


def _run(data: bytes) -> None:
    path = _PLACE / "mine.toml"
    path.write_bytes(data)
    target = find_target(str(path))
    planset = plan_graph(_GRAPH, dataclasses.replace(target, scratch="unknown"), Settings(("naive",)))
    assert decode(encode(planset)).target == planset.target


def _mutate(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return mutate_text(chance, data, others, _WORDS)


_FOLDER = tempfile.TemporaryDirectory(prefix="edgemem-fuzz-toml-")
atexit.register(_FOLDER.cleanup)
_PLACE = Path(_FOLDER.name)

TARGET = Target(_run, lambda: [text.encode() for text in _SEEDS], _mutate)
