"""Whether the installed LiteRT lays its structures out as `structs` says.

A wrong layout could crash the process, or let edgemem write where it must not. So a process of its own runs a small
model (`structs_model`) and examines everything that edgemem reads of the structures, writes to them and calls: with a
wrong layout a value is not what it must be, or the process crashes. This takes a fraction of a second, once for an
installation: that a layout is right is noted (`structs_note`).
"""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.runtime.litert.delegate import UnknownLayoutError, observe_unproved
from edgemem.runtime.litert.guard import TensorGuard
from edgemem.runtime.litert.package import interpreter_class, op_resolvers
from edgemem.runtime.litert.structs import INVOKE, Registration
from edgemem.runtime.litert.structs_model import OPERATORS, TENSORS, model_bytes, results
from edgemem.runtime.litert.structs_note import is_noted, write_note
from edgemem.system.child_call import ChildError, Message, call_child, serve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.runtime.litert.delegate import Delegate
    from edgemem.runtime.litert.probe_data import Probe

__all__ = ["check_here", "check_structs", "difference"]

_TIMEOUT_S: Final = 60.0
_CHILD: Final = "edgemem.runtime.litert.structs_check"
_ALIGNMENT: Final = 64

_lock = threading.Lock()
_verdicts: dict[str, str] = {}  # the module of LiteRT's class -> what is wrong, or ""


def check_structs() -> None:
    """Raise RuntimeBindError unless the installed LiteRT has the known layout; the first call may start a process."""
    package = interpreter_class().__module__
    with _lock:
        if package not in _verdicts:
            _verdicts[package] = _verdict(package)
    _refuse(_verdicts[package])


def check_here() -> None:
    """As `check_structs`, but in this process, which a wrong layout may crash: it is one that a parent has started."""
    package = interpreter_class().__module__
    if package not in _verdicts:
        _verdicts[package] = difference()
    _refuse(_verdicts[package])


def _refuse(verdict: str) -> None:
    if verdict:
        raise UnknownLayoutError(verdict)


def _verdict(package: str) -> str:
    if is_noted(package):
        return ""
    if getattr(sys, "frozen", False) or not sys.executable:  # the executable is an application, not Python
        return difference()
    try:
        verdict: str = call_child(_CHILD, Message({}), timeout_s=_TIMEOUT_S).data["verdict"]
    except ChildError as e:
        return "reading it did not end" if e.status is None else "reading it crashes"
    except OSError:  # this system starts no processes
        return difference()
    if not verdict:
        write_note(package)
    return verdict


def difference() -> str:
    """What is not laid out as `structs` says, in a few words; "" if everything is. A wrong layout may crash it."""
    try:
        return _read() or _written()
    except UnknownLayoutError as e:
        return e.difference
    except (RuntimeError, ValueError, RuntimeBindError) as e:
        return str(e).strip() or "LiteRT does not run with the delegate"


def _made() -> tuple[Any, Delegate, Probe]:
    """The small model, prepared, and what is seen of it."""
    model = model_bytes()

    def make(delegates: list[Any]) -> Any:
        return interpreter_class()(
            model_content=model,
            experimental_delegates=delegates or None,
            experimental_op_resolver_type=op_resolvers().BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )

    interpreter, delegate = observe_unproved(make)
    interpreter.allocate_tensors()
    return interpreter, delegate, delegate.read()


def _read() -> str:
    """Every field that is read has the value that the model, or LiteRT's Python interface, gives it."""
    interpreter, delegate, probed = _made()
    tensors, scratch = probed.main.tensors, probed.main.scratch
    for index, (known, tensor) in enumerate(zip(TENSORS, tensors, strict=False)):
        if delegate.tensors[index].type != known.type:
            return "types"
        if tensor.allocation != known.allocation:
            return "allocation types"
        if known.allocation == "arena" and tensor.address != interpreter.tensor(index)().ctypes.data:
            return "addresses"
        if known.constant and ctypes.string_at(tensor.address, tensor.size) != known.data:
            return "data of constants"
    added = [index for indices in scratch for index in indices]
    if not added or added != list(range(len(TENSORS), len(tensors))):
        return "workspace"
    codes = [Registration.from_address(at).builtin_code for at in delegate.registrations]
    return "" if codes == [operator.code for operator in OPERATORS] else "registrations"


def _written() -> str:
    """Tensors and workspace are where they were put, and an operator's call is the one that was put there."""
    interpreter, delegate, probed = _made()
    inside = [i for i, t in enumerate(probed.main.tensors) if t.allocation == "arena" and t.address and t.size]
    memory = _Memory(delegate, [(i, probed.main.tensors[i].size) for i in inside])
    registration = Registration.from_address(delegate.registrations[_WRAPPED])
    calls, original = [], INVOKE(registration.invoke)

    def call(context: int, node: int) -> int:
        calls.append(node)
        return int(original(context, node))

    wrapped = INVOKE(call)
    registration.invoke = ctypes.cast(wrapped, ctypes.c_void_p).value
    wrong = memory.wrong_after(interpreter)
    registration.invoke = ctypes.cast(original, ctypes.c_void_p).value
    return wrong or ("" if len(calls) == 1 else "calls of operators")


_WRAPPED: Final = 2  # the operator whose call is replaced


class _Memory:
    """Memory of our own for some tensors of the small model, one after the other."""

    def __init__(self, delegate: Delegate, sizes: Sequence[tuple[int, int]]) -> None:
        """Put tensors into it: (index, bytes)."""
        places, end = [], 0
        for index, size in sizes:
            places.append((index, end, size))
            end += -(-size // _ALIGNMENT) * _ALIGNMENT
        self._places = places
        self._block = np.zeros(end + _ALIGNMENT, np.uint8)
        self._shift = -self._block.ctypes.data % _ALIGNMENT
        self._guard = TensorGuard(delegate, places)
        self._guard.point(self._block.ctypes.data + self._shift)

    def wrong_after(self, interpreter: Any) -> str:
        """Run the model, and say what is not in this memory; "" if everything is."""
        x = np.array([[0.5, -1, 2], [3, -4.5, 6]], np.float32)
        given = np.arange(-17, 18, dtype=np.int8).reshape(5, 7)
        interpreter.set_tensor(0, x)
        interpreter.set_tensor(1, given)
        interpreter.invoke()
        self._guard.check()
        expected = {**results(x, given), "x": x.tobytes(), "bytes": given.tobytes()}
        for index, offset, size in self._places:
            begin = self._shift + offset
            if index < len(TENSORS) and self._block[begin : begin + size].tobytes() != expected[TENSORS[index].name]:
                return "data"
        return ""


if __name__ == "__main__":
    serve(lambda _: Message({"verdict": difference()}))
