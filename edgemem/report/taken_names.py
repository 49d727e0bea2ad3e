"""Which names firmware cannot call an array by, in C and C++: those of the languages, their libraries and frameworks.

A name in capitals may be a macro of any header, and one with an underscore is rarely taken: only the words without one
are listed. They are what the headers of glibc 2.36 declare for C17 and POSIX, older ones, and what Arduino has.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_taken"]

_LANGUAGES: Final = """
    alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool break case catch
    char char8_t char16_t char32_t class co_await co_return co_yield compl concept const consteval constexpr constinit
    const_cast continue contract_assert decltype default delete do double dynamic_cast else enum explicit export extern
    false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq
    private protected public reflexpr register reinterpret_cast requires restrict return short signed sizeof static
    static_assert static_cast struct switch synchronized template this thread_local throw true try typedef typeid
    typename typeof typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
_LIBRARIES: Final = """
    a64l abort abs accept accept4 access acct adjtime alarm alloca alphasort alphasort64 arc4random asctime asprintf
    assert atexit atof atoi atol atoll basename bcmp bcopy bind bindresvport bindresvport6 brk bsearch btowc bzero
    calloc cfgetispeed cfgetospeed cfmakeraw cfsetispeed cfsetospeed cfsetspeed chdir chmod chown chroot clearenv
    clearerr clock clone close closedir closefrom confstr connect creat creat64 crypt ctermid ctime cuserid daddl daemon
    daylight ddivl dfmal difftime dirfd div dmull dprintf drand48 drem dremf dreml dsqrtl dsubl dup dup2 dup3 duplocale
    dysize eaccess ecvt endhostent endnetent endnetgrent endprotoent endrpcent endservent endusershell environ erand48
    errno euidaccess execl execle execlp execv execve execveat execvp execvpe exit f32addf128 f32addf32x f32addf64
    f32addf64x f32divf128 f32divf32x f32divf64 f32divf64x f32fmaf128 f32fmaf32x f32fmaf64 f32fmaf64x f32mulf128
    f32mulf32x f32mulf64 f32mulf64x f32sqrtf128 f32sqrtf32x f32sqrtf64 f32sqrtf64x f32subf128 f32subf32x f32subf64
    f32subf64x f32xaddf128 f32xaddf64 f32xaddf64x f32xdivf128 f32xdivf64 f32xdivf64x f32xfmaf128 f32xfmaf64 f32xfmaf64x
    f32xmulf128 f32xmulf64 f32xmulf64x f32xsqrtf128 f32xsqrtf64 f32xsqrtf64x f32xsubf128 f32xsubf64 f32xsubf64x
    f64addf128 f64addf64x f64divf128 f64divf64x f64fmaf128 f64fmaf64x f64mulf128 f64mulf64x f64sqrtf128 f64sqrtf64x
    f64subf128 f64subf64x f64xaddf128 f64xdivf128 f64xfmaf128 f64xmulf128 f64xsqrtf128 f64xsubf128 faccessat fadd faddl
    fallocate fallocate64 fchdir fchmod fchmodat fchown fchownat fclose fcloseall fcntl fcntl64 fcvt fdatasync fdiv
    fdivl fdopen fdopendir feclearexcept fedisableexcept feenableexcept fegetenv fegetexcept fegetexceptflag fegetmode
    fegetround feholdexcept feof feraiseexcept ferror fesetenv fesetexcept fesetexceptflag fesetmode fesetround
    fetestexcept fetestexceptflag feupdateenv fexecve fflush ffma ffmal ffs ffsl ffsll fgetc fgetpos fgetpos64 fgets
    fgetwc fgetws fileno finite finitef finitel flockfile fmemopen fmul fmull fopen fopen64 fopencookie fork fpathconf
    fprintf fputc fputs fputwc fputws fread free freeaddrinfo freelocale freopen freopen64 fscanf fseek fseeko fseeko64
    fsetpos fsetpos64 fsqrt fsqrtl fstat fstat64 fstatat fstatat64 fsub fsubl fsync ftell ftello ftello64 ftruncate
    ftruncate64 ftrylockfile funlockfile futimens futimes futimesat fwide fwprintf fwrite fwscanf gamma gammaf gammal
    gcvt getaddrinfo getc getchar getcpu getcwd getdate getdelim getdents64 getdirentries getdirentries64 getdomainname
    getdtablesize getegid getentropy getenv geteuid getgid getgroups gethostbyaddr gethostbyname gethostbyname2
    gethostent gethostid gethostname getipv4sourcefilter getitimer getline getloadavg getlogin getnameinfo getnetbyaddr
    getnetbyname getnetent getnetgrent getopt getpagesize getpass getpeername getpgid getpgrp getpid getppid
    getprotobyname getprotobynumber getprotoent getpt getresgid getresuid getrpcbyname getrpcbynumber getrpcent gets
    getservbyname getservbyport getservent getsid getsockname getsockopt getsourcefilter getsubopt gettid gettimeofday
    getuid getumask getusershell getw getwc getwchar getwd gmtime grantpt gsignal hcreate hdestroy herror hsearch
    hstrerror htonl htons imaxabs imaxdiv index initstate innetgr insque ioctl iruserok isalnum isalpha isascii isatty
    isblank iscntrl isctype isdigit isfdtype isgraph isinf isinff isinfl islower isnan isnanf isnanl isprint ispunct
    isspace isupper iswalnum iswalpha iswblank iswcntrl iswctype iswdigit iswgraph iswlower iswprint iswpunct iswspace
    iswupper iswxdigit isxdigit jrand48 kill killpg l64a labs lchmod lchown lcong48 ldiv lfind link linkat listen llabs
    lldiv localeconv localtime lockf lockf64 longjmp lrand48 lsearch lseek lseek64 lstat lstat64 lutimes madvise main
    malloc mblen mbrlen mbrtowc mbsinit mbsnrtowcs mbsrtowcs mbstowcs mbtowc memccpy memchr memcmp memcpy memfrob memmem
    memmove mempcpy memrchr memset mincore mkdir mkdirat mkdtemp mkfifo mkfifoat mknod mknodat mkostemp mkostemp64
    mkostemps mkostemps64 mkstemp mkstemp64 mkstemps mkstemps64 mktemp mktime mlock mlock2 mlockall mmap mmap64 mprotect
    mrand48 mremap msync munlock munlockall munmap nanosleep newlocale nexttoward nexttowardf nexttowardl nice nrand48
    ntohl ntohs offsetof open open64 openat openat64 opendir optarg opterr optind optopt pathconf pause pclose perror
    pipe pipe2 poll popen ppoll pread pread64 printf profil pselect psiginfo psignal ptsname putc putchar putenv puts
    putw putwc putwchar pwrite pwrite64 qecvt qfcvt qgcvt qsort raise rand random rawmemchr rcmd read readahead readdir
    readdir64 readlink readlinkat realloc reallocarray realpath recv recvfrom recvmmsg recvmsg remove remque rename
    renameat renameat2 revoke rewind rewinddir rexec rindex rmdir rpmatch rresvport ruserok sbrk scalb scalbf scalbl
    scandir scandir64 scandirat scandirat64 scanf seed48 seekdir select send sendmmsg sendmsg sendto setbuf setbuffer
    setdomainname setegid setenv seteuid setgid sethostent sethostid sethostname setipv4sourcefilter setitimer setjmp
    setlinebuf setlocale setlogin setnetent setnetgrent setns setpgid setpgrp setprotoent setregid setresgid setresuid
    setreuid setrpcent setservent setsid setsockopt setsourcefilter setstate settimeofday setuid setusershell setvbuf
    shutdown sigaction sigaddset sigaltstack sigandset sigblock sigdelset sigemptyset sigfillset siggetmask sighold
    sigignore siginterrupt sigisemptyset sigismember siglongjmp signal signgam significand significandf significandl
    sigorset sigpause sigpending sigprocmask sigqueue sigrelse sigreturn sigset sigsetmask sigstack sigsuspend
    sigtimedwait sigwait sigwaitinfo sleep snprintf sockatmark socket socketpair splice sprintf srand srand48 srandom
    sscanf ssignal stat stat64 statx stderr stdin stdout stpcpy stpncpy strcasecmp strcasestr strcat strchr strchrnul
    strcmp strcoll strcpy strcspn strdup strerror strfromd strfromf strfromf128 strfromf32 strfromf32x strfromf64
    strfromf64x strfroml strfry strftime strlen strncasecmp strncat strncmp strncpy strndup strnlen strpbrk strptime
    strrchr strsep strsignal strspn strstr strtod strtof strtof128 strtof32 strtof32x strtof64 strtof64x strtoimax
    strtok strtol strtold strtoll strtoq strtoul strtoull strtoumax strtouq strverscmp strxfrm swab swprintf swscanf
    symlink symlinkat sync syncfs syscall sysconf system tcdrain tcflow tcflush tcgetattr tcgetpgrp tcgetsid tcsendbreak
    tcsetattr tcsetpgrp tdelete tdestroy tee telldir tempnam tfind tgkill time timegm timelocal timezone tmpfile
    tmpfile64 tmpnam toascii tolower toupper towctrans towlower towupper truncate truncate64 tsearch ttyname ttyslot
    twalk tzset ualarm umask ungetc ungetwc unlink unlinkat unlockpt unsetenv unshare uselocale usleep utimensat utimes
    valloc vasprintf vdprintf versionsort versionsort64 vfork vfprintf vfscanf vfwprintf vfwscanf vhangup vmsplice
    vprintf vscanf vsnprintf vsprintf vsscanf vswprintf vswscanf vwprintf vwscanf wait wait3 wait4 waitid waitpid wcpcpy
    wcpncpy wcrtomb wcscasecmp wcscat wcschr wcschrnul wcscmp wcscoll wcscpy wcscspn wcsdup wcsftime wcslen wcsncasecmp
    wcsncat wcsncmp wcsncpy wcsnlen wcsnrtombs wcspbrk wcsrchr wcsrtombs wcsspn wcsstr wcstod wcstof wcstof128 wcstof32
    wcstof32x wcstof64 wcstof64x wcstoimax wcstok wcstol wcstold wcstoll wcstombs wcstoq wcstoul wcstoull wcstoumax
    wcstouq wcswcs wcswidth wcsxfrm wctob wctomb wctrans wctype wcwidth wmemchr wmemcmp wmemcpy wmemmove wmempcpy
    wmemset wprintf write wscanf
"""
# Of <math.h> and <complex.h>, each also with the suffix of an element type.
_MATHEMATICS: Final = """
    acos acosh asin asinh atan atan2 atanh cabs cacos cacosh canonicalize carg casin casinh catan catanh cbrt ccos ccosh
    ceil cexp cimag clog clog10 conj copysign cos cosh cpow cproj creal csin csinh csqrt ctan ctanh erf erfc exp exp10
    exp2 expm1 fabs fdim floor fma fmax fmaximum fmaxmag fmin fminimum fminmag fmod frexp fromfp fromfpx getpayload
    hypot ilogb j0 j1 jn ldexp lgamma llogb llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint
    nextafter nextdown nextup pow remainder remquo rint round roundeven scalbln scalbn setpayload setpayloadsig sin
    sincos sinh sqrt tan tanh tgamma totalorder totalordermag trunc ufromfp ufromfpx y0 y1 yn
"""
_TYPES: Final = ("", "f", "l", "f32", "f64", "f128", "f32x", "f64x")
# Namespaces, macros that compilers define, and what Arduino.h and older headers declare.
_OTHERS: Final = """
    std tflite flatbuffers flexbuffers linux unix i386 arm mips sparc vax sun step loc1 loc2 locs advance compile
    analogRead analogReference analogWrite attachInterrupt bit bitClear bitRead bitSet bitWrite boolean byte constrain
    cli degrees delay delayMicroseconds detachInterrupt digitalRead digitalWrite disable enable highByte init interrupts
    loop lowByte map max micros millis min noInterrupts noTone pinMode pulseIn pulseInLong radians sei setup shiftIn
    shiftOut sq tone word yield
"""
_WORDS: Final = frozenset(
    (
        *(word for words in (_LANGUAGES, _LIBRARIES, _OTHERS) for word in words.split()),
        *(f"{name}{suffix}" for name in _MATHEMATICS.split() for suffix in _TYPES),
    )
)
# Kept by C and POSIX for themselves, or the beginning of a library's own names.
_RESERVED: Final = re.compile(
    r"__.*|_[A-Z].*|.*_t|.*_r|[A-Z0-9_]+|(atomic|cnd|feature|memory|mtx|posix|pthread|sched|sem|thrd|tss)_.*"
)


def is_taken(name: str) -> bool:
    """Whether an array of this name might not compile, change what other headers mean, or replace a function."""
    return name in _WORDS or _RESERVED.fullmatch(name) is not None
