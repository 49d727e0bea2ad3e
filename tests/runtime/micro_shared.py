"""Runs several .tflite files in one arena of TensorFlow Lite Micro, with one allocator; a script.

Its Python module has an arena an interpreter, but exports the C++ functions, which are called here. The argument is
JSON: `models` (paths, prepared in this order), `arena` (bytes), `steps`, and `fill`, what each byte of the arena is at
first. A step is `[model, seed]`, a run with random inputs, or `[model, "output"]`, one whose first input is the first
output of the step before, moved within the arena. It prints the head, the tail and a digest of each step's outputs.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import sys
from pathlib import Path
from typing import Any, Final

from tflite_micro import runtime

from edgemem.model.resource_variables import all_operators, variables_of
from edgemem.runtime.tflm.execution import input_values
from edgemem_converters.tflite.model import TfliteConverter

MICRO: Final = "_ZN6tflite5micro"
CREATE: Final = f"{MICRO}23RecordingMicroAllocator6CreateEPhm"
RESOLVER: Final = "_ZN6tflite17PythonOpsResolverC1Ev"
VARIABLES: Final = f"{MICRO}22MicroResourceVariables6CreateEPNS0_14MicroAllocatorEi"
INTERPRETER: Final = (
    f"{MICRO}16MicroInterpreterC1EPKNS_5ModelERKNS0_15MicroOpResolverEPNS0_14MicroAllocatorE"
    "PNS0_22MicroResourceVariablesEPNS0_22MicroProfilerInterfaceE"
)
METHOD: Final = f"{MICRO}16MicroInterpreter"
SINGLE: Final = "_ZNK6tflite5micro23RecordingMicroAllocator24GetSimpleMemoryAllocatorEv"
USED: Final = "_ZNK6tflite5micro26SingleArenaBufferAllocator"
ROOM: Final = 1 << 18  # for an object of C++ whose size is not known here; they are less than a quarter of that


class Tensor(ctypes.Structure):
    """A TfLiteTensor with 64-bit pointers."""

    _fields_ = (
        ("quantisation", ctypes.c_uint64 * 3),
        ("data", ctypes.c_void_p),
        ("dims", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
    )


class Shared:
    """Interpreters in one arena."""

    def __init__(self, models: list[TfliteConverter], arena: int, fill: int) -> None:
        folder = Path(runtime.__file__).parent
        self._library = ctypes.CDLL(str(next(folder.glob("_runtime*.so"))))
        self._kept: list[Any] = []
        self._graphs = [model.graph() for model in models]
        memory = ctypes.addressof(self._room(arena + 16))
        memory += -memory % 16
        ctypes.memset(memory, fill, arena)
        self._allocator = self._call(CREATE, memory, arena)
        assert self._allocator
        resolver = self._made(RESOLVER)
        self._interpreters = [self._interpreter(model, resolver) for model in models]

    def used(self) -> tuple[int, int]:
        """Head and tail."""
        single = self._call(SINGLE, self._allocator)
        head = self._call(f"{USED}25GetNonPersistentUsedBytesEv", single)
        return head, self._call(f"{USED}22GetPersistentUsedBytesEv", single)

    def run(self, number: int, seed: int) -> str:
        values = input_values(self._graphs[number], seed=seed)
        for k, value in enumerate(values):
            tensor, content = self._tensor(number, "input", k), value.tobytes()
            assert tensor.bytes == len(content)
            ctypes.memmove(tensor.data, content, len(content))
        return self._invoke(number)

    def run_on_output(self, number: int, before: int) -> str:
        given, made = self._tensor(number, "input", 0), self._tensor(before, "output", 0)
        assert given.bytes == made.bytes
        ctypes.memmove(given.data, made.data, made.bytes)
        return self._invoke(number)

    def _invoke(self, number: int) -> str:
        assert self._status(f"{METHOD}6InvokeEv", self._interpreters[number]) == 0
        outputs = (self._tensor(number, "output", k) for k in range(len(self._graphs[number].outputs)))
        return hashlib.sha256(b"".join(ctypes.string_at(t.data, t.bytes) for t in outputs)).hexdigest()

    def _interpreter(self, model: TfliteConverter, resolver: int) -> int:
        count = variables_of(all_operators(model.graph()))
        variables = self._call(VARIABLES, self._allocator, count) if count else None
        content = self._room(len(model.content()) + 16)
        start = ctypes.addressof(content) + -ctypes.addressof(content) % 16
        ctypes.memmove(start, model.content(), len(model.content()))
        root = start + int.from_bytes(model.content()[:4], "little")  # of the flatbuffer
        made = self._made(INTERPRETER, root, resolver, self._allocator, variables, None)
        if self._status(f"{METHOD}15AllocateTensorsEv", made):
            sys.exit("the arena is too small")
        return made

    def _tensor(self, number: int, end: str, k: int) -> Tensor:
        at = self._call(f"{METHOD}{len(end)}{end}Em", self._interpreters[number], k)
        return Tensor.from_address(at)

    def _made(self, constructor: str, *arguments: int | None) -> int:
        at = ctypes.addressof(self._room(ROOM))
        self._call(constructor, at, *arguments)
        return at

    def _room(self, size: int) -> Any:
        self._kept.append(ctypes.create_string_buffer(size))
        return self._kept[-1]

    def _call(self, name: str, *arguments: int | None) -> int:
        function = self._library[name]
        function.restype = ctypes.c_void_p
        found = function(*(ctypes.c_void_p(each) for each in arguments))
        return int(found or 0)

    def _status(self, name: str, *arguments: int) -> int:
        return self._call(name, *arguments) & 0xFFFFFFFF


def main(job: dict[str, Any]) -> None:
    models = [TfliteConverter.from_bytes(Path(path).read_bytes()) for path in job["models"]]
    shared = Shared(models, job["arena"], job["fill"])
    digests, before = [], -1
    for number, what in job["steps"]:
        digests.append(shared.run_on_output(number, before) if what == "output" else shared.run(number, what))
        before = number
    head, tail = shared.used()
    print(json.dumps({"head": head, "tail": tail, "digests": digests}))


main(json.loads(sys.argv[1]))
