"""Weights that an ONNX model keeps in files beside it: names these files, and copies them when the model is saved."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from onnx import TensorProto

from edgemem.errors import ModelError
from edgemem.system.files import atomic_write
from edgemem_converters.onnx.folder_files import open_inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import IO

    from onnx import GraphProto, ModelProto, NodeProto, SparseTensorProto

__all__ = ["bring_along", "location", "locations", "names_beside", "names_in", "tensors", "with_locations"]

_BLOCK = 1 << 20
# A key, and the length of its value, as protobuf has them.
_ENTRY = re.compile(rb"\x0a\x08location\x12([\x80-\xff])?([\x01-\x7f])")


def locations(model: ModelProto) -> tuple[str, ...]:
    """The files that tensors anywhere in the model lie in, relative to its folder, in order of first use.

    Raises ModelError for one outside the folder, as onnx and onnxruntime do.
    """
    found = dict.fromkeys(location(t) for t in tensors(model) if t.data_location == TensorProto.EXTERNAL)
    return tuple(found)


def names_in(data: bytes) -> tuple[str, ...]:
    """What may be the files that tensors lie in, of a model that was not parsed; sorted.

    Other bytes may look like a name, so that a file of such a name need not be there.
    """
    found = set()
    for match in _ENTRY.finditer(data):
        low, high = match.groups()
        length = high[0] if low is None else (high[0] << 7) | (low[0] & 0x7F)
        name = data[match.end() : match.end() + length].decode(errors="replace")
        path = PurePosixPath(name)
        if name.isprintable() and path.name and not path.is_absolute() and ".." not in path.parts:
            found.add(name)
    return tuple(sorted(found))


def location(tensor: TensorProto) -> str:
    """The file an external tensor lies in, relative to the model's folder; ModelError unless it is inside.

    A tensor with two locations is refused, because readers differ in which one they take; so is one whose entries are
    no text.
    """
    entries = [(e.key, e.value) for e in tensor.external_data]
    if any(not isinstance(text, str) for entry in entries for text in entry):
        raise ModelError(f"the file is damaged: where tensor {tensor.name!r} lies is no UTF-8")
    keys = [key for key, _ in entries]
    if len(set(keys)) != len(keys):
        raise ModelError(f"the file is damaged: tensor {tensor.name!r} says twice where it lies")
    name: str = dict(entries).get("location", "")
    path, windows = PurePosixPath(name), PureWindowsPath(name)
    if not path.name or path.is_absolute() or windows.drive or windows.root or ".." in windows.parts or "\0" in name:
        raise ModelError(
            f"tensor {tensor.name!r} lies in {name!r}, which is no file in the model's folder; "
            "save the model anew with its weights beside it"
        )
    return name


def names_beside(names: Iterable[str], model: Path) -> dict[str, str]:
    """The names of copies of the files beside a model that is written: they follow from its own name alone.

    The first one is `MODEL.onnx.data`, the others `MODEL.onnx.data.1` and so on: a name that a stranger's model chose
    could be that of a program or of a module of Python.
    """
    return {name: f"{model.name}.data{f'.{k}' * (k > 0)}" for k, name in enumerate(names)}


def with_locations(model: ModelProto, names: Mapping[str, str]) -> ModelProto:
    """The model, changed in place, with its tensors in files of these names."""
    for tensor in tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = names[entry.value]
    return model


def bring_along(names: Mapping[str, str], source: Path, folder: Path) -> None:
    """Copy the files to another folder, under new names. Links would not do: onnx refuses weights with a second name.

    Copies get the permissions of a new file, whatever those of the original are. Nothing is overwritten: a file that
    is there must have the same content. Raises ModelError if it has another one, or if a file in `source` is missing,
    is hidden, is no regular file or is reached through a symbolic link.
    """
    for name, new in names.items():
        origin, target = source / name, folder / new
        if any(part.startswith(".") for part in PurePosixPath(name).parts):
            raise ModelError(f"the model's weights are in a hidden file, {name!r}, and are not copied; rename it")
        try:
            with open_inside(source, name) as file:
                _bring(file, target)
        except FileNotFoundError:
            if origin.exists():  # it is the target that is not there
                raise ModelError(f"cannot put the weights at {target}: a folder is missing") from None
            raise ModelError(f"the model's weights are missing: no file {origin}") from None
        except OSError as e:
            raise ModelError(f"cannot put the weights at {target}: {e}") from None


def _bring(source: IO[bytes], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(target):
        with atomic_write(target) as copy:
            _copy(source, copy)
    elif not target.is_file() or not _same(source, target):
        raise ModelError(f"{target} exists and is not the model's; move it away or save elsewhere")


def _copy(source: IO[bytes], copy: IO[bytes]) -> None:
    """Copy the content; holes stay holes where the system can tell them."""
    size = os.fstat(source.fileno()).st_size
    position = 0
    while position < size:
        start, end = position, size
        if hasattr(os, "SEEK_DATA"):
            try:
                start = os.lseek(source.fileno(), position, os.SEEK_DATA)
                end = os.lseek(source.fileno(), start, os.SEEK_HOLE)
            except OSError:
                break  # nothing but a hole up to the end
        source.seek(start)
        copy.seek(start)
        while start < end:
            block = source.read(min(_BLOCK, end - start))
            if not block:
                raise OSError("the file became shorter while it was read")
            copy.write(block)
            start += len(block)
        position = end
    copy.truncate(size)


def _same(source: IO[bytes], b: Path) -> bool:
    with b.open("rb") as right:
        here, there = os.fstat(source.fileno()), os.fstat(right.fileno())
        if os.path.samestat(here, there):
            return True
        if here.st_size != there.st_size:
            return False
        while block := source.read(_BLOCK):
            if block != right.read(_BLOCK):
                return False
    return True


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """All tensors of a model, those in the attributes of nodes, bodies and functions included."""
    yield from _of_graph(model.graph)
    for function in model.functions:
        yield from _of_nodes(function.node)


def _of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from _of_sparse(sparse)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for a in node.attribute:
            if a.HasField("t"):
                yield a.t
            if a.HasField("sparse_tensor"):
                yield from _of_sparse(a.sparse_tensor)
            if a.HasField("g"):
                yield from _of_graph(a.g)
            yield from a.tensors
            for sparse in a.sparse_tensors:
                yield from _of_sparse(sparse)
            for graph in a.graphs:
                yield from _of_graph(graph)


def _of_sparse(sparse: SparseTensorProto) -> Iterator[TensorProto]:
    yield sparse.values
    yield sparse.indices
