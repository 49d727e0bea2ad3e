"""How PyTorch's CPU allocations reach edgemem: an allocator in C++, compiled against the installed PyTorch.

The compiled library is kept in the user's cache under a key of everything that it depends on: PyTorch, the compiler,
the source, and the interface of edgemem's allocator. A library that another user could have written is not loaded.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import shutil
import stat
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from edgemem.errors import RuntimeBindError
from edgemem.replay.digest import sha256
from edgemem.replay.library import library
from edgemem.replay.logger import logger
from edgemem.system.caches import cache_folder
from edgemem.system.files import temporary_folder, write_entry

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Bridge", "bridge"]

_SOURCE: Final = Path(__file__).with_name("cpu_allocator.cpp")
_COMPILERS: Final = ("g++", "c++", "clang++")
_LIMIT_S: Final = 300
_MOST_TOLD: Final = 2000  # characters of a compiler's errors


class Bridge:
    """The compiled allocator, loaded. It is never unloaded: tensors keep pointers to it."""

    def __init__(self, path: Path) -> None:
        self._c = ctypes.CDLL(str(path))
        self._c.install.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._addresses = (library().address("em_torch_malloc"), library().address("em_torch_free"))
        pointer = ctypes.c_void_p
        held = ctypes.PyDLL(str(path))  # short calls, for which Python's global lock is kept
        self._move, self._swap, self._lend, self._memory_of = (
            held.move_memory,
            held.swap_memory,
            held.lend_memory,
            held.memory_of,
        )
        self._move.argtypes = self._swap.argtypes = [pointer, pointer]
        self._lend.argtypes = [pointer, pointer, ctypes.c_size_t]
        self._memory_of.argtypes, self._memory_of.restype = [pointer], pointer
        self._is_watchable, self._watch, self._end_watch, self._is_foreign, self._digest_of = (
            held.is_watchable,
            held.watch,
            held.end_watch,
            held.is_foreign,
            held.digest_of,
        )
        for function in (
            *(self._is_watchable, self._watch, self._end_watch),
            *(self._is_foreign, self._digest_of, held.set_foreign),
        ):
            function.argtypes = [pointer]
        self._digest_of.restype = ctypes.c_uint64
        # All tensors over memory that others own, such as NumPy's, free it by one function.
        held.set_foreign(torch.frombuffer(bytearray(1), dtype=torch.uint8).untyped_storage()._cdata)  # noqa: SLF001
        self._c.set_owner.argtypes = [pointer, pointer, ctypes.c_int]
        self._c.set_watcher.argtypes = [pointer]
        self._watcher: object = None
        self.evict_address = int(ctypes.cast(self._c.evict_storage, pointer).value or 0)
        self.move_address = int(ctypes.cast(self._c.relocate_storage, pointer).value or 0)

    def install(self) -> None:
        """From now on PyTorch asks edgemem for CPU memory. Raises RuntimeBindError if it does so already."""
        if self._c.install(*self._addresses):
            raise RuntimeBindError("PyTorch allocates through edgemem already; end the other session first")

    def uninstall(self) -> bool:
        """PyTorch asks the allocator from before again; False if another one has been set meanwhile, which stays.

        Tensors that were made in between are freed as ever.
        """
        return bool(self._c.uninstall() == 0)

    def tell_of_ends(self, handle: int, *, is_checking: bool = False) -> None:
        """From now on the end of a storage that was evicted is told to this `em_remat`; digests are kept to check."""
        self._c.set_owner(library().address("em_remat_dropped"), handle, is_checking)

    def tell_of_accesses(self, touched: Callable[[int], int] | None) -> None:
        """From now on this is called with a watched storage before its memory can be written; not 0: it must not be.

        It is called on any thread, once for each `watch`.
        """
        self._watcher = None if touched is None else ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(touched)
        self._c.set_watcher(ctypes.cast(self._watcher, ctypes.c_void_p) if self._watcher else None)

    def is_watchable(self, storage: int) -> bool:
        """Whether a storage that is not watched can be."""
        return bool(self._is_watchable(storage))

    def watch(self, storage: int) -> None:
        """Watch a storage that can be watched."""
        self._watch(storage)

    def end_watch(self, storage: int) -> None:
        """No longer watch a storage."""
        self._end_watch(storage)

    def is_foreign(self, storage: int) -> bool:
        """Whether others own the memory of a storage, as NumPy does of `torch.from_numpy`, and may write it."""
        return bool(self._is_foreign(storage))

    def digest_of(self, storage: int) -> int:
        """Of the content of a storage; of an evicted one, as it was when it was evicted."""
        return int(self._digest_of(storage))

    def memory_of(self, storage: int) -> int | None:
        """The block of a storage, by its number (`_cdata`); None if it has no memory, or none of edgemem's."""
        block: int | None = self._memory_of(storage)
        return block

    def move(self, storage: int, to: int) -> None:
        """The memory of one storage becomes that of an evicted one. Raises RuntimeError if that cannot be."""
        if not self._move(storage, to):
            raise RuntimeError("the size of a storage has changed, or it is not evicted")

    def swap(self, storage: int, other: int) -> None:
        """The memory of two storages of one size changes places. Raises RuntimeError if one has none."""
        if not self._swap(storage, other):
            raise RuntimeError("a storage is evicted, or its size has changed")

    def lend(self, storage: int, block: int, size: int) -> None:
        """A storage without memory gets a block, of which it has `size` bytes."""
        self._lend(storage, block, size)


@cache
def bridge() -> Bridge:
    """The bridge to the installed PyTorch; compiled in about two seconds where the cache does not have it.

    Raises RuntimeBindError if there is no C++ compiler, or it refuses the source.
    """
    with _building:
        compiler = _compiler()
        name = f"{_key(compiler)}.so"
        home = cache_folder()
        if home is not None and _is_own(folder := home.parent / "torch"):
            path = folder / name
            if not _is_library(path):
                with temporary_folder() as work:
                    write_entry(path, _compiled(compiler, work).read_bytes())
            return Bridge(path)
        logger().warning("the library for PyTorch is compiled in every process: there is no folder to keep it in")
        with temporary_folder() as work:
            return Bridge(_compiled(compiler, work))


_building = threading.Lock()


def _compiler() -> tuple[str, ...]:
    """The command of the C++ compiler: $CXX, or one of those that a system has."""
    if given := shlex.split(os.environ.get("CXX", "")):
        return tuple(given)
    found = next((path for name in _COMPILERS if (path := shutil.which(name))), None)
    if found is None:
        raise RuntimeBindError(
            "training on the CPU inside a plan needs a C++ compiler, once: install g++, or name one in the environment "
            "variable CXX"
        )
    return (found,)


def _options() -> list[str]:
    """What the compiler is given besides the files, for the installed PyTorch."""
    home = Path(torch.__file__).parent
    return [
        *("-std=c++20", "-O2", "-fPIC", "-shared", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"),
        *(f"-I{home / 'include'}", f"-L{home / 'lib'}"),
    ]


def _key(compiler: tuple[str, ...]) -> str:
    """A digest of everything that the compiled library depends on."""
    version = _run([*compiler, "--version"])
    parts = [torch.__version__, str(torch.version.git_version), platform.machine(), version, *compiler, *_options()]
    parts.append(str(library().c.em_abi()))
    return sha256(["\0".join(parts).encode(), _SOURCE.read_bytes()])[:40]


def _compiled(compiler: tuple[str, ...], folder: Path) -> Path:
    """The library, made in this folder. Raises RuntimeBindError with what the compiler says."""
    out = folder / "cpu_allocator.so"
    _run([*compiler, *_options(), str(_SOURCE), "-lc10", "-o", str(out)])
    return out


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the user's compiler
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise RuntimeBindError(f"the C++ compiler {command[0]} does not run: {e}; name another one in CXX") from None
    if done.returncode:
        raise RuntimeBindError(
            f"{command[0]} does not compile edgemem's allocator for PyTorch {torch.__version__}; name another compiler "
            f"in CXX\n{done.stderr.strip()[:_MOST_TOLD]}"
        )
    return done.stdout


def _is_own(folder: Path) -> bool:
    """Whether this is a folder that this user alone can write; it is made if it is not there."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _is_library(path: Path) -> bool:
    """Whether there is a file of this user. It stands in a folder of this user, and was put there whole."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
