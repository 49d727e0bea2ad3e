"""Random TFLite models with branches, loops and variables, one within the other, that end whatever their inputs are.

Every operator is one that TensorFlow Lite Micro, LiteRT and edgemem know, and gives the same bits each time. Values are
kept small by TANH, so that a wrong one stays different.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tests.tflite_models import ADD_OPTIONS, IF, WHILE, M, O, S, T, build

__all__ = ["KINDS", "control_model"]

KINDS: Final = ("while", "plain", "nested", "if", "if_in_while", "shared", "once", "mixed")

_CALL_ONCE: Final = 103
_MUL: Final = (21, (0,))
_SUB: Final = (28, (0,))
_SIZES: Final = (1, 3, 8, 20, 33, 70)  # floats; TensorFlow Lite Micro pads to 16 bytes
_DEEPEST: Final = 2


@dataclass(frozen=True)
class Kind:
    """What a value is: its dtype and how many elements it has."""

    dtype: str
    count: int


_NUMBER: Final = Kind("int32", 1)
_FLAG: Final = Kind("bool", 1)


@dataclass
class Body:
    """A subgraph in the making. Values are indices of tensors."""

    tensors: list[T] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    ops: list[O] = field(default_factory=list)

    def tensor(self, kind: Kind, data: bytes | None = None) -> int:
        self.tensors.append(T(f"t{len(self.tensors)}", kind.dtype, (kind.count,), data))
        self.kinds.append(kind)
        return len(self.tensors) - 1

    def constant(self, dtype: str, *values: float) -> int:
        form = {"int32": "<i4", "float32": "<f4", "bool": "?"}[dtype]
        return self.tensor(Kind(dtype, len(values)), np.array(values, form).tobytes())

    def op(self, type_: str, inputs: tuple[int, ...], kind: Kind, options: object = None) -> int:
        result = self.tensor(kind)
        self.ops.append(O(type_, inputs, (result,), options))  # type: ignore[arg-type]
        return result


class Maker:
    """One model. `kind` is one of KINDS and says what is in it."""

    def __init__(self, seed: int, kind: str) -> None:
        self.rng = random.Random(f"{kind}{seed}")
        self.kind = kind
        self.subgraphs: list[Body | S] = []
        # What another operator may run again: what its subgraphs take and give, and their numbers.
        self.known: list[tuple[str, tuple[Kind, ...], tuple[Kind, ...], tuple[int, int]]] = []

    def model(self) -> M:
        rng = self.rng
        main = Body()
        self.subgraphs.append(main)
        inputs = [main.tensor(_NUMBER), main.tensor(_FLAG)]
        inputs += [main.tensor(Kind("float32", rng.choice(_SIZES))) for _ in range(rng.randint(1, 3))]
        if self.kind in ("once", "mixed"):
            self._variable(main, inputs)
        values = list(inputs)
        for _ in range(rng.randint(0, 2)):
            values.append(self._value(main, values, main.kinds[rng.choice(inputs[2:])]))
        for number in range(3 if self.kind in ("shared", "mixed") else rng.randint(1, 2)):
            made = self._control(main, values, 0, first=not number)
            values += made
            for _ in range(rng.randint(0, 2)):
                values.append(self._value(main, values, main.kinds[rng.choice(made or inputs)]))
        read = {i for op in main.ops for i in op.inputs}
        for i in inputs:  # what nothing reads dies before the first operator, which no usage interval can say
            if i not in read:
                self._value(main, [i], main.kinds[i])
        written = [i for op in main.ops for i in op.outputs if main.kinds[i].dtype != "resource"]
        outputs = tuple(sorted({written[-1], *rng.sample(written, min(len(written), rng.randint(0, 3)))}))
        self.subgraphs[0] = S(main.tensors, main.ops, tuple(inputs), outputs, "main")
        return M([s for s in self.subgraphs if isinstance(s, S)])

    # --- operators ---------------------------------------------------------------------------------------------------

    def _value(self, body: Body, values: list[int], kind: Kind) -> int:
        """A new value of a kind, made from what there is."""
        rng = self.rng
        like = [v for v in values if body.kinds[v] == kind]
        if not like:
            data = [rng.choice((0, 1)) if kind.dtype != "float32" else rng.uniform(-1, 1) for _ in range(kind.count)]
            like = [body.constant(kind.dtype, *data)]
        one, other = rng.choice(like), rng.choice(like)
        if kind.dtype == "bool":
            return body.op(rng.choice(("LOGICAL_AND", "LOGICAL_OR")), (one, other), kind)
        if kind.dtype == "int32":
            return body.op("ADD", (one, body.constant("int32", rng.randint(1, 2))), kind, ADD_OPTIONS)
        choice = rng.randint(0, 4)
        if choice == 0:
            return body.op("TANH", (body.op("ADD", (one, other), kind, ADD_OPTIONS),), kind)
        if choice == 1:
            return body.op("SIN", (body.op("MUL", (one, other), kind, _MUL),), kind)
        if choice == 2:
            return body.op("NEG", (one,), kind)
        if choice == 3:
            scale = body.constant("float32", *(rng.uniform(0.5, 1.5) for _ in range(kind.count)))
            return body.op("TANH", (body.op("MUL", (one, scale), kind, _MUL),), kind)
        return body.op("MAXIMUM", (one, body.op("COS", (other,), kind)), kind)

    def _flag(self, body: Body, values: list[int]) -> int:
        """A truth that depends on values."""
        floats = [v for v in values if body.kinds[v].dtype == "float32"]
        flags = [v for v in values if body.kinds[v] == _FLAG]
        if not floats or (flags and self.rng.random() < 0.4):
            return self.rng.choice(flags) if flags else body.constant("bool", self.rng.choice((0, 1)))
        one = self.rng.choice(floats)
        square = body.op("MUL", (one, one), body.kinds[one], _MUL)
        first = self._first(body, square)
        return body.op("LESS", (first, body.constant("float32", self.rng.uniform(0.1, 1.0))), _FLAG)

    def _first(self, body: Body, value: int) -> int:
        """Its first element."""
        begin, size = body.constant("int32", 0), body.constant("int32", 1)
        return body.op("SLICE", (value, begin, size), Kind("float32", 1))

    def _variable(self, main: Body, inputs: list[int]) -> None:
        """A variable that is set once, and changed in every run."""
        rng = self.rng
        kind = Kind("float32", rng.choice(_SIZES))
        start = Body()
        at = len(self.subgraphs)
        handle = start.tensor(Kind("resource", 1))
        start.ops.append(O("VAR_HANDLE", (), (handle,), shared_name="state"))
        value = start.constant("float32", *(rng.uniform(-1, 1) for _ in range(kind.count)))
        for _ in range(rng.randint(0, 2)):
            value = self._value(start, [value], kind)
        start.ops.append(O("ASSIGN_VARIABLE", (handle, value), ()))
        self.subgraphs.append(S(start.tensors, start.ops, (), (), "start"))
        main.ops.append(O("CALL_ONCE", (), (), (_CALL_ONCE, (at,))))
        handle = main.tensor(Kind("resource", 1))
        main.ops.append(O("VAR_HANDLE", (), (handle,), shared_name="state"))
        state = main.op("READ_VARIABLE", (handle,), kind)
        inputs_like = [i for i in inputs if main.kinds[i] == kind]
        after = self._value(main, [state, *inputs_like], kind)
        main.ops.append(O("ASSIGN_VARIABLE", (handle, after), ()))

    # --- bodies ------------------------------------------------------------------------------------------------------

    def _control(self, body: Body, values: list[int], depth: int, *, first: bool = True) -> list[int]:
        """A loop or a branch over some of the values; what it gives back."""
        chosen = {"if": "if", "if_in_while": ("while", "if")[min(depth, 1)]}.get(self.kind, "while")
        if self.kind in ("mixed", "shared"):
            chosen = self.rng.choice(("while", "if"))
        if self.kind == "if" and not first:
            chosen = "while"
        if self.kind in ("shared", "mixed") and self.rng.random() < 0.6:
            made = self._again(body, values)
            if made:
                return made
        return (self._loop if chosen == "while" else self._branch)(body, values, depth)

    def _taken(self, body: Body, values: list[int], most: int) -> list[int]:
        floats = [v for v in values if body.kinds[v].dtype == "float32"]
        return [self.rng.choice(floats) for _ in range(self.rng.randint(1, most))] if floats else []

    def _loop(self, body: Body, values: list[int], depth: int) -> list[int]:
        taken = [self.rng.choice([v for v in values if body.kinds[v] == _NUMBER]), *self._taken(body, values, 3)]
        if self.rng.random() < 0.2:  # the condition is this state, and its body has no operators
            taken.append(self._flag(body, values))
        kinds = tuple(body.kinds[v] for v in taken)
        condition = self._make(kinds, lambda b, i: (self._condition(b, i),))
        numbers = (condition, self._make(kinds, lambda b, i: self._round(b, i, depth)))
        return self._run("WHILE", body, taken, kinds, numbers)[1:]

    def _branch(self, body: Body, values: list[int], depth: int) -> list[int]:
        rng = self.rng
        taken = self._taken(body, values, 3)
        if rng.random() < 0.5 or not taken:
            taken.append(rng.choice([v for v in values if body.kinds[v] == _NUMBER]))
        kinds = tuple(body.kinds[v] for v in taken)
        given = tuple(rng.choice(kinds) for _ in range(rng.randint(1, 3)))
        numbers = (
            self._make(kinds, lambda b, i: self._arm(b, i, given, depth)),
            self._make(kinds, lambda b, i: self._arm(b, i, given, depth)),
        )
        return self._run("IF", body, [self._flag(body, values), *taken], given, numbers)

    def _run(
        self, what: str, body: Body, taken: list[int], given: tuple[Kind, ...], numbers: tuple[int, int]
    ) -> list[int]:
        results = [body.tensor(kind) for kind in given]
        body.ops.append(O(what, tuple(taken), tuple(results), (WHILE if what == "WHILE" else IF, numbers)))
        if self.kind in ("shared", "mixed"):
            self.known.append((what, tuple(body.kinds[v] for v in taken), given, numbers))
        return results

    def _again(self, body: Body, values: list[int]) -> list[int]:
        """An operator that runs the subgraphs of another one, or of both in the other order; [] if none can."""
        for what, kinds, given, numbers in self.rng.sample(self.known, len(self.known)):
            there = [[v for v in values if body.kinds[v] == kind] for kind in kinds]
            if all(there):
                turned = what == "IF" and self.rng.random() < 0.5
                taken = [self.rng.choice(choice) for choice in there]
                return self._run(what, body, taken, given, numbers[::-1] if turned else numbers)
        return []

    def _make(self, kinds: tuple[Kind, ...], fill: object) -> int:
        """A new subgraph that takes values of these kinds; its number."""
        body = Body()
        at = len(self.subgraphs)
        self.subgraphs.append(body)
        inputs = [body.tensor(kind) for kind in kinds]
        outputs = fill(body, inputs)  # type: ignore[operator]
        self.subgraphs[at] = S(body.tensors, body.ops, tuple(inputs), tuple(outputs), f"s{at}")
        return at

    def _condition(self, body: Body, inputs: list[int]) -> int:
        rng = self.rng
        counter = inputs[0]
        if body.kinds[inputs[-1]] == _FLAG:
            return inputs[-1]
        if self.kind == "plain" or (self.kind != "while" and rng.random() < 0.3):
            return body.op("LESS", (counter, body.constant("int32", rng.randint(2, 5))), _FLAG)
        more = body.op("ADD", (counter, body.constant("int32", rng.randint(1, 3))), _NUMBER, ADD_OPTIONS)
        enough = body.op("LESS", (more, body.constant("int32", rng.randint(4, 7))), _FLAG)
        floats = [v for v in inputs if body.kinds[v].dtype == "float32"]
        if not floats or rng.random() < 0.3:
            return enough
        for _ in range(rng.randint(0, 2)):
            floats.append(self._value(body, floats, body.kinds[rng.choice(floats)]))
        large = self._flag(body, floats)
        return body.op("LOGICAL_AND", (enough, body.op("LOGICAL_NOT", (large,), _FLAG)), _FLAG)

    def _round(self, body: Body, inputs: list[int], depth: int) -> tuple[int, ...]:
        """One round of a loop: the counter goes up, the other states become something else, or change places."""
        rng = self.rng
        counter = body.op("ADD", (inputs[0], body.constant("int32", 1)), _NUMBER, ADD_OPTIONS)
        values = [v for v in inputs[1:] if body.kinds[v] != _FLAG]
        for _ in range(rng.randint(0, 2) if values else 0):
            values.append(self._value(body, values, body.kinds[rng.choice(values)]))
        if depth + 1 < _DEEPEST and self.kind in ("nested", "if_in_while", "shared", "mixed") and rng.random() < 0.8:
            zero = body.op("SUB", (inputs[0], inputs[0]), _NUMBER, _SUB)
            values += [v for v in self._control(body, [zero, *values], depth + 1) if body.kinds[v].dtype == "float32"]
        given = [self._given(body, values, inputs, body.kinds[i]) for i in inputs[1:] if body.kinds[i] != _FLAG]
        if body.kinds[inputs[-1]] == _FLAG:
            given.append(body.op("LESS", (counter, body.constant("int32", rng.randint(2, 5))), _FLAG))
        return (counter, *given)

    def _given(self, body: Body, values: list[int], inputs: list[int], kind: Kind) -> int:
        """What a body gives back of a kind: something new as a rule, else what it took in or made before."""
        like = [v for v in values if body.kinds[v] == kind]
        chance = self.rng.random()
        if chance < 0.3 and like:
            return self.rng.choice(like)
        if chance < 0.35 and kind.dtype == "float32":
            return body.constant("float32", *(self.rng.uniform(-1, 1) for _ in range(kind.count)))
        return self._value(body, [*values, *inputs], kind)

    def _arm(self, body: Body, inputs: list[int], given: tuple[Kind, ...], depth: int) -> tuple[int, ...]:
        rng = self.rng
        values = [*inputs]
        for _ in range(rng.randint(0, 3)):
            values.append(self._value(body, values, body.kinds[rng.choice(values)]))
        nest = self.kind in ("shared", "mixed") and depth + 1 < _DEEPEST and rng.random() < 0.4
        if nest and any(body.kinds[v] == _NUMBER for v in values) and self._taken(body, values, 1):
            values += self._control(body, values, depth + 1)
        return tuple(self._given(body, values, inputs, kind) for kind in given)


def control_model(seed: int, kind: str) -> bytes:
    """A .tflite file. Its inputs are an int32 below 3, a bool, and floats.

    Args:
        seed: another one, another model.
        kind: of KINDS. `plain` has loops whose conditions compare the counter with a constant, and `while` compute
            more; `shared` has subgraphs that several operators run; `once` has a variable.
    """
    return build(Maker(seed, kind).model())
