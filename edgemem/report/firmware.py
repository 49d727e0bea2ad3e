"""A planned .tflite model for firmware: as C, with the arena, the operators and a self-test, packed for each framework.

The C is one text for all frameworks. It includes no header of TensorFlow Lite Micro: what needs its classes is a
template.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from edgemem.errors import UnsupportedError
from edgemem.report.c_header import comment, identifier, prefix_of, quoted
from edgemem.report.firmware_self_test import SelfTest, self_test_source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["FIRMWARE_FORMS", "Firmware", "SelfTest", "as_c_array", "common_name", "firmware_files"]

_BYTES_A_LINE: Final = 12
_ESP: Final = "esp-nn"
# What the resolver of ESPHome's streaming_model.cpp has. ESPHome builds esp-tflite-micro 1.3.3, with an earlier ESP-NN.
_ESPHOME: Final = frozenset(
    (
        *("CallOnce", "VarHandle", "Reshape", "ReadVariable", "StridedSlice", "Concatenation", "AssignVariable"),
        *("Conv2D", "Mul", "Add", "Mean", "FullyConnected", "Logistic", "Quantize", "DepthwiseConv2D"),
        *("AveragePool2D", "MaxPool2D", "Pad", "Pack", "SplitV"),
    )
)
_ARENA: Final = "tensor_arena", "TENSOR_ARENA_SIZE"
_ALIGNMENT: Final = 16  # TensorFlow Lite Micro wants the model and the arena at multiples of it


@dataclass(frozen=True, slots=True)
class Firmware:
    """What firmware needs of a model.

    Attributes:
        name: of the model; it becomes the prefix of every identifier.
        content: the .tflite file.
        arena: bytes of the tensor arena with pointers of 64 bits; rounded up to a multiple of 16.
        device: the same with pointers of 32 bits, for the kernels that the plan is for; 0: as `arena`.
        by_kernels: the same for each kernel profile, where the plan is for any kernels.
        about: one line on the plan and on how the arena's size was found.
        warning: one line on what the plan is not right for (`kernel_warning`), or "".
        kernels: the kernel profile that the plan is for, with its version; "" for any kernels.
        adders: the methods of `MicroMutableOpResolver` that add the model's operators.
        others: operators that it has no method for.
        variables: how many resource variables the model has.
        self_test: None if it was not made.
        shared_arena: the name of the arena that it shares with other models; "" for one of its own.
        places: the regions of the arena and of the persistent arena, by name; () where the plan is for one region.
        persistent: bytes of an arena for the tail alone, beside that of the head; 0 where one arena holds both.
    """

    name: str
    content: bytes
    arena: int
    about: str
    warning: str = ""
    kernels: str = ""
    adders: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    variables: int = 0
    self_test: SelfTest | None = None
    shared_arena: str = ""
    places: tuple[str, ...] = ()
    persistent: int = 0
    device: int = 0
    by_kernels: Mapping[str, int] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """What identifiers begin with."""
        return prefix_of(self.name)

    @property
    def arena_prefix(self) -> str:
        """What the arena's identifiers begin with."""
        return prefix_of(self.shared_arena or self.name)

    @property
    def arena_size(self) -> int:
        """Bytes of the arena, a multiple of 16."""
        return _padded(self.arena)

    @property
    def device_size(self) -> int:
        """Bytes of the arena with pointers of 32 bits, a multiple of 16."""
        return _padded(self.device or self.arena)

    def device_size_for(self, library: str) -> int:
        """The same for a library of kernels, such as `esp-nn`, on all of its processors."""
        sizes = [size for profile, size in self.by_kernels.items() if profile.startswith(library)]
        return max([self.device_size, *map(_padded, sizes)])


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def as_c_array(models: Sequence[Firmware]) -> str:
    """C and C++ source in one file: each model, its operators and its self-test, and the arena.

    Several models have one `shared_arena`, and `arena` is its size.
    """
    return "\n".join(f"{_declarations(model)}\n{_definitions(model, k == 0)}" for k, model in enumerate(models))


def firmware_files(models: Sequence[Firmware], form: str) -> dict[str, bytes]:
    """The files of one of FIRMWARE_FORMS, by their path in a folder. Models as for `as_c_array`; one for ESPHome."""
    return {path: text.encode() if isinstance(text, str) else text for path, text in _FORMS[form](models).items()}


def common_name(models: Sequence[Firmware]) -> str:
    """An identifier that the sources of two of the models would both define; "" if there is none.

    That of the arena, which they share, is none of these.
    """
    seen: set[str] = set()
    for model in models:
        alone = replace(model, content=b"", shared_arena="", about="", warning="", kernels="")
        text = f"{_declarations(alone)} {_definitions(alone, has_arena=False)} {alone.prefix}_model"
        beginnings = alone.prefix, alone.prefix.upper()
        found = {word for word in re.findall(r"\w+", text) if word.startswith(beginnings)}
        found |= {word.lower() for word in found}  # folders and file names, where case does not count
        found -= {f"{beginning}_{end}" for beginning, end in zip(beginnings, _ARENA, strict=True)}
        common = sorted(seen & found, key=lambda word: (len(word), word))
        if common:
            return common[0]
        seen |= found
    return ""


def _sources(models: Sequence[Firmware], folder: str = "") -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {}
    for k, model in enumerate(models):
        file = f"{model.prefix}_model"
        files[f"{folder}{file}.h"] = _declarations(model)
        files[f"{folder}{file}.c"] = f'#include "{file}.h"\n\n{_definitions(model, k == 0)}'
    return files


def _espidf(models: Sequence[Firmware]) -> dict[str, str | bytes]:
    """A component of ESP-IDF, which builds ESP-NN's kernels."""
    models = [replace(model, device=model.device_size_for(_ESP)) for model in models]
    files = " ".join(f'"{model.prefix}_model.c"' for model in models)
    cmake = f'idf_component_register(SRCS {files} INCLUDE_DIRS ".")\n'
    manifest = 'dependencies:\n  espressif/esp-tflite-micro: "*"\n'
    return {"CMakeLists.txt": cmake, "idf_component.yml": manifest, **_sources(models)}


def _arduino(models: Sequence[Firmware]) -> dict[str, str | bytes]:
    """A library of Arduino."""
    name = f"{models[0].arena_prefix}_model"
    headers = ",".join(f"{model.prefix}_model.h" for model in models)
    properties = (
        f"name={name.lstrip('_')}\nversion=1.0.0\nauthor=edgemem\nmaintainer=edgemem\n"
        f"sentence=A model for TensorFlow Lite Micro.\nparagraph=\n"
        f"category=Data Processing\nurl=\narchitectures=*\nincludes={headers}\n"
    )
    return {"library.properties": properties, **_sources(models, "src/")}


def _zephyr(models: Sequence[Firmware]) -> dict[str, str | bytes]:
    """A module of Zephyr."""
    name = f"{models[0].arena_prefix}_model"
    files = " ".join(f"{model.prefix}_model.c" for model in models)
    cmake = f"zephyr_library()\nzephyr_library_sources({files})\nzephyr_include_directories(.)\n"
    return {"CMakeLists.txt": cmake, "zephyr/module.yml": f"name: {name}\nbuild:\n  cmake: .\n", **_sources(models)}


def _esphome(models: Sequence[Firmware]) -> dict[str, str | bytes]:
    """A model of ESPHome's micro_wake_word, with its manifest; thresholds are those of its documentation.

    ESPHome builds ESP-NN's kernels, and has a resolver of its own. Raises UnsupportedError for two arenas, and for
    operators that the resolver does not have.
    """
    (firmware,) = models
    missing = sorted({*firmware.others, *(adder.removeprefix("Add") for adder in firmware.adders)} - _ESPHOME)
    if missing:
        raise UnsupportedError(
            f"ESPHome's micro_wake_word has no {', '.join(missing)}; export with -f espidf for a firmware of your own"
        )
    if firmware.persistent:
        raise UnsupportedError("ESPHome has one arena, and the plan has two; plan for a target with one region")
    file = f"{firmware.prefix}.tflite"
    micro = {
        "probability_cutoff": 0.97,
        "sliding_window_size": 5,
        "feature_step_size": 10,
        "tensor_arena_size": firmware.device_size_for(_ESP),
        "minimum_esphome_version": "2024.7.0",
    }
    manifest = {
        "type": "micro",
        "wake_word": firmware.name,
        "author": "",
        "model": file,
        "trained_languages": [],
        "version": 2,
        "micro": micro,
    }
    return {f"{firmware.prefix}.json": json.dumps(manifest, indent=2) + "\n", file: firmware.content}


_FORMS: Final[Mapping[str, Callable[[Sequence[Firmware]], dict[str, str | bytes]]]] = {
    "espidf": _espidf,
    "arduino": _arduino,
    "esphome": _esphome,
    "zephyr": _zephyr,
}
FIRMWARE_FORMS: Final = tuple(_FORMS)


def _declarations(firmware: Firmware) -> str:
    prefix, upper = firmware.prefix, firmware.prefix.upper()
    arena, arena_size = firmware.arena_prefix, f"{firmware.arena_prefix.upper()}_TENSOR_ARENA_SIZE"
    warned = f"/* {comment(firmware.warning)} */\n" if firmware.warning else ""
    kernels = firmware.kernels or "any kernels"
    has_two = bool(firmware.persistent)
    second = f"extern uint8_t {prefix}_persistent_arena[{upper}_PERSISTENT_ARENA_SIZE];\n" * has_two
    parts = f"""/* {comment(firmware.about)} */
{warned}#ifndef {upper}_MODEL_H_
#define {upper}_MODEL_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#define {upper}_ALIGNED alignas({_ALIGNMENT})
extern "C" {{
#else
#define {upper}_ALIGNED _Alignas({_ALIGNMENT})
#endif

/* For {comment(firmware.kernels or "reference kernels")}. Other kernels may ask for more workspace: define it
   then, or plan for their profile. interpreter.arena_used_bytes() tells what is in use.{_other_kernels(firmware)} */
{_arena_size(firmware, arena_size)}{_places(firmware)}#define {upper}_KERNELS {quoted(kernels)}
/* What MicroMutableOpResolver and MicroResourceVariables::Create want to know. */
#define {upper}_OPERATORS {len(firmware.adders) + len(firmware.others)}
#define {upper}_RESOURCE_VARIABLES {firmware.variables}

extern const unsigned char {prefix}[];
extern const unsigned int {prefix}_len;
extern uint8_t {arena}_tensor_arena[{arena_size}];
{second}
#ifdef __cplusplus
}}  // extern "C"
{_resolver(firmware)}#endif
{self_test_source(prefix, firmware.self_test) if firmware.self_test else ""}
#endif  /* {upper}_MODEL_H_ */
"""
    return "\n".join(line.rstrip() for line in parts.split("\n"))


def _arena_size(firmware: Firmware, macro: str) -> str:
    if firmware.device_size == firmware.arena_size or firmware.places:
        size = f"#define {macro} {firmware.arena_size}\n"
    else:
        size = (
            f"#if UINTPTR_MAX > 0xffffffffu\n#define {macro} {firmware.arena_size}\n"
            f"#else\n#define {macro} {firmware.device_size}\n#endif\n"
        )
    return f"#ifndef {macro}\n{size}#endif\n"


def _other_kernels(firmware: Firmware) -> str:
    sizes = {kernels: _padded(size) for kernels, size in firmware.by_kernels.items()}
    more = [f"{size} for {kernels}" for kernels, size in sizes.items() if size > firmware.device_size]
    return f"\n   With pointers of 32 bits: {', '.join(more)}." if more else ""


def _definitions(firmware: Firmware, has_arena: bool) -> str:
    prefix, upper, content = firmware.prefix, firmware.prefix.upper(), firmware.content
    rows = (content[start : start + _BYTES_A_LINE] for start in range(0, len(content), _BYTES_A_LINE))
    body = ",\n".join("  " + ", ".join(f"0x{byte:02x}" for byte in row) for row in rows)
    memory = _memory(firmware) if has_arena else ""
    return f"""{upper}_ALIGNED const unsigned char {prefix}[] = {{
{body}
}};
const unsigned int {prefix}_len = {len(content)};
{memory}"""


def _memory(firmware: Firmware) -> str:
    """The arena, and that of the tail where it has one of its own."""
    prefix, upper, arena = firmware.prefix, firmware.prefix.upper(), firmware.arena_prefix
    place = f"{upper}_TENSOR_ARENA_PLACE " * bool(firmware.places)
    text = f"\n{upper}_ALIGNED {place}uint8_t {arena}_tensor_arena[{arena.upper()}_TENSOR_ARENA_SIZE];\n"
    if firmware.persistent:
        text += (
            f"{upper}_ALIGNED {upper}_PERSISTENT_ARENA_PLACE uint8_t "
            f"{prefix}_persistent_arena[{upper}_PERSISTENT_ARENA_SIZE];\n"
        )
    return text


def _places(firmware: Firmware) -> str:
    """Macros for the memories of the arenas, which the firmware defines as its linker script has them."""
    prefix, upper, text = firmware.prefix, firmware.prefix.upper(), ""
    if firmware.persistent:
        text = f"""/* For MicroInterpreter: tflite::MicroAllocator::Create({prefix}_persistent_arena,
   {upper}_PERSISTENT_ARENA_SIZE, {prefix}_tensor_arena, {upper}_TENSOR_ARENA_SIZE). The first holds the tail, the
   second tensors and workspace. */
#define {upper}_PERSISTENT_ARENA_SIZE {firmware.persistent}
"""
    for region, arena in zip(firmware.places, ("TENSOR", "PERSISTENT"), strict=False):
        section = f'__attribute__((section(".{identifier(region)}")))'
        text += f"""/* In the region {comment(region)}: define it such as {section}. */
#ifndef {upper}_{arena}_ARENA_PLACE
#define {upper}_{arena}_ARENA_PLACE
#endif
"""
    return text


def _resolver(firmware: Firmware) -> str:
    calls = " &&\n         ".join(f"resolver.{adder}() == 0" for adder in firmware.adders) or "true"
    others = f"// Add these yourself: {comment(', '.join(firmware.others))}.\n" if firmware.others else ""
    unused = "" if firmware.adders else "  (void)resolver;\n"
    return f"""
// Adds the model's operators to a tflite::MicroMutableOpResolver. False: there was no room for one.
{others}template <typename Resolver>
bool {firmware.prefix}_add_operators(Resolver &resolver) {{
{unused}  return {calls};
}}
"""
