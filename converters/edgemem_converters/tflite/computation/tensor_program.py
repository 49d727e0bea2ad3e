"""What the operators of a .tflite file compute, as tensor operations. Conventions are those of LiteRT's kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError, UnsupportedError
from edgemem.model.tensor_ops import TensorProgram
from edgemem_converters.tflite.computation.constants import NotExpressibleError, TfliteConstants
from edgemem_converters.tflite.computation.functions import FUNCTIONS
from edgemem_converters.tflite.computation.moves import MOVES
from edgemem_converters.tflite.computation.operator import TfliteOperator
from edgemem_converters.tflite.computation.sums import SUMS
from edgemem_converters.tflite.computation.windows import WINDOWS

if TYPE_CHECKING:
    from edgemem.model.graph import Graph
    from edgemem.model.tensor_ops import TensorOp
    from edgemem_converters.tflite.reader import FileModel

__all__ = ["RULES", "program_of"]

# Operator -> its tensor operations.
RULES: Final = {**FUNCTIONS, **MOVES, **SUMS, **WINDOWS}


def program_of(file: FileModel, graph: Graph) -> TensorProgram:
    """The tensor operations of the main subgraph; an operator has none whose outputs are known without running it.

    Args:
        file: what `read` gives.
        graph: of the same file.

    Raises:
        ModelError: a value of the file is damaged, or an operator's options contradict its shapes.
        MissingDependencyError: a constant is sparse, and ai-edge-litert, which has the TFLite schema, is missing.
    """
    values = TfliteConstants(file, graph)
    steps: list[tuple[TensorOp, ...] | str] = []
    read = {i for i in graph.outputs if values.is_known(i)}
    for number in range(len(graph.ops)):
        step, constants = _step(file, graph, number, values)
        steps.append(step)
        read |= constants
    constants_read = {}
    for index in sorted(read):
        try:
            constants_read[index] = values.float32(index)
        except NotExpressibleError as e:
            name = graph.tensors[index].name
            raise UnsupportedError(f"the constant {name!r} cannot be read: {e}") from None
    return TensorProgram(graph, tuple(steps), constants_read)


def _step(
    file: FileModel, graph: Graph, number: int, values: TfliteConstants
) -> tuple[tuple[TensorOp, ...] | str, set[int]]:
    """The tensor operations of an operator, or why it has none; and the constants that they read."""
    op = graph.ops[number]
    if op.outputs and all(i < 0 or values.is_known(i) for i in op.outputs):
        return (), set()
    rule = RULES.get(op.type)
    if rule is None or op.bodies:
        return op.type, set()
    try:
        case = TfliteOperator(file, graph, number, values)
        made = rule(case)
        for index in case.read:
            values.float32(index)
    except (NotExpressibleError, UnsupportedError) as e:
        return str(e), set()
    except ModelError as e:
        raise ModelError(f"operator {op.name!r}: {e}") from None
    except (IndexError, ZeroDivisionError):  # of tensors without elements or dimensions that the options speak of
        raise ModelError(f"operator {op.name!r}: its options contradict its shapes") from None
    return made, case.read
