"""A planned .tflite model as a C array with the memory it runs in, for firmware without a file system."""

from __future__ import annotations

from edgemem.report.c_header import comment, prefix_of

__all__ = ["as_c_array"]

_BYTES_A_LINE = 12
_ALIGNMENT = 16  # TensorFlow Lite Micro wants the model and the arena at multiples of it


def as_c_array(content: bytes, name: str, *, arena: int, about: str, warning: str = "") -> str:
    """C and C++ source with the model's bytes, their number, and `NAME_tensor_arena`.

    Args:
        content: the .tflite file.
        name: becomes the prefix of every identifier.
        arena: bytes of the tensor arena; rounded up to a multiple of 16.
        about: one line on the plan and on how the arena's size was found.
        warning: one line on what the plan is not right for (`kernel_warning`), or "".
    """
    prefix = prefix_of(name)
    upper = prefix.upper()
    rows = (content[start : start + _BYTES_A_LINE] for start in range(0, len(content), _BYTES_A_LINE))
    body = ",\n".join("  " + ", ".join(f"0x{byte:02x}" for byte in row) for row in rows)
    warned = f"/* {comment(warning)} */\n" if warning else ""
    return f"""/* {comment(about)} */
{warned}#include <stdint.h>

#ifdef __cplusplus
#define {upper}_ALIGNED alignas({_ALIGNMENT})
#define {upper}_EXTERN extern
#else
#define {upper}_ALIGNED _Alignas({_ALIGNMENT})
#define {upper}_EXTERN
#endif

#define {upper}_TENSOR_ARENA_SIZE {-(-arena // _ALIGNMENT) * _ALIGNMENT}

{upper}_ALIGNED {upper}_EXTERN const unsigned char {prefix}[] = {{
{body}
}};
{upper}_EXTERN const unsigned int {prefix}_len = {len(content)};

{upper}_ALIGNED uint8_t {prefix}_tensor_arena[{upper}_TENSOR_ARENA_SIZE];
"""
