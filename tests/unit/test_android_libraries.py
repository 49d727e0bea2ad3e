from __future__ import annotations

import pytest

from edgemem.android.libraries import library_faults
from tests.android_parts import ABIS, NATIVE, RUNTIME, RUNTIME_JNI, elf, libraries

ABI = "arm64-v8a"


@pytest.mark.parametrize("abi", ABIS)
def test_libraries_that_android_loads(abi: str) -> None:
    assert library_faults(abi, libraries(abi)) == ()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (RUNTIME, libraries("x86_64")[RUNTIME], "is for x86_64, not for arm64-v8a"),
        (RUNTIME, elf(ABI, RUNTIME, defined=["OrtGetApiBase"], alignment=4096), "aligned to 4,096 bytes"),
        (RUNTIME, elf(ABI, "libother.so", defined=["OrtGetApiBase"]), "calls itself libother.so"),
        (RUNTIME, elf(ABI, RUNTIME), "needs OrtGetApiBase, which no library of the package has"),
        (NATIVE, elf(ABI, NATIVE, defined=["RegisterCustomOps"]), "it is another library"),
        (NATIVE, elf(ABI, NATIVE, defined=["Java_ai_edgemem_Native_abi"]), "it is another library"),
        (NATIVE, elf("riscv64", NATIVE), f"lib/{ABI}/{NATIVE}: "),
        (NATIVE, b"\x7fELF", f"lib/{ABI}/{NATIVE}: "),
        (RUNTIME_JNI, elf(ABI, RUNTIME_JNI, needed=["libc.so.6"]), "needs libc.so.6, which neither"),
        ("libmore.so", elf(ABI, "libmore.so", undefined=["em_arena_create"]), "needs em_arena_create"),
    ],
)
def test_one_library_that_android_does_not_load(name: str, content: bytes, said: str) -> None:
    (fault,) = library_faults(ABI, libraries(ABI) | {name: content})
    assert said in fault


@pytest.mark.parametrize("name", [NATIVE, RUNTIME, RUNTIME_JNI])
def test_a_library_that_is_missing(name: str) -> None:
    there = libraries(ABI)
    del there[name]
    assert library_faults(ABI, there)[0] == f"lib/{ABI} has no {name}"


def test_a_library_may_need_one_beside_it() -> None:
    more = {"libmore.so": elf(ABI, "libmore.so", needed=["libthird.so"]), "libthird.so": elf(ABI, "libthird.so")}
    assert library_faults(ABI, libraries(ABI) | more) == ()
    del more["libthird.so"]
    assert "libthird.so" in library_faults(ABI, libraries(ABI) | more)[0]
