"""Random nodes of every operator that onnx knows, read by edgemem in a process that may crash.

python tests/fuzz/onnx_operators.py SECONDS [FIRST]

The node number k is the same on every machine with the same onnx. Nodes that end the process, take more than 10 seconds
of processor time or raise another error than edgemem's are printed; the process is then started again behind them.
"""

from __future__ import annotations

import argparse
import mmap
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from onnx import AttributeProto, ModelProto, TensorProto, TypeProto, defs, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx import NodeProto

__all__ = ["node_model", "search"]

_SECONDS, _MEMORY = 10, 4 << 30  # of one node
_BATCH = 20_000

_SCHEMAS: dict[tuple[str, str], list[defs.OpSchema]] = {}
for _schema in defs.get_all_schemas_with_history():
    _SCHEMAS.setdefault((_schema.domain, _schema.name), []).append(_schema)
_OPERATORS = sorted(_SCHEMAS)

_EXTREMES = (
    *(0, 1, -1, 2, 65, 127, 128, 255, 256, 1000, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**40, 2**62),
    *(2**63 - 1, -(2**63), -(2**63) + 1),
)
_FLOATS = (0.0, 1.0, -1.0, 2.0, 0.5, 3.7, 1e9, 1e30, -1e30, float("nan"), float("inf"), -float("inf"))
_TEXTS = (
    *(b"", b"NOTSET", b"SAME_UPPER", b"SAME_LOWER", b"VALID", b"linear", b"nearest", b"cubic", b"constant", b"wrap"),
    *(b"forward", b"reverse", b"bidirectional", b"DCR", b"CRD", b"mean", b"none", b"sum", b"TF", b"f", b"\xff"),
    *(b"a" * 300, b"half_pixel", b"tf_crop_and_resize", b"SUM", b"RAW", b"UTF-8"),
)
_DTYPES: dict[str, int] = {
    **{t: TensorProto.DataType.Value(t.upper()) for t in ("float", "float16", "double", "bool", "string", "bfloat16")},
    **{f"{u}int{b}": TensorProto.DataType.Value(f"{u}int{b}".upper()) for u in ("", "u") for b in (8, 16, 32, 64)},
}
_PLAIN = {n: helper.tensor_dtype_to_np_dtype(n) for t, n in _DTYPES.items() if t not in ("string", "bfloat16")}

_KINDS = defs.OpSchema.AttrType
_ATTRIBUTES = {
    _KINDS.INT: AttributeProto.INT,
    _KINDS.INTS: AttributeProto.INTS,
    _KINDS.FLOAT: AttributeProto.FLOAT,
    _KINDS.FLOATS: AttributeProto.FLOATS,
    _KINDS.STRING: AttributeProto.STRING,
    _KINDS.STRINGS: AttributeProto.STRINGS,
    _KINDS.TENSOR: AttributeProto.TENSOR,
    _KINDS.TENSORS: AttributeProto.TENSORS,
    _KINDS.GRAPH: AttributeProto.GRAPH,
    _KINDS.GRAPHS: AttributeProto.GRAPHS,
    _KINDS.SPARSE_TENSOR: AttributeProto.SPARSE_TENSOR,
    _KINDS.TYPE_PROTO: AttributeProto.TYPE_PROTO,
}


def _number(chance: random.Random) -> int:
    return chance.choice(_EXTREMES) if chance.random() < 0.25 else chance.randrange(-3, 6)


def _type(text: str, chance: random.Random) -> TypeProto:
    """A type that a schema spells so: of any rank, its dimensions known, symbols, unknown or absurd."""
    made = TypeProto()
    if text.startswith("seq("):
        made.sequence_type.elem_type.CopyFrom(_type(text[4:-1], chance))
        return made
    if text.startswith("optional("):
        made.optional_type.elem_type.CopyFrom(_type(text[9:-1], chance))
        return made
    made.tensor_type.elem_type = _DTYPES.get(text.removeprefix("tensor(").removesuffix(")"), TensorProto.FLOAT)
    if chance.random() < 0.95:
        made.tensor_type.shape.SetInParent()
        for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6))):
            dim, kind = made.tensor_type.shape.dim.add(), chance.random()
            if kind < 0.8:
                dim.dim_value = chance.randrange(7)
            elif kind < 0.88:
                dim.dim_value = chance.choice(_EXTREMES)
            elif kind < 0.92:
                dim.dim_param = "N"
    return made


def _tensor(name: str, elem_type: int, chance: random.Random) -> TensorProto:
    """A constant of few elements."""
    dims = [chance.randrange(5) for _ in range(chance.choice((0, 1, 1, 1, 1, 2, 3)))]
    count = int(np.prod(dims))
    dtype = np.dtype(_PLAIN.get(elem_type, np.dtype(np.float32)))
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            values = np.array([chance.choice(_FLOATS) for _ in range(count)]).astype(dtype)
    elif dtype.kind == "b":
        values = np.array([chance.random() < 0.5 for _ in range(count)], dtype=dtype)
    else:
        about = np.iinfo(dtype)
        clipped = [min(max(_number(chance), int(about.min)), int(about.max)) for _ in range(count)]
        values = np.array(clipped, dtype=dtype)
    made = numpy_helper.from_array(values.reshape(dims), name)
    if chance.random() < 0.03:
        made.dims.append(_number(chance))
    return made


def _equation(chance: random.Random) -> bytes:
    """An equation of Einsum, or what looks like one."""

    def term() -> str:
        letters = "".join(chance.choice("ijkA ") for _ in range(chance.randrange(4)))
        return (
            letters + chance.choice(("", "", "...")) + "".join(chance.choice("zk ") for _ in range(chance.randrange(3)))
        )

    if chance.random() < 0.3:
        return "".join(chance.choice("ijk.,-> A1") for _ in range(chance.randrange(12))).encode()
    right = f"->{term()}" if chance.random() < 0.6 else ""
    return (",".join(term() for _ in range(chance.randrange(1, 4))) + right).encode()


def _add_attribute(node: NodeProto, about: defs.OpSchema.Attribute, chance: random.Random) -> None:
    kind = about.type
    if chance.random() < 0.03:
        kind = chance.choice((_KINDS.INT, _KINDS.INTS, _KINDS.FLOAT, _KINDS.STRING, _KINDS.TENSOR))
    made = node.attribute.add(name=about.name, type=_ATTRIBUTES[kind])
    some = range(chance.choice((0, 1, 2, 2, 3, 4, 4, 6, 70)))
    if kind == _KINDS.INT:
        made.i = _number(chance)
    elif kind == _KINDS.INTS:
        made.ints.extend(_number(chance) for _ in some)
    elif kind == _KINDS.FLOAT:
        made.f = chance.choice(_FLOATS)
    elif kind == _KINDS.FLOATS:
        made.floats.extend(chance.choice(_FLOATS) for _ in some)
    elif kind == _KINDS.STRING:
        made.s = _equation(chance) if about.name == "equation" else chance.choice(_TEXTS)
    elif kind == _KINDS.STRINGS:
        made.strings.extend(chance.choice(_TEXTS) for _ in some)
    elif kind == _KINDS.TENSOR:
        made.t.CopyFrom(_tensor("t", chance.choice(sorted(_PLAIN)), chance))
    elif kind == _KINDS.GRAPH:
        made.g.name = "g"
    elif kind == _KINDS.TYPE_PROTO:
        made.tp.CopyFrom(
            _type(chance.choice(("tensor(float)", "seq(tensor(int64))", "optional(tensor(float))")), chance)
        )


def node_model(number: int) -> ModelProto:
    """A model of one node: of an operator in some version, mostly with inputs and attributes that its schema allows."""
    chance = random.Random(number)
    domain, name = _OPERATORS[number % len(_OPERATORS)]
    schema = chance.choice(_SCHEMAS[domain, name])
    made = ModelProto(ir_version=10)
    made.opset_import.add(domain=domain, version=schema.since_version)
    if domain:
        made.opset_import.add(domain="", version=chance.choice((13, 17, 20, 23)))
    made.graph.name = "g"
    node = made.graph.node.add(op_type=name, domain=domain)
    formals = list(schema.inputs)
    if formals and formals[-1].option == defs.OpSchema.FormalParameterOption.Variadic:
        formals += [formals[-1]] * chance.randrange(4)
    elif formals and chance.random() < 0.3:
        formals = formals[: chance.randrange(schema.min_input, len(formals) + 1)]
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    types: dict[str, str] = {}
    for k, formal in enumerate(formals):
        if chance.random() < 0.04:
            node.input.append("")
            continue
        node.input.append(f"i{k}")
        spelled = types.setdefault(
            formal.type_str, chance.choice(sorted(allowed.get(formal.type_str, [formal.type_str])))
        )
        if chance.random() < 0.03:
            spelled = chance.choice(("tensor(float)", "tensor(int64)", "seq(tensor(float))", "tensor(string)"))
        if spelled.startswith("tensor(") and chance.random() < (0.55 if k else 0.3):
            elem_type = _DTYPES.get(spelled[7:-1], TensorProto.FLOAT)
            made.graph.initializer.append(_tensor(f"i{k}", elem_type, chance))
        else:
            made.graph.input.add(name=f"i{k}").type.CopyFrom(_type(spelled, chance))
    count = max(1, schema.min_output)
    for k in range(min(max(count, schema.max_output), count + chance.randrange(4))):
        node.output.append(f"o{k}" if chance.random() < 0.96 else "")
        if node.output[-1]:
            made.graph.output.add(name=f"o{k}")
    for about in schema.attributes.values():
        if about.required or chance.random() < 0.5:
            _add_attribute(node, about, chance)
    return made


def search(seconds: float, first: int = 0, *, most: int | None = None) -> Iterator[str]:
    """Nodes that do harm, as text with their number; at most `most` nodes are tried."""
    end, number = time.monotonic() + seconds, first
    with tempfile.NamedTemporaryFile() as shared:
        shared.write(bytes(8))
        shared.flush()
        while time.monotonic() < end and (most is None or number < first + most):
            stop = number + min(_BATCH, most or _BATCH, first + most - number if most else _BATCH)
            done = subprocess.run(
                [sys.executable, __file__, "--child", shared.name, str(number), str(stop), str(end - time.monotonic())],
                capture_output=True,
                text=True,
                check=False,
            )
            (number,) = struct.unpack("<q", Path(shared.name).read_bytes())
            yield from done.stdout.splitlines()
            if done.returncode:
                name = node_model(number).graph.node[0].op_type
                yield f"{number} {name}: the process ended with {done.returncode}: {done.stderr[-300:]}"
                number += 1


def _child(shared: str, first: int, stop: int, seconds: float) -> None:
    import resource
    import signal

    import onnxruntime.tools.symbolic_shape_infer  # noqa: F401 - so that no node's time has this in it

    from edgemem.errors import EdgememError
    from edgemem_converters.onnx.model import OnnxConverter

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    end = time.monotonic() + seconds
    with Path(shared).open("r+b") as file, mmap.mmap(file.fileno(), 8) as place:
        for number in range(first, stop):
            struct.pack_into("<q", place, 0, number)
            if time.monotonic() > end:
                return
            data = node_model(number).SerializeToString()
            signal.setitimer(signal.ITIMER_PROF, _SECONDS)
            try:
                OnnxConverter.from_bytes(data).graph()
            except EdgememError:
                pass
            except Exception as e:  # noqa: BLE001 - what is looked for
                name = node_model(number).graph.node[0].op_type
                print(f"{number} {name}: {type(e).__name__}: {e}"[:300], flush=True)
            signal.setitimer(signal.ITIMER_PROF, 0)
        struct.pack_into("<q", place, 0, stop)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float)
    parser.add_argument("first", type=int, nargs="?", default=0)
    args = parser.parse_args()
    found = 0
    for line in search(args.seconds, args.first):
        found += 1
        print(line, flush=True)
    sys.exit(found > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
    else:
        main()
