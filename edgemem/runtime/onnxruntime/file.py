"""What a session reads from an ONNX file's bytes: its digest, and the plans in its metadata.

Only the parts of ModelProto whose layout never changes are parsed: `graph` is field 7, `metadata_props` 14; a
graph's `initializer` is 5, its `external_data` 13; entries have a key 1 and a value 2. `opset_import` is 8, with
`domain` 1, and `functions` 25; nodes are 1 of a graph and 7 of a function, with `attribute` 5 (graphs in 6 and 11) and
`domain` 7.
"""

from __future__ import annotations

import _thread  # `threading` takes 0.2 MiB of a process that does without it
import binascii
import os
import stat
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from edgemem import planfile
from edgemem.errors import ModelError, PlanFileError
from edgemem.planfile.protobuf import LENGTH_DELIMITED, encode_field, fields, pair
from edgemem.replay.digest import sha256
from edgemem.system.file_bytes import FileBytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from edgemem.model.bindings import Bindings
    from edgemem.planfile.protobuf import Content, Field
    from edgemem.plans import PlanSet

__all__ = [
    "BAKED_KEY",
    "PLAN_KEY",
    "WEIGHTS_KEY",
    "Later",
    "digest_later",
    "digest_of",
    "has_blocked_layout",
    "metadata_of",
    "model_digest",
    "opened",
    "plan_bytes",
    "planned_bindings",
    "plans_in",
    "weight_bytes",
    "weight_files",
    "with_entry",
    "with_plans",
]

PLAN_KEY = "edgemem.plan"
BAKED_KEY = "edgemem.baked"  # of the note that identifies a baked file (optimise.py)
WEIGHTS_KEY = "edgemem.weights"  # of the note that names packed weights beside the file (weights/note.py)

_OURS = b"edgemem."
_PIECE = 1 << 16  # bytes
_METADATA, _GRAPH, _INITIALIZER, _EXTERNAL = 14, 7, 5, 13
_IMPORT, _FUNCTION, _ATTRIBUTE, _DOMAIN = 8, 25, 5, 7
_NODES = {_GRAPH: 1, _FUNCTION: 7}  # the field of a message's nodes
_BODIES = (6, 11)  # of an attribute
_BLOCKED = b"com.microsoft.nchwc"  # operators on tensors in blocks of channels, as many as a register holds


@contextmanager
def opened(path_or_bytes: str | bytes | os.PathLike[str]) -> Iterator[tuple[Content, str | None]]:
    """A model's bytes, of which little is in memory at once, and the folder its file lies in.

    The bytes are b"" where there is no regular file: ONNX Runtime raises the error.
    """
    if isinstance(path_or_bytes, bytes):
        yield path_or_bytes, None
        return
    folder = os.path.dirname(path_or_bytes)  # noqa: PTH120 - sessions do without pathlib, which takes 0.7 MiB and 3 ms
    if _size(path_or_bytes) < 0:
        yield b"", folder
        return
    with open(path_or_bytes, "rb", buffering=0) as file:  # noqa: PTH123
        yield FileBytes(file.fileno(), os.fstat(file.fileno()).st_size), folder


def model_digest(data: Content, folder: str | os.PathLike[str] | None = None) -> str:
    """sha256 of a model without what edgemem wrote into its metadata, and of its weight files' names and sizes.

    `folder` is where the file lies, None for a model without a file. Bytes that are no ONNX model count whole.
    """
    try:
        ours = [(entry.start, entry.end) for entry in _entries(data) if pair(data, entry)[0].startswith(_OURS)]
        external = sorted(set(_external(data)))
    except ModelError:
        ours, external = [], []
    sizes = [
        (name, -1 if folder is None else _size(os.path.join(folder, name)))  # noqa: PTH118
        for name in external
    ]
    outside = [f"\0{name}\0{size}".encode(errors="surrogateescape") for name, size in sizes]
    starts, ends = [0, *(end for _, end in ours)], [*(start for start, _ in ours), len(data)]
    kept = (part for start, end in zip(starts, ends, strict=True) for part in _parts(data, start, end))
    return sha256(chain(kept, outside))


def _parts(data: Content, begin: int, end: int) -> Iterable[bytes]:
    """The bytes of a range, in pieces."""
    if isinstance(data, FileBytes):
        return data.blocks(begin, end)
    return (data[start : min(start + _PIECE, end)] for start in range(begin, end, _PIECE))


def weight_files(data: Content) -> tuple[str, ...]:
    """The names of the files that a model's weights lie in besides its own, sorted; () for what is no ONNX model."""
    try:
        return tuple(sorted(set(_external(data))))
    except ModelError:
        return ()


def weight_bytes(data: Content) -> int:
    """Bytes of a model's initializers, in its file and in others; 0 for what is no ONNX model."""
    total = 0
    try:
        for tensor in _initializers(data):
            outside = dict(pair(data, entry) for entry in _messages(data, tensor.body, tensor.end, _EXTERNAL))
            total += int(outside.get(b"length", 0)) if outside else tensor.end - tensor.body
    except (ModelError, ValueError):
        return 0
    return total


class Later:
    """A digest that a thread of its own computes. The process may end before it has."""

    def __init__(self, compute: Callable[[], str]) -> None:
        self._compute = compute
        self._found: str | None = None
        self._error: BaseException | None = None
        self._computing = _thread.allocate_lock()
        self._computing.acquire()
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        try:
            self._found = self._compute()
        except BaseException as e:  # noqa: BLE001 - handed to whoever asks for the result
            self._error = e
        finally:
            self._computing.release()

    def result(self) -> str:
        """The digest, after waiting for it; raises what its computation raised."""
        with self._computing:
            pass
        if self._found is None:
            assert self._error is not None
            raise self._error
        return self._found


def digest_of(path_or_bytes: str | bytes | os.PathLike[str]) -> str:
    """`model_digest` of a model, which is read as `opened` has it."""
    with opened(path_or_bytes) as (data, folder):
        return model_digest(data, folder)


def digest_later(path_or_bytes: str | bytes | os.PathLike[str]) -> Later:
    """`digest_of`, computed on a thread of its own while the caller loads the model; `result()` waits for it.

    The bytes are hashed without holding Python's global lock.
    """
    return Later(lambda: digest_of(path_or_bytes))


def _size(path: str | os.PathLike[str]) -> int:
    """Bytes of a regular file; -1 for what is none, and for names that no file can have."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def plans_in(data: Content) -> tuple[PlanSet, ...]:
    """The plan sets in the metadata: at most one of the graph, and those of recordings; () without any.

    Nothing is proved. Raises PlanFileError if what is there is damaged.
    """
    coded = plan_bytes(data)
    return planfile.decode_all(coded) if coded else ()


def plan_bytes(data: Content) -> bytes:
    """The plan sets in the metadata as they are coded; b"" without any. Raises PlanFileError if they are damaged."""
    text = metadata_of(data, (PLAN_KEY,)).get(PLAN_KEY)
    if text is None:
        return b""
    try:
        coded = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error as e:
        raise PlanFileError(f"the plan in the model is damaged: {e}; plan the model again") from None
    planfile.check_whole(coded)
    return coded


def with_plans(data: bytes, plansets: Sequence[PlanSet]) -> bytes:
    """The model with these plan sets, in place of those it had, as `with_entry` writes them.

    Raises as `with_entry`, and PlanFileError for plan sets that one file cannot hold.
    """
    return with_entry(data, PLAN_KEY, binascii.b2a_base64(planfile.encode_all(plansets), newline=False))


def with_entry(data: bytes, key: str, value: bytes) -> bytes:
    """The model with a value in place of the one it had, as the last entry of its metadata; other bytes stay.

    Raises ModelError for bytes that are no ONNX model.
    """
    parts, position = [], 0
    for entry in _entries(data):
        if pair(data, entry)[0] == key.encode():
            parts.append(data[position : entry.start])
            position = entry.end
    made = encode_field(1, key.encode()) + encode_field(2, value)
    return b"".join((*parts, data[position:], encode_field(_METADATA, made)))


def metadata_of(data: Content, keys: Sequence[str]) -> dict[str, bytes]:
    """The values of these keys in the metadata; none for what is no ONNX model."""
    found: dict[str, bytes] = {}
    try:
        for entry in _entries(data):
            name, value = pair(data, entry)
            if (key := name.decode(errors="replace")) in keys:
                found[key] = value
    except ModelError:
        return {}
    return found


def has_blocked_layout(data: Content) -> bool:
    """Whether a model has operators whose weights lie as the processor needs them that ONNX Runtime optimised it on.

    Its nodes are read only where it imports these operators; a file that uses them without that is no valid model.
    """
    try:
        imports = (pair(data, entry)[0] for entry in _messages(data, 0, len(data), _IMPORT))
        if _BLOCKED not in imports:
            return False
        return any(domain == _BLOCKED for domain in _node_domains(data))
    except ModelError:
        return False


def _node_domains(data: Content) -> Iterator[bytes]:
    """The domain of every node that names one, in the graph, in functions and in bodies."""
    parts = [f for f in fields(data, 0, len(data)) if f.number in _NODES and f.wire == LENGTH_DELIMITED]
    bodies = [(part, _NODES[part.number]) for part in parts]
    while bodies:
        part, nodes = bodies.pop()
        for node in _messages(data, part.body, part.end, nodes):
            for field in fields(data, node.body, node.end):
                if field.wire != LENGTH_DELIMITED:
                    continue
                if field.number == _DOMAIN:
                    yield data[field.body : field.end]
                elif field.number == _ATTRIBUTE:
                    inner = (f for number in _BODIES for f in _messages(data, field.body, field.end, number))
                    bodies += [(body, _NODES[_GRAPH]) for body in inner]


def _entries(data: Content) -> Iterator[Field]:
    return (f for f in fields(data, 0, len(data)) if f.number == _METADATA and f.wire == LENGTH_DELIMITED)


def _external(data: Content) -> Iterator[str]:
    """The names of the weight files, one for every tensor in them; the bytes of weights are stepped over."""
    for tensor in _initializers(data):
        for entry in _messages(data, tensor.body, tensor.end, _EXTERNAL):
            key, value = pair(data, entry)
            if key == b"location":
                yield value.decode(errors="surrogateescape")


def _initializers(data: Content) -> Iterator[Field]:
    for graph in _messages(data, 0, len(data), _GRAPH):
        yield from _messages(data, graph.body, graph.end, _INITIALIZER)


def _messages(data: Content, start: int, end: int, number: int) -> Iterator[Field]:
    return (f for f in fields(data, start, end) if f.number == number and f.wire == LENGTH_DELIMITED)


def planned_bindings(data: bytes, given: Bindings) -> Bindings:
    """What the user bound, and besides what the plan of the graph in a file was made for.

    Raises PlanFileError if the plan is damaged.
    """
    from edgemem.model.bindings import Bindings  # no session needs them
    from edgemem.model.ranges import resolve

    graph = next((p for p in plans_in(data) if p.recording is None), None)
    if graph is None:
        return given
    ranges = {**{name: made for name, made in graph.ranges.items() if name not in given.dims}, **given.ranges}
    fixed = {name: value for name, value in given.dims.items() if name not in given.ranges}
    dims = resolve(graph.dims, ranges, fixed)
    return Bindings(dims, {**graph.input_shapes, **given.input_shapes}, ranges)
