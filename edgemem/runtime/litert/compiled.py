"""LiteRT's CompiledModel, on the CPU or a GPU, with its inputs and outputs in an arena of ours.

An accelerator keeps all intermediate tensors in memory of its own, and no call replaces that memory: on a GPU the
caller only chooses between buffers and textures. So the arena holds inputs and outputs, and the memory of the
accelerator is measured as far as the process's heap shows it.
"""

from __future__ import annotations

import ctypes
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from edgemem.errors import MissingDependencyError, ModelError, RuntimeBindError
from edgemem.records.sizes import padded
from edgemem.runtime.litert.layout import graph_of, open_tflite, refusal
from edgemem.runtime.litert.probe import probe
from edgemem.runtime.litert.tensor_memory import TensorMemory
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph
    from edgemem.replay.arena import Arena

__all__ = ["Accelerator", "CompiledModel", "Storage"]

Accelerator: TypeAlias = Literal["cpu", "gpu"]
Storage: TypeAlias = Literal["default", "buffer", "texture"]

_ACCELERATORS: Final[dict[Accelerator, int]] = {"cpu": 1, "gpu": 2}
_STORAGES: Final[dict[Storage, int]] = {"default": 0, "buffer": 1, "texture": 2}
_ALIGNMENT: Final = 64
# LiteRtElementType.
_TYPES: Final = {
    "float32": 1,
    "int32": 2,
    "uint8": 3,
    "int64": 4,
    "bool": 6,
    "int16": 7,
    "int8": 9,
    "float16": 10,
    "float64": 11,
    "uint64": 13,
    "uint32": 16,
    "uint16": 17,
}


class _Layout(ctypes.Structure):
    _fields_ = [
        ("rank", ctypes.c_uint, 7),
        ("has_strides", ctypes.c_uint, 1),
        ("dimensions", ctypes.c_int32 * 8),
        ("strides", ctypes.c_uint32 * 8),
    ]


class _TensorType(ctypes.Structure):
    _fields_ = [("element", ctypes.c_int), ("layout", _Layout)]


class CompiledModel:
    """A model compiled by LiteRT, whose inputs and outputs are in one arena.

    Attributes:
        planned: bytes of the arena.
        arena: the arena.
        host_kept: bytes by which the process's heap grew while the model was compiled, None where that is not known.
            A software GPU has its memory there, a real one does not.
    """

    def __init__(
        self,
        model: bytes | str | Path,
        *,
        accelerator: Accelerator = "cpu",
        storage: Storage = "default",
        arena: Arena | None = None,
    ) -> None:
        """Compile a .tflite file.

        Args:
            model: the file, or its path.
            accelerator: what runs it.
            storage: what a GPU keeps its tensors in; `default` leaves it to LiteRT.
            arena: for inputs and outputs; one of its own by default.

        Raises:
            MissingDependencyError: ai-edge-litert is not installed.
            RuntimeBindError: LiteRT cannot compile the model for the accelerator (a GPU needs Vulkan), or its outputs
                have sizes that depend on the data: LiteRT would leave such outputs unwritten without an error.
            ModelError: `storage` is given for a CPU, or the file cannot be read or is damaged.
        """
        if accelerator == "cpu" and storage != "default":
            raise ModelError("a CPU has no storage to choose; it is for the GPU")
        data = model if isinstance(model, bytes) else _read(model)
        opened_model = open_tflite(data)
        probed = probe(data)
        self._graph: Graph = graph_of(opened_model, probed)
        dynamic = refusal(self._graph, probed)
        if dynamic:
            raise RuntimeBindError(f"the model cannot have its outputs in an arena: {dynamic}")
        self._held: list[Any] = []
        self._made: list[tuple[str, Any]] = []  # what is to be destroyed, and by which call
        self._library = _library(gpu=accelerator == "gpu")
        before = _heap()
        self._compile(data, accelerator, storage)
        after = _heap()
        self.host_kept = None if before is None or after is None else after - before
        inputs, outputs = (self._ends(which) for which in ("Input", "Output"))
        places: dict[int, int] = {}
        self.planned = 0
        for i in dict.fromkeys((*inputs, *outputs)):
            start = padded(self.planned, _ALIGNMENT)
            places[i], self.planned = start, start + self._graph.tensors[i].size
        self._memory = TensorMemory(self._graph, places, self.planned, arena)
        self.arena = self._memory.arena
        self._inputs = self._buffers(inputs)
        self._outputs = self._buffers(outputs)

    def __del__(self) -> None:
        for call, handle in reversed(getattr(self, "_made", ())):
            getattr(self._library, call)(handle)

    def run(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """The outputs for these inputs, both in the order of the file. Raises RuntimeBindError if LiteRT fails."""

        def invoke() -> None:
            status = self._library.LiteRtRunCompiledModel(
                self._compiled,
                ctypes.c_size_t(0),
                ctypes.c_size_t(len(self._inputs)),
                self._inputs,
                ctypes.c_size_t(len(self._outputs)),
                self._outputs,
            )
            self._check(status, "run the model")

        return self._memory.run(inputs, invoke)

    def _compile(self, model: bytes, accelerator: Accelerator, storage: Storage) -> None:
        library = self._library
        environment = self._new("LiteRtCreateEnvironment", "LiteRtDestroyEnvironment", 0, None)
        with temporary_folder() as folder:
            file = folder / "model.tflite"
            file.write_bytes(model)
            name = str(file).encode()
            self._file = self._new("LiteRtCreateModelFromFile", "LiteRtDestroyModel", environment, name)
            options = self._new("LiteRtCreateOptions", "LiteRtDestroyOptions")
            self._check(library.LiteRtSetOptionsHardwareAccelerators(options, _ACCELERATORS[accelerator]), "choose")
            if accelerator == "gpu":
                # Precision 2 is float32: results are to be compared with those of a CPU.
                text = f"precision = 2\nbuffer_storage_type = {_STORAGES[storage]}\n".encode()
                payload = ctypes.create_string_buffer(text)
                keep = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
                self._held += [payload, keep]
                more = ctypes.c_void_p()
                status = library.LiteRtCreateOpaqueOptions(b"gpu_options", payload, keep, ctypes.byref(more))
                self._check(status or library.LiteRtAddOpaqueOptions(options, more), "take the options")
            self._compiled = self._new(
                "LiteRtCreateCompiledModel", "LiteRtDestroyCompiledModel", environment, self._file, options
            )

    def _new(self, create: str, destroy: str, *arguments: Any) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._check(getattr(self._library, create)(*arguments, ctypes.byref(handle)), create.removeprefix("LiteRt"))
        self._made.append((destroy, handle))
        return handle

    def _ends(self, which: Literal["Input", "Output"]) -> list[int]:
        """The tensors of the first signature's inputs or outputs, in its order, which is that of the buffers."""
        library = self._library
        signature, count = ctypes.c_void_p(), ctypes.c_size_t()
        self._check(library.LiteRtGetModelSignature(self._file, ctypes.c_size_t(0), ctypes.byref(signature)), "show")
        self._check(getattr(library, f"LiteRtGetNumSignature{which}s")(signature, ctypes.byref(count)), "show")
        own = self._graph.inputs if which == "Input" else self._graph.outputs
        ends = []
        for k in range(count.value):
            # A signature may list tensors in another order than the subgraph, and under other names.
            tensor, index = ctypes.c_void_p(), ctypes.c_uint32()
            call = getattr(library, f"LiteRtGetSignature{which}TensorByIndex")
            self._check(call(signature, ctypes.c_size_t(k), ctypes.byref(tensor)), "show")
            self._check(library.LiteRtGetTensorIndex(tensor, ctypes.byref(index)), "show")
            ends.append(index.value)
        if sorted(ends) != sorted(own):
            raise RuntimeBindError("the model's signature has other inputs or outputs than its main subgraph")
        return ends

    def _buffers(self, ends: Sequence[int]) -> Any:
        buffers = (ctypes.c_void_p * len(ends))()
        for k, i in enumerate(ends):
            tensor = self._graph.tensors[i]
            if tensor.dtype not in _TYPES or len(tensor.shape) > 8:
                raise RuntimeBindError(
                    f"{tensor.name!r} is of {tensor.dtype}, rank {len(tensor.shape)}: no buffer for it"
                )
            shape = _TensorType(_TYPES[tensor.dtype])
            shape.layout.rank = len(tensor.shape)
            shape.layout.dimensions[: len(tensor.shape)] = tensor.shape
            assert prod(tensor.shape)
            address, size = self._memory.address(i), ctypes.c_size_t(tensor.size)
            buffers[k] = self._new(
                "LiteRtCreateTensorBufferFromHostMemory",
                "LiteRtDestroyTensorBuffer",
                ctypes.byref(shape),
                ctypes.c_void_p(address),
                size,
                None,
            ).value
        return buffers

    def _check(self, status: int, what: str) -> None:
        if status:
            raise RuntimeBindError(f"LiteRT could not {what} (status {status}); a GPU needs a Vulkan driver")


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as e:
        raise ModelError(f"cannot read {path}: {e.strerror or e}") from None


def _library(*, gpu: bool) -> Any:
    try:
        import ai_edge_litert
    except ImportError:
        raise MissingDependencyError("ai-edge-litert", extra="tflite", purpose="compiling models") from None
    home = Path(ai_edge_litert.__file__).parent
    if gpu and (home / "libLiteRtWebGpuAccelerator.so").is_file():
        # LiteRT looks for it by its bare name, and finds what is loaded already.
        ctypes.CDLL(str(home / "libLiteRtWebGpuAccelerator.so"), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(home / "libLiteRt.so"))


class _Heap(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "mapped", "usmblks", "fsmblks", "used", "free", "keepcost")
    ]


def _heap() -> int | None:
    """Bytes allocated from the C heap, or None where the C library does not report them."""
    try:
        call = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return None
    call.restype = _Heap
    now = call()
    return int(now.mapped + now.used)
