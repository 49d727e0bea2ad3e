"""What LiteRT does with a model's memory, read from its interpreter in a process of its own (`probe.probe_apart`).

LiteRT does not say which operator a workspace belongs to. Kernels ask for theirs while LiteRT prepares one operator
after the other, so what the first k + 1 operators have and the first k have not is of operator k.

The question has the model, and the shapes of inputs by tensor index.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.formats import open_bytes
from edgemem.runtime.litert.arena import SeenTensor, computed_tensors, find_arena, see_tensors
from edgemem.runtime.litert.package import builtin_interpreter
from edgemem.runtime.litert.probe_data import Probe, ProbedTensor, encode_probe
from edgemem.runtime.tflite_file import TfliteModel
from edgemem.system.child_call import Message, serve

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.formats.wiring import Wiring
    from edgemem.runtime.litert.probe_data import Place

__all__ = ["probe"]

_Workspace: TypeAlias = "Counter[tuple[tuple[int, ...], str]]"  # how many there are of a shape and dtype


def probe(content: bytes, shapes: Mapping[int, Sequence[int]]) -> Probe:
    """Let LiteRT prepare a model with its builtin kernels, and read where it puts everything.

    A model with tensors of dynamic size is run once on zeros and empty strings, because LiteRT places what follows them
    only then. This process loads the file, which crashes it if LiteRT does.

    Args:
        content: a .tflite file.
        shapes: tensor index of an input -> its shape, where the file's is not wanted.

    Raises RuntimeBindError if LiteRT cannot run the model.
    """
    model = open_bytes(content, ".tflite")
    assert isinstance(model, TfliteModel)
    try:
        return _Probing(model, model.wiring(), shapes).probed()
    except (RuntimeError, ValueError, TypeError) as e:
        reason = " ".join(str(e).split()) or "no reason given"
        raise RuntimeBindError(f"LiteRT cannot run the model: {reason}") from None


@dataclass(slots=True)
class _Probing:
    """A model inside LiteRT.

    Attributes:
        model: the file.
        wiring: of its main subgraph.
        shapes: those that inputs are to have.
        settled: how many operators come before the first one of which LiteRT finds a size as it runs.
    """

    model: TfliteModel
    wiring: Wiring
    shapes: Mapping[int, Sequence[int]]
    settled: int = 0

    def probed(self) -> Probe:
        interpreter = self._allocated(self.model.content())
        inputs = [int(entry["index"]) for entry in interpreter.get_input_details()]
        variables = frozenset(self.wiring.variables)
        computed = computed_tensors(self.wiring, inputs)
        before = after = self._seen(interpreter, computed)
        waiting = (k for k, results in enumerate(self.wiring.results) if any(map(_is_open, _of(before, results))))
        self.settled = min(waiting, default=len(self.wiring.results))
        is_settled = self.settled == len(self.wiring.results)
        if not is_settled and _runs_on_zeros(interpreter):
            after = self._seen(interpreter, computed)
        arena = find_arena(after, inputs)
        places = {i: _place(tensor, before.get(i), i in arena.tensors) for i, tensor in after.items()}
        self._place_scalars(after, places)
        strings = {int(d["index"]) for d in interpreter.get_tensor_details() if np.dtype(d["dtype"]).kind == "S"}
        # What is left are handles of resources, and what LiteRT does not show.
        places |= {i: "dynamic" if i in strings else "kept" for i in computed - after.keys()}
        places |= dict.fromkeys(variables, "kept")
        after |= {i: tensor for i, tensor in self._seen(interpreter, variables).items() if i in variables}
        nothing = SeenTensor((), "", 0, 0)
        known = [(after.get(i, nothing), places.get(i, "none")) for i in range(self.wiring.tensors)]
        return Probe(
            tuple(ProbedTensor(tensor.shape, tensor.size, place) for tensor, place in known),
            self._workspace(after, places),
            sum(tensor.size for i, tensor in after.items() if places[i] == "kept"),
            arena.size,
            self._shapes(interpreter, {i for i in computed if places[i] == "dynamic"}, is_settled),
        )

    def _place_scalars(self, seen: Mapping[int, SeenTensor], places: dict[int, Place]) -> None:
        """Place scalars, which show no address: what reads nothing in the arena is computed before a run."""
        for operands, results in zip(self.wiring.operands, self.wiring.results, strict=True):
            if not any(places.get(i) == "arena" for i in operands):
                places |= {i: "kept" for i in results if i in seen and seen[i].address < 0}

    def _allocated(self, content: bytes) -> Any:
        interpreter = builtin_interpreter(content)
        for index, shape in self.shapes.items():
            interpreter.resize_tensor_input(index, list(shape))
        interpreter.allocate_tensors()
        return interpreter

    def _seen(self, interpreter: Any, indices: Iterable[int]) -> dict[int, SeenTensor]:
        return see_tensors(interpreter, self.wiring, indices)

    def _workspace(self, seen: Mapping[int, SeenTensor], places: Mapping[int, Place]) -> tuple[tuple[int, ...], ...]:
        """For each operator the bytes of what its kernel has in the arena besides."""
        found: list[_Workspace] = [Counter() for _ in self.wiring.results]

        def split(first: int, end: int, before: _Workspace, after: _Workspace) -> None:
            """Attribute to operators what is there after operator `end - 1`, and was not before operator `first`."""
            if before == after:
                return
            if end - first == 1:
                found[first] = after - before
                return
            middle = (first + end) // 2
            between = self._after(middle)
            split(first, middle, before, between)
            split(middle, end, between, after)

        added = {i: tensor for i, tensor in sorted(seen.items()) if i >= self.wiring.tensors and tensor.address}
        split(0, len(found), Counter(), Counter(map(_form, added.values())))
        # Equal ones are in the order of the operators.
        alike: dict[tuple[tuple[int, ...], str], list[int]] = {}
        for index, tensor in added.items():
            alike.setdefault(_form(tensor), []).append(index)
        rows = []
        for workspace in found:
            mine = [alike[form].pop(0) for form in workspace.elements()]
            rows.append(tuple(seen[i].size for i in sorted(mine) if places[i] == "arena"))
        return tuple(rows)

    def _after(self, count: int) -> _Workspace:
        """The workspace of the first operators."""
        interpreter = self._allocated(self.model.first_operators(count))
        if count > self.settled:
            _runs_on_zeros(interpreter)
        return Counter(_form(tensor) for tensor in self._seen(interpreter, ()).values() if tensor.address)

    def _shapes(
        self, interpreter: Any, dynamic: Container[int], is_settled: bool
    ) -> tuple[tuple[tuple[int, ...] | None, ...], ...]:
        """The shapes of all tensors, a row a subgraph; None where only a run tells."""
        rows = []
        for number in range(interpreter.num_subgraphs()):
            shapes = {int(d["index"]): tuple(map(int, d["shape"])) for d in interpreter.get_tensor_details(number)}
            if number and not is_settled:  # they may be those of the file, which do not hold
                shapes = {}
            count = max(shapes, default=-1) + 1 if number else self.wiring.tensors
            rows.append(tuple(None if not number and i in dynamic else shapes.get(i) for i in range(count)))
        return tuple(rows)


def _of(seen: Mapping[int, SeenTensor], indices: Iterable[int]) -> Iterator[SeenTensor]:
    return (seen[i] for i in indices if i in seen)


def _is_open(tensor: SeenTensor) -> bool:
    return not tensor.address and bool(tensor.size)


def _form(tensor: SeenTensor) -> tuple[tuple[int, ...], str]:
    return tensor.shape, tensor.dtype


def _place(tensor: SeenTensor, before: SeenTensor | None, is_inside: bool) -> Place:
    if is_inside or tensor.address < 0 or not tensor.size:
        return "arena"
    return "kept" if before is not None and before.address == tensor.address else "dynamic"


def _runs_on_zeros(interpreter: Any) -> bool:
    """Run it, if it can be run on zeros."""
    # Inputs in a fresh arena hold arbitrary bytes, and kernels that look up values need valid ones.
    for details in interpreter.get_input_details():
        shape, dtype = tuple(details["shape"]), np.dtype(details["dtype"])
        zeros: NDArray[Any] = np.full(shape, b"", object) if dtype.kind == "S" else np.zeros(shape, dtype)
        interpreter.set_tensor(details["index"], zeros)
    try:
        interpreter.invoke()
    except RuntimeError:
        return False
    return True


def _answer(question: Message) -> Message:
    return Message(encode_probe(probe(question.content, dict(question.data["shapes"]))))


if __name__ == "__main__":
    serve(_answer, limits_memory=True)
