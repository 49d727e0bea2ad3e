"""How much work and memory an ONNX file may ask for. docs/limits.md lists these limits for users.

Models come from strangers. A file of n bytes is read in O(n log n) steps, or refused by an error that names a limit.
Exporters write nothing that comes near the limits.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgemem.errors import ModelError

__all__ = [
    "MAX_CALL_DEPTH",
    "MAX_DEPTH",
    "MAX_ELEMENTS",
    "MAX_EXTERNAL_VALUE_BYTES",
    "MAX_FILE_BYTES",
    "MAX_INLINED_BYTES",
    "MAX_NAME_LENGTH",
    "MAX_OPSETS",
    "MAX_PATH_CHARACTERS",
    "MAX_RANK",
    "MAX_TYPE_BYTES",
    "MAX_VALUE_BYTES",
    "Budget",
    "exceeds",
    "inference_work",
    "inlined_nodes",
]

# Protobuf encodes no larger message. Larger models keep their weights in other files.
MAX_FILE_BYTES = 2**31 - 1

# Bytes of all calls of the model's own functions, when they are inlined.
MAX_INLINED_BYTES = 2**28

# Graphs within graphs: bodies of If, Loop and Scan. Protobuf reads 32; names are looked up through all of them.
MAX_DEPTH = 30

# Functions of the model that call one another.
MAX_CALL_DEPTH = 100

# Dimensions of a tensor: numpy has no more. The size of every type counts once for each operator that reads it.
MAX_RANK = 64

# Elements of a tensor: no machine addresses more bytes, and sums in int64 could overflow beyond.
MAX_ELEMENTS = 2**47

# Characters of a name: of a value, node, operator or symbol. Symbols are repeated in the types of many values.
MAX_NAME_LENGTH = 4096

# Characters of all names that edgemem makes unique by putting the path of their body before them.
MAX_PATH_CHARACTERS = 2**25

# Operator sets that a model imports; every rule is given all of them.
MAX_OPSETS = 256

# Bytes of the small constants that are read from other files, because sizes may follow from them.
MAX_EXTERNAL_VALUE_BYTES = 2**28

# Bytes of the types of all values, as protobuf encodes them; in memory they are ten times as large.
MAX_TYPE_BYTES = 2**26

# Bytes of the values that are computed because sizes may follow from them.
MAX_VALUE_BYTES = 2**28

# Steps of shape inference beside those in proportion to the model. A loop's body is inferred until the sizes of its
# values no longer change, the body of a loop in it as often again, and so on.
_FREE_WORK = 100_000
_WORK_OF_A_NODE = 16

# Nodes that the model's own functions may add beside those in proportion to the model: a function that calls another
# twice, which calls another twice, and so on, makes 2**k nodes of k.
_FREE_INLINED_NODES = 100_000
_INLINED_NODES_OF_A_NODE = 16


def exceeds(what: str, name: str, limit: int | None = None) -> ModelError:
    """The error for something that is above a limit of this module.

    Args:
        what: a clause that says what the file has.
        name: the limit's name.
        limit: its value, if it depends on the file.
    """
    value = globals()[name] if limit is None else limit
    return ModelError(f"{what}; edgemem reads no file beyond its limit {name} = {value:,} (docs/limits.md)")


@dataclass(slots=True)
class Budget:
    """What is left of a limit that counts.

    Attributes:
        name: of the limit.
        limit: where the count ends.
        what: a clause for the error.
        spent: the count.
    """

    name: str
    limit: int
    what: str
    spent: int = 0

    def spend(self, amount: int) -> None:
        """Count. Raises ModelError when more is spent than the limit."""
        self.spent += amount
        if self.spent > self.limit:
            raise exceeds(self.what, self.name, self.limit)


def inference_work(nodes: int) -> Budget:
    """The steps that shape inference may take for a model of so many nodes, bodies included.

    A step is a node whose outputs are inferred. 1 KiB of types, 16 KiB of values and 64 computed elements are one, too.
    """
    limit = _FREE_WORK + _WORK_OF_A_NODE * nodes
    return Budget("INFERENCE_WORK", limit, "the sizes of the model's values take too many steps to infer")


def inlined_nodes(nodes: int) -> Budget:
    """The nodes that a model with so many nodes, bodies and functions included, may have when functions are inlined."""
    limit = _FREE_INLINED_NODES + _INLINED_NODES_OF_A_NODE * nodes
    return Budget("MAX_INLINED_NODES", limit, f"the model's functions expand to more than {limit:,} nodes")
