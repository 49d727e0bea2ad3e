"""A converter for netlists: a model as JSON, with a line a tensor and a line an operator.

{"tensors": {"x": ["float32", 1, 64]}, "ops": [["Relu", ["x"], ["y"]]], "inputs": ["x"], "outputs": ["y"]}
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from edgemem.errors import ModelError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.system.files import atomic_write

if TYPE_CHECKING:
    from edgemem.formats import Bindings
    from edgemem.plans import PlanSet


class Netlist:
    """A netlist, as `edgemem.formats.Model` describes a model."""

    suffixes: ClassVar[tuple[str, ...]] = (".netlist",)
    default_target: ClassVar[str] = "generic"

    def __init__(self, data: dict[str, Any], bindings: Bindings) -> None:
        self._data, self.bindings = data, bindings

    @classmethod
    def open(cls, path: Path, bindings: Bindings) -> Self:
        """Read a file. Raises ModelError if it is no netlist."""
        try:
            model = cls(json.loads(path.read_bytes()), bindings)
            model.graph()
            model.plan()
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
            raise ModelError(f"{path.name} is no netlist: {type(e).__name__}: {e}") from e
        return model

    def graph(self) -> Graph:
        """The tensors by number, and the operators in the order of the file."""
        tensors = tuple(
            Tensor(name, dtype, tuple(map(int, shape))) for name, (dtype, *shape) in self._data["tensors"].items()
        )
        number = {t.name: i for i, t in enumerate(tensors)}

        def places(names: list[str]) -> tuple[int, ...]:
            return tuple(number[name] for name in names)

        ops = [Op(f"{kind}_{i}", kind, places(a), places(b)) for i, (kind, a, b) in enumerate(self._data["ops"])]
        inputs, outputs = places(self._data["inputs"]), places(self._data["outputs"])
        return Graph("netlist", tensors, tuple(ops), inputs, outputs)

    def content(self) -> bytes:
        """The file as it is saved."""
        return json.dumps(self._data, indent=1).encode()

    def with_order(self, order: tuple[int, ...]) -> Self:
        """The operators in another order."""
        return type(self)(self._data | {"ops": [self._data["ops"][i] for i in order]}, self.bindings)

    def with_plan(self, plan: bytes, planset: PlanSet) -> Self:
        """The model with a plan, for `edgemem verify` and your runtime."""
        del planset  # offsets by tensor, for a format whose runtime does not read plan files
        return type(self)(self._data | {"plan": base64.b64encode(plan).decode()}, self.bindings)

    def plan(self) -> bytes | None:
        """The plan in the file."""
        return base64.b64decode(self._data["plan"]) if "plan" in self._data else None

    def save(self, path: str | Path) -> None:
        """Write the file; an existing one is replaced whole."""
        with atomic_write(Path(path)) as file:
            file.write(self.content())
