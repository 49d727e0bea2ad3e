"""The best offset plan as a C header: a macro for every tensor's offset and size."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from edgemem.report.offsets import best_offsets
from edgemem.report.regions import region_uses

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

__all__ = ["as_c_header", "comment", "identifier", "kernel_warning", "prefix_of", "quoted", "region_macros"]

# Of C and C++, in lower case: other identifiers of a name are in capitals.
_WORDS: Final = """
    alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool break case catch
    char char8_t char16_t char32_t class co_await co_return co_yield compl concept const consteval constexpr constinit
    const_cast continue contract_assert decltype default delete do double dynamic_cast else enum explicit export extern
    false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq
    private protected public reflexpr register reinterpret_cast requires restrict return short signed sizeof static
    static_assert static_cast struct switch synchronized template this thread_local throw true try typedef typeid
    typename typeof typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
# Of the C library: an array of that name would not compile, or take a function's place in the program.
_FUNCTIONS: Final = """
    abort abs acos acosh asctime asin asinh assert atan atanh atexit atof atoi atol bcmp bcopy bsearch bzero cabs calloc
    carg cbrt ceil cexp cimag clock clog close conj copysign cos cosh cpow creal csin csqrt ctan ctime difftime div erf
    erfc errno exit exp expm1 fabs fclose fdim feof ferror ffs fflush floor fma fmax fmin fmod fopen fork fprintf fputc
    fputs fread free frexp fseek ftell fwrite gamma getc getchar getenv gets gmtime hypot index isalnum isalpha isascii
    isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper j0 j1 jn kill labs ldexp ldiv lgamma link
    llabs localtime log log10 log1p log2 logb longjmp lrint lround main malloc memchr memcmp memcpy memmove memset
    mktime modf nan nearbyint nextafter offsetof open perror pipe pow printf putc putchar puts qsort raise rand read
    realloc remainder remove rename rewind rindex rint round scanf select setjmp signal significand sin sincos sinh
    sleep sprintf sqrt srand stat stderr stdin stdout stpcpy strcat strchr strcmp strcpy strcspn strdup strlen strncat
    strncmp strncpy strstr strtod strtok strtol system tan tanh tgamma time toascii tolower toupper trunc ungetc unlink
    wait write y0 y1 yn
"""
_KEYWORDS: Final = frozenset((*_WORDS.split(), *_FUNCTIONS.split()))


def as_c_header(planset: PlanSet, name: str) -> str:
    """The header's text. `name` is a C identifier that every macro begins with, in capitals.

    Each macro is followed by the tensor's name as the model has it, in a comment. Where the target has several regions,
    each has an arena, and each tensor the region that its offset is in. Raises PlanError without an offset plan.
    """
    plan, uses = best_offsets(planset), region_uses(planset)
    upper, warning = name.upper(), kernel_warning(planset)
    regions = region_macros(planset)
    sizes = [f"#define {upper}_ARENA_SIZE {plan.size}", f"#define {upper}_ARENA_ALIGNMENT {planset.problem.alignment}"]
    if uses:
        sizes = [f"/* The arena of each region, and the number of the region. Their sizes add up to {plan.size}. */"]
    for number, (use, macro) in enumerate(zip(uses, regions, strict=True)):
        sizes += [
            f"/* {comment(use.region.name)} */",
            f"#define {upper}_ARENA_SIZE_{macro} {use.arena}",
            f"#define {upper}_ARENA_ALIGNMENT_{macro} {use.alignment}",
            f"#define {upper}_ARENA_NUMBER_{macro} {number}",
        ]
    lines = [
        f"/* Memory plan: {comment(plan.strategy)}, {len(planset.problem)} records. Offsets and sizes in bytes. */",
        *([f"/* {comment(warning)} */"] if warning else []),
        f"#ifndef {upper}_PLAN_H_",
        f"#define {upper}_PLAN_H_",
        "",
        *sizes,
        *([f"#define {upper}_KERNELS {quoted(planset.kernels)}"] if warning else []),
        "",
    ]
    used: dict[str, int] = {}  # macro -> the last number that was tried with it
    for i, record in enumerate(planset.problem.records):
        for tensor in record.tensors or (record.name,):
            macro = _unique(identifier(tensor).upper() or "TENSOR", used)
            lines.append(f"/* {comment(tensor)} */")
            lines.append(f"#define {upper}_OFFSET_{macro} {int(plan.offsets[i])}")
            lines.append(f"#define {upper}_SIZE_{macro} {int(planset.problem.size[i])}")
            if uses:
                region = regions[0 if plan.regions is None else int(plan.regions[i])]
                lines.append(f"#define {upper}_REGION_{macro} {upper}_ARENA_NUMBER_{region}")
    return "\n".join([*lines, "", f"#endif  /* {upper}_PLAN_H_ */", ""])


def region_macros(planset: PlanSet) -> tuple[str, ...]:
    """The regions of a plan set's target as parts of macros, each another; () where there is one region."""
    used: dict[str, int] = {}
    names = [use.region.name for use in region_uses(planset)]
    return tuple(_unique(identifier(name).upper() or "REGION", used) for name in names)


def kernel_warning(planset: PlanSet) -> str:
    """A line on which kernels the plan is right for, where its results overlap inputs; "" where none may."""
    if planset.problem.overlap is None or not planset.kernels:
        return ""
    return (
        f"WARNING: results overlap inputs. The plan is only right for kernels of the profile {planset.kernels}; "
        "with any other kernels the model gives wrong results without an error."
    )


def identifier(text: str) -> str:
    """The text with every character that no C identifier has as `_`."""
    return re.sub(r"\W", "_", text, flags=re.ASCII)


def prefix_of(name: str) -> str:
    """An identifier for C and C++ that is made of a name and that other identifiers may begin with.

    It is no keyword, no name of the C library's, and not one of those that C keeps for itself. Without a name it is
    `model`.
    """
    made = identifier(name)
    if not made.strip("_"):
        return "model"
    is_reserved = made in _KEYWORDS or made.endswith("_t") or made.startswith("__") or re.match(r"_[A-Z]", made)
    return f"model_{made.lstrip('_')}" if is_reserved else f"_{made}" if made[0].isdigit() else made


def comment(text: str) -> str:
    """The text as it may stand in a C comment, `//` or `/* */`, wherever it is cut into lines and whatever follows.

    Only printable ASCII is left, without what begins or ends a comment, without backslashes, which continue a line, and
    without two question marks in a row, which begin a trigraph.
    """
    ascii_only = re.sub(r"[^ -~]|\\", "?", text)
    apart = re.sub(r"(?<=\*)/|/(?=\*)", "?", ascii_only)
    return re.sub(r"\?(?=\?)", "? ", apart)


def quoted(text: str) -> str:
    """The text as a string literal of C, with what a comment may hold and single quotes alone."""
    return f'"{comment(text).replace(chr(34), chr(39))}"'


def _unique(base: str, used: dict[str, int]) -> str:
    """`base`, or with the first number from 2 on that gives a macro which is not used."""
    macro = base
    while macro in used:
        used[base] += 1
        macro = f"{base}_{used[base]}"
    used[macro] = 1
    return macro
