"""A planned .tflite model for firmware: as C, with the arena, the operators and a self-test, packed for each framework.

The C is one text for all frameworks. It includes no header of TensorFlow Lite Micro: what needs its classes is a
template.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from edgemem.errors import UnsupportedError
from edgemem.report.c_header import comment, identifier, prefix_of, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["FIRMWARE_FORMS", "Firmware", "SelfTest", "as_c_array", "common_name", "firmware_files"]

_BYTES_A_LINE: Final = 12
_ARENA: Final = "tensor_arena", "TENSOR_ARENA_SIZE"
_ALIGNMENT: Final = 16  # TensorFlow Lite Micro wants the model and the arena at multiples of it


@dataclass(frozen=True, slots=True)
class SelfTest:
    """One run whose outputs are known.

    Attributes:
        kinds: of each input (`edgemem.runtime.tflm.self_test.kind_of`).
        digest: FNV-1a in 64 bits of the bytes of all outputs.
        seed: of its inputs.
        is_blind: whether other inputs gave the same outputs.
    """

    kinds: tuple[int, ...]
    digest: int
    seed: int = 1
    is_blind: bool = False


@dataclass(frozen=True, slots=True)
class Firmware:
    """What firmware needs of a model.

    Attributes:
        name: of the model; it becomes the prefix of every identifier.
        content: the .tflite file.
        arena: bytes of the tensor arena; rounded up to a multiple of 16.
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
        return -(-self.arena // _ALIGNMENT) * _ALIGNMENT


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
    """A component of ESP-IDF."""
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

    Raises UnsupportedError for two arenas.
    """
    (firmware,) = models
    if firmware.persistent:
        raise UnsupportedError("ESPHome has one arena, and the plan has two; plan for a target with one region")
    file = f"{firmware.prefix}.tflite"
    micro = {
        "probability_cutoff": 0.97,
        "sliding_window_size": 5,
        "feature_step_size": 10,
        "tensor_arena_size": firmware.arena_size,
        "minimum_esphome_version": "2024.7.0",
    }
    manifest = {
        "type": "micro",
        "wake_word": firmware.name,
        "author": "",
        "website": "",
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

/* Other kernels may ask for more workspace: interpreter.arena_used_bytes() tells what is in use. */
#define {arena_size} {firmware.arena_size}
{_places(firmware)}#define {upper}_KERNELS {quoted(kernels)}
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
{_self_test(firmware)}
#endif  /* {upper}_MODEL_H_ */
"""
    return "\n".join(line.rstrip() for line in parts.split("\n"))


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


def _self_test(firmware: Firmware) -> str:
    if firmware.self_test is None:
        return ""
    prefix, upper, test = firmware.prefix, firmware.prefix.upper(), firmware.self_test
    kinds = ", ".join(str(kind) for kind in test.kinds)
    text = "Other inputs of this kind gave the same outputs: to pass tells little. Test it with inputs of yours, too."
    blind = f"\n   {text}" if test.is_blind else ""
    return f"""
/* The self-test: pseudo-random inputs, and a digest of the outputs that they have with reference kernels. Kernels that
   round in another way give another digest; int8 ones mostly do not.{blind} */
#define {upper}_SELF_TEST_SEED {test.seed}u
#define {upper}_SELF_TEST_DIGEST UINT64_C(0x{test.digest:016x})
#define {upper}_DIGEST_START UINT64_C(0xcbf29ce484222325)

/* Fills an input. `kind` is 0 for any bytes, 4 for float32; of other types each element, of -kind bytes, is 0 or 1. */
static inline void {prefix}_self_test_fill(void *input, size_t size, int kind, uint32_t *state) {{
  const size_t step = kind == 0 ? 1u : (size_t)(kind < 0 ? -kind : kind);
  uint8_t *const bytes = (uint8_t *)input;
  for (size_t i = 0; i + step <= size; i += step) {{
    *state = *state * 1664525u + 1013904223u;
    const uint8_t drawn = (uint8_t)(*state >> 24);
    if (kind == 4) {{
      const float value = (float)((int)drawn - 128) / 128.0f;
      memcpy(bytes + i, &value, sizeof value);
    }} else {{
      memset(bytes + i, 0, step);
      bytes[i] = kind == 0 ? drawn : (uint8_t)(drawn & 1u);
    }}
  }}
}}

/* FNV-1a of the outputs, one after the other; it begins with {upper}_DIGEST_START. */
static inline uint64_t {prefix}_digest(uint64_t digest, const void *output, size_t size) {{
  const uint8_t *const bytes = (const uint8_t *)output;
  for (size_t i = 0; i < size; ++i) digest = (digest ^ bytes[i]) * UINT64_C(0x100000001b3);
  return digest;
}}

#ifdef __cplusplus
// Runs a tflite::MicroInterpreter once, before all other runs. False: it computes something else here. A model with
// state has run one step then: call interpreter.Reset().
template <typename Interpreter>
bool {prefix}_self_test(Interpreter &interpreter) {{
  const int kinds[] = {{{kinds or "0"}}};
  uint32_t state = {upper}_SELF_TEST_SEED;
  for (size_t k = 0; k < interpreter.inputs_size(); ++k) {{
    auto *const tensor = interpreter.input(k);
    {prefix}_self_test_fill(tensor->data.data, tensor->bytes, kinds[k], &state);
  }}
  if (interpreter.Invoke() != 0) return false;
  uint64_t digest = {upper}_DIGEST_START;
  for (size_t k = 0; k < interpreter.outputs_size(); ++k) {{
    auto *const tensor = interpreter.output(k);
    digest = {prefix}_digest(digest, tensor->data.data, tensor->bytes);
  }}
  return digest == {upper}_SELF_TEST_DIGEST;
}}
#endif
"""
