"""Which symbols of Android's system libraries the shim has, and in which library bionic keeps each of them.

A library that imports anything else is refused, so what is listed here is what the native libraries of an APK may use.
The tables hold for 64-bit processors and API level 24, the demo's lowest; a name that bionic got later (`aligned_alloc`
at 28, `getrandom` at 28, `pthread_cond_clockwait` at 30) must not be added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["API_LEVEL", "LIBRARIES", "Library", "home_of"]

API_LEVEL: Final = 24

_MEMORY = """
    calloc free malloc malloc_usable_size memalign posix_memalign realloc
    madvise mincore mmap mprotect mremap munmap
    memchr memcmp memcpy memmove memset memrchr __memcpy_chk __memmove_chk __memset_chk
"""
_STRINGS = """
    atoi strchr strcmp strcpy strcspn strcasecmp strdup strerror strerror_r strlen strncmp strncpy strnlen strrchr
    strspn strstr strtod strtof strtol strtoll strtoul strtoull __gnu_strerror_r __strchr_chk __strlen_chk
    snprintf sprintf sscanf vasprintf vsnprintf vsscanf __vsnprintf_chk __vsprintf_chk qsort bsearch rand srand
"""
_WIDE = """
    __ctype_get_mb_cur_max btowc mbrlen mbrtowc mbsnrtowcs mbsrtowcs mbtowc wcrtomb wcslen wcsnrtombs wctob wmemchr
    wmemcmp wmemcpy wmemmove wmemset freelocale localeconv newlocale setlocale uselocale strcoll_l strftime_l strtold_l
    strtoll_l strtoull_l strxfrm_l towlower_l towupper_l wcscoll_l wcsxfrm_l iswalpha_l iswblank_l iswcntrl_l
    iswdigit_l iswlower_l iswprint_l iswpunct_l iswspace_l iswupper_l iswxdigit_l
"""
_FILES = """
    access close closedir dirname dup fchmod fchown fcntl fstat fsync ftruncate getcwd ioctl isatty lseek lstat mkdir
    nftw open __open_2 opendir pathconf pread pwrite read readdir readlink realpath remove rename rmdir select stat
    unlink utimes write __FD_ISSET_chk __FD_SET_chk
    fclose fflush fileno fopen fprintf fputc fputs fputwc fread fseek fseeko ftell ftello fwrite getc getwc ungetc
    ungetwc vfprintf
"""
_THREADS = """
    pthread_atfork pthread_attr_destroy pthread_attr_init pthread_attr_setstacksize pthread_cond_broadcast
    pthread_cond_destroy pthread_cond_signal pthread_cond_timedwait pthread_cond_wait pthread_create pthread_detach
    pthread_equal pthread_getschedparam pthread_getspecific pthread_join pthread_key_create pthread_key_delete
    pthread_mutex_destroy pthread_mutex_init pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock
    pthread_mutexattr_destroy pthread_mutexattr_init pthread_mutexattr_settype pthread_once pthread_rwlock_destroy
    pthread_rwlock_rdlock pthread_rwlock_tryrdlock pthread_rwlock_trywrlock pthread_rwlock_unlock pthread_rwlock_wrlock
    pthread_self pthread_setspecific pthread_sigmask
    sched_getcpu sched_yield sigfillset gettid __register_atfork
"""
_PROCESS = """
    _exit abort exit getauxval getenv geteuid getpid getrlimit getrusage prctl setenv syscall sysconf unsetenv
    clock_gettime difftime gettimeofday gmtime_r localtime localtime_r mktime nanosleep strftime time usleep
    closelog openlog syslog ldexp __system_property_get android_set_abort_message
    __assert2 getpagesize __cxa_atexit __cxa_finalize __cxa_thread_atexit_impl __errno __stack_chk_fail
"""
_MATHEMATICS = """
    acos acosf acosh acoshf asin asinf asinh asinhf atan atan2 atan2f atanf atanh atanhf cbrt ceil ceilf cos cosf cosh
    coshf erff exp exp2 exp2f expf floor floorf fmod fmodf frexp ldexpf llroundl log log10 log1pf log2 log2f logf modf
    modff nan pow powf remainderf round roundf sin sincos sincosf sinf sinh sinhf sqrt sqrtf tan tanf tanh tanhf
"""
_LINKER = "dl_iterate_phdr dladdr dlclose dlerror dlopen dlsym"
_LOG = "__android_log_print __android_log_vprint __android_log_write"


@dataclass(frozen=True, slots=True)
class Library:
    """One of Android's system libraries; `version` is that of all its symbols, "" if they have none.

    `objects` maps data symbols to bytes; the shim fills them when it is loaded.
    """

    name: str
    version: str
    functions: tuple[str, ...]
    objects: tuple[tuple[str, int], ...] = ()

    @property
    def symbols(self) -> frozenset[str]:
        """All that it exports."""
        return frozenset(self.functions) | {name for name, _ in self.objects}


def _library(name: str, version: str, *texts: str, objects: tuple[tuple[str, int], ...] = ()) -> Library:
    return Library(name, version, tuple(sorted({word for text in texts for word in text.split()})), objects)


# __sF is the array of the three standard streams, of 152 bytes each; the pointers to them came with API level 23.
LIBRARIES: Final = (
    _library(
        "libc.so",
        "LIBC",
        _MEMORY,
        _STRINGS,
        _WIDE,
        _FILES,
        _THREADS,
        _PROCESS,
        objects=(("stdin", 8), ("stdout", 8), ("stderr", 8), ("__sF", 3 * 152)),
    ),
    _library("libm.so", "LIBC", _MATHEMATICS),
    _library("libdl.so", "LIBC", _LINKER),
    _library("liblog.so", "", _LOG),
    _library("libandroid.so", ""),
)


def home_of(symbol: str) -> Library | None:
    """The system library that exports a symbol, or None."""
    return next((library for library in LIBRARIES if symbol in library.symbols), None)
