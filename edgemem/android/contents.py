"""What edgemem puts into an APK: the names of the files, what assets/edgemem.json says, and how the files lie."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from edgemem.android.archive import Entry
from edgemem.errors import ApkError
from edgemem.system.text import short_repr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.model.graph import Graph

__all__ = [
    "INFO",
    "LABELS",
    "LIBRARIES",
    "LIBRARY_ALIGNMENT",
    "MANIFEST",
    "MODEL",
    "MODEL_ALIGNMENT",
    "NOTICES",
    "OWN_LIBRARY",
    "Form",
    "Info",
    "Level",
    "Preprocess",
    "Task",
    "Value",
    "arranged",
    "classes_of",
    "decode_info",
    "dex_name",
    "encode_info",
    "library_folders",
    "task_for",
    "values_of",
]

Form: TypeAlias = Literal["onnx", "tflite"]
Task: TypeAlias = Literal["faces", "classes", "tensors"]
Preprocess: TypeAlias = Literal["minus_one_to_one", "zero_to_one", "imagenet"]
Level: TypeAlias = Literal["none", "basic", "extended", "all"]

MANIFEST: Final = "AndroidManifest.xml"
INFO: Final = "assets/edgemem.json"
LABELS: Final = "assets/labels.txt"
MODEL: Final = "assets/model.onnx"
NOTICES: Final = "assets/NOTICES.txt"

OWN_LIBRARY: Final = "libedgemem.so"
LIBRARIES: Final = (OWN_LIBRARY, "libonnxruntime.so", "libonnxruntime4j_jni.so")

# Android maps stored libraries where they lie in the APK: at a page of the memory, which has up to 16 KiB.
LIBRARY_ALIGNMENT: Final = 16384
MODEL_ALIGNMENT: Final = 4096

_MOST_INFO: Final = 1 << 20  # bytes of edgemem.json


@dataclass(frozen=True, slots=True)
class Value:
    """An input or output of the model: its name, a key of DTYPE_BITS, and the dimensions that the plan is for."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Info:
    """What assets/edgemem.json tells the app.

    Attributes:
        form: the format of the model's file, which is its name's suffix, too.
        sha256: of the model's bytes, in hexadecimal digits.
        edgemem: the version that made the app.
        runtime: the version of the runtime in it; "" if it is not known.
        task: what the app shows of the outputs.
        labels: whether there is a file of labels, a line a class.
        preprocess: how the app makes numbers of an image's bytes; "" lets it choose by the task.
        shapes: the dimensions of each input that the plan is for.
        level: the optimisation level of ONNX Runtime's sessions, for an ONNX model.
    """

    form: Form
    sha256: str
    edgemem: str
    runtime: str
    task: Task
    labels: bool
    preprocess: Preprocess | Literal[""]
    shapes: Mapping[str, tuple[int, ...]]
    level: Level = "extended"

    @property
    def model(self) -> str:
        """The name of the model's file in assets/."""
        return f"model.{self.form}"


def encode_info(info: Info) -> bytes:
    """The file's content; equal for equal `info`."""
    data = asdict(info) | {"model": info.model, "labels": LABELS.removeprefix("assets/") if info.labels else None}
    if not info.preprocess:
        del data["preprocess"]
    if not info.labels:
        del data["labels"]
    if info.form != "onnx":
        del data["level"]
    return (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()


def decode_info(content: bytes) -> Info:
    """The opposite of `encode_info`; other keys are left out.

    Raises ApkError for what is missing or of another type.
    """
    try:
        if len(content) > _MOST_INFO:
            raise ValueError(f"it has {len(content):,} bytes")  # noqa: TRY301 - all that is wrong is told below
        data = json.loads(content.decode())
        info = Info(
            form=_one_of(get_args(Form), data, "form"),
            sha256=_text(data, "sha256"),
            edgemem=_text(data, "edgemem"),
            runtime=_text(data, "runtime"),
            task=_one_of(get_args(Task), data, "task"),
            labels="labels" in data,
            preprocess=_one_of((*get_args(Preprocess), ""), {"preprocess": ""} | data, "preprocess"),
            shapes={str(name): _shape(shape) for name, shape in data["shapes"].items()},
            level=_one_of(get_args(Level), {"level": "extended"} | data, "level"),
        )
        if data["model"] != info.model:
            raise ValueError("it names another model")  # noqa: TRY301
    except KeyError as e:
        raise ApkError(f"{INFO} of the package lacks {e}; make the package again") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as e:
        raise ApkError(f"{INFO} of the package is damaged: {short_repr(str(e))}; make the package again") from None
    return info


def _text(data: Mapping[str, Any], key: str) -> str:
    if not isinstance(data[key], str):
        raise TypeError(f"{key} is no text")
    return str(data[key])


def _one_of(known: tuple[Any, ...], data: Mapping[str, Any], key: str) -> Any:
    if data[key] not in known:
        raise ValueError(f"{key} is none of {', '.join(known)}")
    return data[key]


def _shape(sizes: Any) -> tuple[int, ...]:
    if not isinstance(sizes, list) or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError("a shape has something else than sizes")
    return tuple(sizes)


def values_of(graph: Graph) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """The inputs and outputs of a graph."""
    inputs, outputs = (
        tuple(Value(t.name, t.dtype, t.shape) for t in (graph.tensors[i] for i in indices))
        for indices in (graph.inputs, graph.outputs)
    )
    return inputs, outputs


def task_for(inputs: Sequence[Value], outputs: Sequence[Value]) -> Task:
    """What an app can show of a model, by its shapes.

    `faces` are outputs that Faces.java reads, `classes` one output of a number a class, both for one image of three
    channels; `tensors` is everything else.
    """
    if len(inputs) != 1 or not _is_image(inputs[0]):
        return "tensors"
    if _are_faces([v.shape for v in outputs]):
        return "faces"
    return "classes" if classes_of(outputs) is not None else "tensors"


def _are_faces(shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether they are scores and boxes: of BlazeFace's anchors, in a pair or two, or probabilities and corners."""
    rows = {width: sum(s[1] for s in shapes if len(s) == 3 and (s[0], s[2]) == (1, width)) for width in (1, 2, 4, 16)}
    cells = math.isqrt(2 * rows[1] // 7)  # of a side of the finer grid: 2 anchors each, and 6 in one of half the side
    is_blazeface = cells > 0 and cells % 2 == 0 and rows[1] == rows[16] == 7 * cells * cells // 2
    return is_blazeface or 0 < rows[2] == rows[4]


def classes_of(outputs: Sequence[Value]) -> int | None:
    """How many classes the only output has a number for; None if it is something else."""
    if len(outputs) != 1 or len(outputs[0].shape) < 2 or outputs[0].dtype not in ("float32", "float16"):
        return None
    first, classes, *rest = outputs[0].shape  # some networks leave (1, classes, 1, 1)
    return classes if first == 1 and classes >= 2 and all(size == 1 for size in rest) else None


def _is_image(value: Value) -> bool:
    return len(value.shape) == 4 and value.shape[0] == 1 and 3 in (value.shape[1], value.shape[3])


def arranged(
    manifest: bytes,
    dex: Sequence[bytes],
    libraries: Mapping[str, Mapping[str, bytes]],
    assets: Mapping[str, bytes],
) -> tuple[Entry, ...]:
    """The files of an APK in their order: the manifest, code, libraries by ABI and file name, assets.

    All are stored: Android maps libraries and assets where they lie, and packers differ between versions of zlib.

    Args:
        manifest: in Android's binary form.
        dex: classes.dex, classes2.dex and so on.
        libraries: content by file name by ABI.
        assets: content by whole name, such as MODEL.
    """
    entries = [Entry(MANIFEST, manifest)]
    entries += [Entry(dex_name(number), content) for number, content in enumerate(dex, 1)]
    entries += [
        Entry(f"lib/{abi}/{name}", libraries[abi][name], alignment=LIBRARY_ALIGNMENT)
        for abi in sorted(libraries)
        for name in sorted(libraries[abi])
    ]
    aligned = {MODEL: MODEL_ALIGNMENT}
    return (*entries, *(Entry(name, assets[name], alignment=aligned.get(name, 4)) for name in sorted(assets)))


def dex_name(number: int) -> str:
    """The name of the code's file with this number, from 1."""
    return "classes.dex" if number == 1 else f"classes{number}.dex"


def library_folders(entries: Sequence[Entry]) -> dict[str, dict[str, Entry]]:
    """The entries in lib/ by ABI and file name."""
    found: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        folder, _, rest = entry.name.partition("/")
        abi, _, name = rest.partition("/")
        if folder == "lib":
            found.setdefault(abi, {})[name] = entry
    return found
