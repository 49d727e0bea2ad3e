"""TensorFlow Lite files: their graph, their order, and a plan inside them.

A plan is stored as metadata entries: `edgemem.plan` is the encoded plan, `edgemem.summary` a line for people, and
`OfflineMemoryAllocation` what TensorFlow Lite Micro reads and follows (`edgemem_converters.tflite.offsets`).
"""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self

from edgemem.errors import InvalidPlanError, ModelError, UnknownShapeError, UnsupportedError
from edgemem.formats import Bindings, find_probe
from edgemem.formats.offline_allocation import micro_refusal
from edgemem.formats.plan_summary import SUMMARY_KEY, plan_summary
from edgemem.formats.wiring import Wiring
from edgemem.system.files import atomic_write
from edgemem_converters.tflite.computation.tensor_program import program_of
from edgemem_converters.tflite.constant_folding import fold
from edgemem_converters.tflite.control import CONTROL, decode_control, encode_control, file_order
from edgemem_converters.tflite.graph import ETHOS_U, build
from edgemem_converters.tflite.names import NARROW
from edgemem_converters.tflite.offsets import OFFLINE, decode_offsets, encode_offsets
from edgemem_converters.tflite.one_operator import write_operator
from edgemem_converters.tflite.operator_file import operator_file
from edgemem_converters.tflite.reader import read
from edgemem_converters.tflite.rewrite import rewrite_file
from edgemem_converters.tflite.writer import permuted, read_parts, write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import OneOperator
    from edgemem.model.graph import Graph
    from edgemem.model.rewrite import Rewrite
    from edgemem.model.tensor_ops import TensorProgram
    from edgemem.plans import PlanSet
    from edgemem_converters.tflite.control import Pairs
    from edgemem_converters.tflite.graph import Place
    from edgemem_converters.tflite.reader import FileModel

__all__ = ["TfliteConverter"]

_PLAN: Final = "edgemem.plan"
_NO_PLAN: Final = {_PLAN: None, SUMMARY_KEY: None, OFFLINE: None}
_SHRUNK: Final = "edgemem.shrunk"  # the note of how a model was made (edgemem.shrinking.note)


class TfliteConverter:
    """A .tflite file. Needs no TensorFlow or LiteRT, except to resize inputs."""

    suffixes: ClassVar[tuple[str, ...]] = (".tflite",)
    default_target: ClassVar[str] = "tflm"

    def __init__(
        self, base: bytes, changes: Mapping[str, bytes | None], bindings: Bindings, file: FileModel | None = None
    ) -> None:
        """The file without edgemem's additions, the metadata that differ from it, and what `read` gives for it."""
        self.bindings = bindings
        self._base = base
        self._changes = dict(changes)
        self._file = file or read(base)
        self._built: tuple[Graph, dict[str, Place]] | None = None

    @classmethod
    def open(cls, path: Path, bindings: Bindings) -> Self:
        """Read a file. Raises ModelError if it is damaged, or if `bindings` name symbols, which TFLite has none of."""
        try:
            return cls.from_bytes(path.read_bytes(), bindings)
        except OSError as e:
            raise ModelError(f"cannot read {path}: {e}") from None
        except UnsupportedError as e:
            raise UnsupportedError(f"{path.name}: {e}") from None
        except ModelError as e:
            raise ModelError(f"{path.name}: {e}") from None

    @classmethod
    def from_bytes(cls, data: bytes, bindings: Bindings | None = None) -> Self:
        """As `open`, for a file in memory."""
        bindings = bindings or Bindings()
        if bindings.dims:
            raise ModelError(
                f"TFLite has no symbolic dimensions, so {', '.join(bindings.dims)} cannot be bound; "
                "give an input's whole shape instead: --input-shape NAME=1,224,224,3"
            )
        base, changes, file = read_parts(data)
        return cls(base, changes, bindings, file)

    def graph(self) -> Graph:
        """Its graph, with the bodies of IF, WHILE and the like, in the sizes that the file or `bindings` say.

        Weights that the model decompresses as it starts (DEQUANTIZE, DENSIFY of constants) count as constants.
        Raises UnknownShapeError where the file has no size, MissingDependencyError when inputs are resized without
        LiteRT, whose kernels compute the sizes of the other tensors, and UnsupportedError for what Vela has compiled.
        """
        if self._is_compiled():
            raise UnsupportedError(
                "the model is compiled for an Arm Ethos-U: the commands for it have the places of its tensors in them, "
                "so that no other plan is right; keep Vela's plan, or change the model before Vela compiles it"
            )
        return self._build()[0]

    def compiled_graph(self) -> Graph | None:
        """Its graph if Vela compiled it, otherwise None; the memory of operators "ethos-u" is among its inputs."""
        return self._build()[0] if self._is_compiled() else None

    def content(self) -> bytes:
        """The file as it would be saved."""
        return write(self._base, self._changes, self._file)

    def with_order(self, order: tuple[int, ...]) -> Self:
        """The model with the operators of its main subgraph in another order, without the plan of the old one.

        The file's control dependencies number the operators anew. Raises ModelError for an order that is not
        topological, or breaks a control dependency.
        """
        reordered = self.graph().reordered(order)
        if order == tuple(range(len(order))):
            return self
        base = permuted(self._base, order)
        changes = dict(self._changes)
        if reordered.precedence:
            changes[CONTROL] = encode_control((reordered.precedence, *self._control()[1:]))
        return type(self)(base, changes, self.bindings).without_plan()

    def folded(self) -> Self:
        """The model with its float16 and sparse constants stored plain, without the plan it had.

        TensorFlow Lite Micro has no operators to decompress them. Raises as `fold.fold`.
        """
        base = fold(self._base)
        if base is self._base:
            return self
        return type(self)(base, self._changes, self.bindings).without_plan()

    def rewritten(self, rewrite: Rewrite) -> Self:
        """The model with the operators of a rewrite of its graph, without the plan it had.

        Raises UnsupportedError for inputs in other sizes than the file's, and otherwise as `rewrite.rewrite_file`.
        """
        if self.inputs():
            raise UnsupportedError(
                f"the operators of the model are rewritten for {self._resized()}, and the file would keep its own "
                "sizes: convert the model in these sizes"
            )
        metadata: dict[str, bytes | None] = {**self._changes, **_NO_PLAN}
        if self._entry(CONTROL) is not None:
            metadata[CONTROL] = encode_control((rewrite.graph.precedence, *self._control()[1:]))
        return type(self)(rewrite_file(self._base, self.graph(), rewrite, metadata), {}, self.bindings)

    def program(self) -> TensorProgram:
        """Its operators as tensor operations. Raises as `graph` and `compute.program_of`."""
        return program_of(self._file, self.graph())

    def operator_model(self, number: int) -> bytes:
        """A file with one operator of the graph. Raises as `operator_file.operator_file`."""
        return operator_file(self._base, self._file, self.graph(), number)

    def with_plan(self, plan: bytes, planset: PlanSet) -> Self:
        """The model carrying a plan, and the offsets of its smallest arena for TensorFlow Lite Micro.

        No offsets are written for a plan under rules that TensorFlow Lite Micro's kernels do not follow
        (`edgemem.formats.offline_allocation.micro_refusal`). Otherwise raises as `with_offsets`.
        """
        changes = {**self._changes, _PLAN: plan, SUMMARY_KEY: plan_summary(planset)}
        if micro_refusal(planset) is None:
            changes[OFFLINE] = self._encoded(planset)
        elif changes.get(OFFLINE):
            changes[OFFLINE] = None  # what an earlier plan left
        return type(self)(self._base, changes, self.bindings, self._file)

    def with_offsets(self, planset: PlanSet) -> Self:
        """The model with the offsets of a plan's smallest arena for TensorFlow Lite Micro, and without the plan.

        The note of how it was shrunk is left out, too: nothing on a device reads either.

        Raises InvalidPlanError for a plan that TensorFlow Lite Micro does not run, UnsupportedError for sizes that are
        not the file's, and otherwise as `edgemem_converters.tflite.offsets.encode_offsets`.
        """
        refusal = micro_refusal(planset)
        if refusal is not None:
            raise InvalidPlanError(
                f"TensorFlow Lite Micro cannot run the plan: {refusal.why}; plan with {refusal.remedy}"
            )
        changes = {**self._changes, **_NO_PLAN, _SHRUNK: None, OFFLINE: self._encoded(planset)}
        return type(self)(self._base, changes, self.bindings, self._file)

    def wiring(self) -> Wiring:
        """How the main subgraph is wired."""
        main = self._file.subgraphs[0]
        variables = tuple(i for i, tensor in enumerate(main.tensors) if tensor.variable)
        operands, results = (tuple(getattr(op, ends) for op in main.operators) for ends in ("inputs", "outputs"))
        bits = {i: NARROW[tensor.type] for i, tensor in enumerate(main.tensors) if tensor.type in NARROW}
        return Wiring(len(main.tensors), operands, results, variables, bits)

    def first_operators(self, count: int) -> bytes:
        """The file, with only the first operators of its main subgraph in the list of them."""
        at = self._file.subgraphs[0].operators_at - 4  # the vector's length
        return self._base[:at] + struct.pack("<I", count) + self._base[at + 4 :]

    @classmethod
    def write_operator(cls, operator: OneOperator, places: tuple[int, ...]) -> bytes:
        """A file of one operator, as `edgemem.formats.OneOperatorWriter` says."""
        return write_operator(operator, places)

    def without_plan(self) -> Self:
        """The model without a plan, for itself or for TensorFlow Lite Micro."""
        return type(self)(self._base, {**self._changes, **_NO_PLAN}, self.bindings, self._file)

    def plan(self) -> bytes | None:
        """The encoded plan it carries, or None."""
        return self._entry(_PLAN)

    def note(self, name: str) -> bytes | None:
        """The metadata entry of this name, or None. Raises ModelError if there are several."""
        return self._entry(name)

    def with_note(self, name: str, note: bytes) -> Self:
        """The model with a metadata entry, replacing an older one; its plan stays."""
        return type(self)(self._base, {**self._changes, name: note}, self.bindings, self._file)

    def offline_metadata(self) -> bytes | None:
        """The bytes of the file's OfflineMemoryAllocation, for tools that put it into another copy of the model."""
        return self._entry(OFFLINE)

    def offline(self) -> dict[str, int]:
        """The offsets in bytes for TensorFlow Lite Micro, by tensor; tensors without an offset are absent.

        The first two numbers of the entry differ between the tools that write it (edgemem, Vela, others) and have no
        meaning. Raises ModelError if the number of offsets is not that of the tensors, or an offset is below -1, and
        InvalidPlanError if `bindings` resize inputs.
        """
        data = self.offline_metadata()
        if not data:
            return {}
        offsets = decode_offsets(data, self._file, self._build()[1])
        if offsets and self.inputs():
            raise InvalidPlanError(
                f"the {OFFLINE} of the file is for {self._resized()}, and TensorFlow Lite Micro runs the file in its "
                "own sizes: plan the file again without --input-shape"
            )
        return offsets

    def weights(self) -> int:
        """Bytes of all constants in the file, as they are stored; one that several tensors share counts once."""
        used = {tensor.buffer for subgraph in self._file.subgraphs for tensor in subgraph.tensors}
        return sum(self._file.buffers[i].size for i in used)

    def save(self, path: str | Path) -> None:
        """Write the file; an existing one is replaced whole or stays as it is."""
        content = self.content()
        with atomic_write(Path(path)) as file:
            file.write(content)

    def inputs(self) -> dict[int, tuple[int, ...]]:
        """The inputs that `bindings` resize: tensor index in the main subgraph -> shape.

        A key is an input's name, or its position among the inputs. Raises ModelError for any other.
        """
        main = self._file.subgraphs[0]
        names = {main.tensors[i].name: i for i in reversed(main.inputs) if i >= 0}
        resized = {}
        for key, shape in self.bindings.input_shapes.items():
            if key in names:
                index = names[key]
            elif key.isdecimal() and int(key) < len(main.inputs):
                index = main.inputs[int(key)]
            else:
                raise ModelError(f"no input {key!r}; there are {', '.join(map(repr, names)) or 'none'}")
            if min(shape, default=1) < 1:
                raise ModelError(f"input {key!r}: a shape has positive dimensions, not {shape}")
            if tuple(shape) != main.tensors[index].shape:
                resized[index] = tuple(shape)
        return resized

    def assumed_inputs(self) -> dict[str, tuple[int, ...]]:
        """The shapes of inputs whose size the file leaves open, where the user has given none, by name.

        Converters write 1 for every size that they do not know. A batch of 1 is what runtimes take, too; any other 1 in
        such a place is no size that anybody chose. Raises UnknownShapeError for one, naming the flag that gives it.
        """
        main = self._file.subgraphs[0]
        inputs = [(str(k), main.tensors[i]) for k, i in enumerate(main.inputs) if i >= 0]
        names = Counter(tensor.name for _, tensor in inputs)
        assumed, flags = {}, []
        for position, tensor in inputs:
            name = tensor.name if tensor.name and names[tensor.name] == 1 else position
            is_open = len(tensor.signature) == len(tensor.shape) and min(tensor.signature, default=0) < 0
            if not is_open or {name, position} & self.bindings.input_shapes.keys():
                continue
            assumed[name] = tensor.shape
            unknown = [
                at >= (len(tensor.shape) > 1) and declared < 0 and size == 1
                for at, (declared, size) in enumerate(zip(tensor.signature, tensor.shape, strict=True))
            ]
            if any(unknown):
                shape = ",".join("N" if u else str(size) for u, size in zip(unknown, tensor.shape, strict=True))
                flags.append((name, f"--input-shape {name}={shape}"))
        if flags:
            listed = ", ".join(repr(name) for name, _ in flags)
            raise UnknownShapeError(
                f"the file leaves the size of {listed} open, and has 1 in its place; say how large it is: "
                + " ".join(flag for _, flag in flags),
                tensors=[name for name, _ in flags],
            )
        return assumed

    def _encoded(self, planset: PlanSet) -> bytes:
        """The offsets of a plan as TensorFlow Lite Micro reads them."""
        if self.inputs():
            raise UnsupportedError(
                f"TensorFlow Lite Micro cannot resize inputs, and the plan is for {self._resized()}: convert the model "
                "in these sizes, or plan for LiteRT (--target litert)"
            )
        return encode_offsets(planset, self._file, self._build()[1])

    def _is_compiled(self) -> bool:
        return any(op.type == ETHOS_U for subgraph in self._file.subgraphs for op in subgraph.operators)

    def _resized(self) -> str:
        tensors = self._file.subgraphs[0].tensors
        return ", ".join(f"{tensors[i].name} = {','.join(map(str, shape))}" for i, shape in self.inputs().items())

    def _entry(self, name: str) -> bytes | None:
        """A metadata entry, changed or not; None if there is none. Raises ModelError if there are several."""
        if name in self._changes:
            return self._changes[name]
        found = [self._file.buffers[entry.buffer] for entry in self._file.metadata if entry.name == name]
        if len(found) > 1:
            raise ModelError(f"the TFLite file has {len(found)} entries {name}, of which runtimes may read any")
        return self._base[found[0].start : found[0].start + found[0].size] if found else None

    def _control(self) -> tuple[Pairs, ...]:
        """The pairs of operators of each subgraph that keep their order; () if the file has no such entry.

        Where the entry cannot be read, all operators keep theirs.
        """
        data = self._entry(CONTROL)
        if data is None:
            return ()
        operators = [len(s.operators) for s in self._file.subgraphs]
        try:
            return decode_control(data, operators)
        except ModelError:
            return file_order(operators)

    def _build(self) -> tuple[Graph, dict[str, Place]]:
        if self._built is None:
            resized = self.inputs()
            shapes: dict[Place, tuple[int, ...] | None] = {}
            if resized:
                for number, row in enumerate(find_probe("litert").shapes(self.content(), resized)):
                    count = len(self._file.subgraphs[number].tensors)
                    shapes |= {(number, i): shape for i, shape in enumerate(row[:count])}
            self._built = build(self._file, shapes, self._control())
        return self._built
