"""A process of `litert_memory.py`: runs a .tflite model in one way, and tells its memory.

Its argument is the task: `model`, `way` (`litert`, `edgemem`, `compiled`), `builtin`, `cache` (of packed weights), the
`inputs` (shape and NumPy type) and the number of `runs`. Each line of its input is answered by a line of JSON: `read`
by KiB, `run` by the processor times of the runs in ms and a checksum of the outputs.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    # Sets the inputs, runs, and reads the outputs.
    Calls = tuple[Callable[[list[Any]], None], Callable[[], None], Callable[[], list[bytes]]]

_SIZES = {"Rss:": "resident", "Anonymous:": "anonymous", "Pss:": "proportional"}


def memory() -> dict[str, int]:
    found = {}
    with open("/proc/self/smaps_rollup") as lines:  # noqa: PTH123 - imports are a part of what is measured
        for line in lines:
            if line.split()[0] in _SIZES:
                found[_SIZES[line.split()[0]]] = int(line.split()[1])
    with open("/proc/self/status") as lines:  # noqa: PTH123
        found["peak"] = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return found


def interpreted(task: dict[str, Any]) -> Calls:
    options = {}
    if task["way"] == "edgemem":
        import edgemem

        make: Any = edgemem.Interpreter
    else:
        from ai_edge_litert import interpreter

        make = interpreter.Interpreter
    if task["builtin"]:
        from ai_edge_litert.interpreter import OpResolverType

        options["experimental_op_resolver_type"] = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    one = make(task["model"], **options)
    one.allocate_tensors()
    inputs, outputs = ([d["index"] for d in details()] for details in (one.get_input_details, one.get_output_details))

    def feed(values: list[Any]) -> None:
        for index, value in zip(inputs, values, strict=True):
            one.set_tensor(index, value)

    return feed, one.invoke, lambda: [one.get_tensor(index).tobytes() for index in outputs]


def compiled(task: dict[str, Any]) -> Calls:
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.options import CpuOptions, Options

    cpu = CpuOptions(num_threads=1, xnnpack_weight_cache_path=task["cache"])
    one = CompiledModel.from_file(task["model"], options=Options(cpu_options=cpu))
    inputs, outputs = one.create_input_buffers(0), one.create_output_buffers(0)

    def feed(values: list[Any]) -> None:
        for buffer, value in zip(inputs, values, strict=True):
            buffer.write(value.reshape(-1))

    def read() -> list[bytes]:
        import numpy as np

        rows = zip(outputs, task["outputs"], strict=True)
        return [np.asarray(buffer.read(size, np.dtype(kind).type)).tobytes() for buffer, (size, kind) in rows]

    return feed, lambda: one.run_by_index(0, inputs, outputs), read


def run(task: dict[str, Any]) -> dict[str, Any]:
    feed, invoke, read = (compiled if task["way"] == "compiled" else interpreted)(task)
    import numpy as np

    values = []
    for k, (shape, kind) in enumerate(task["inputs"]):
        wave = np.sin(np.arange(np.prod(shape), dtype=np.float32) * (12.9898 + k)).reshape(shape)
        values.append((wave * (1 if np.dtype(kind).kind == "f" else 100)).astype(kind))
    times = []
    for _ in range(task["runs"]):
        feed(values)
        begin = time.process_time()  # other programs do not add to it
        invoke()
        times.append((time.process_time() - begin) * 1e3)
    kept.append((feed, invoke, read))
    return {"times": times, "outputs": hash(tuple(read()))}


kept: list[Any] = []
for line in sys.stdin:
    print("\nanswer:" + json.dumps(memory() if line.strip() == "read" else run(json.loads(sys.argv[1]))), flush=True)
