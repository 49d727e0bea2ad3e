// What a library that is compiled against musl's headers needs to run on bionic, Android's C library.
//
// On 64 bit both use the kernel's numbers and structures, and both give a mutex, a condition and a read-write lock the
// same room, free of anything but zeros at first. What differs, and is in use, is closed here. What else differs is not
// in symbols.txt, so that linking fails where a source begins to use it.
//
// All of this is compiled into the library and hidden in it.
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

// What bionic's bits/pthread_types.h gives them on 64 bit.
_Static_assert(sizeof(pthread_mutex_t) == 40, "a mutex");
_Static_assert(sizeof(pthread_cond_t) == 48, "a condition");
_Static_assert(sizeof(pthread_rwlock_t) == 56, "a read-write lock");
_Static_assert(sizeof(pthread_attr_t) == 56, "the attributes of a thread");
_Static_assert(sizeof(pthread_t) == sizeof(long) && sizeof(pthread_key_t) == sizeof(int), "names of threads and keys");
_Static_assert(sizeof(struct rlimit) == 16 && sizeof(struct timespec) == 16, "the kernel's structures");

// bionic's, of other names and numbers.
int* __errno(void);
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void* library);
void __assert2(const char* file, int line, const char* function, const char* said) __attribute__((noreturn));

// The library's name among those that register functions for its end, as its C++ objects do. It is never unloaded.
HIDDEN void* __dso_handle = &__dso_handle;

HIDDEN int* __errno_location(void) { return __errno(); }

HIDDEN _Noreturn void __assert_fail(const char* said, const char* file, int line, const char* function) {
  __assert2(file, line, function, said);
}

HIDDEN int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  return __register_atfork(prepare, parent, child, __dso_handle);
}

// bionic numbers what sysconf tells otherwise. No other number is asked for: each other is an error.
HIDDEN long sysconf(int name) {
  if (name == _SC_PAGESIZE) {
    return getpagesize();
  }
  if (name == _SC_NPROCESSORS_ONLN) {
    unsigned char all[128];  // a bit for each processor that the thread may run on
    const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof all, all);
    long found = 0;
    for (long k = 0; k < bytes; ++k) {
      found += __builtin_popcount(all[k]);
    }
    return found > 0 ? found : 1;
  }
  errno = EINVAL;
  return -1;
}

// The attributes of a mutex have 4 bytes in musl and 8 in bionic. Only std::recursive_mutex sets them, which stands in
// one file of libc++ with std::mutex and is not used: its constructor throws.
HIDDEN int pthread_mutexattr_init(pthread_mutexattr_t* attributes) {
  (void)attributes;
  return ENOTSUP;
}

HIDDEN int pthread_mutexattr_settype(pthread_mutexattr_t* attributes, int type) {
  (void)attributes;
  (void)type;
  return ENOTSUP;
}

HIDDEN int pthread_mutexattr_destroy(pthread_mutexattr_t* attributes) {
  (void)attributes;
  return 0;
}

// bionic has it since Android 9.
HIDDEN void* aligned_alloc(size_t alignment, size_t size) {
  void* memory = NULL;
  const size_t least = alignment < sizeof memory ? sizeof memory : alignment;
  const int failed = posix_memalign(&memory, least, size);
  if (failed != 0) {
    errno = failed;
    return NULL;
  }
  return memory;
}

// Thread-local variables. bionic's linker knows them since Android 10; the compiler makes calls of this instead, with
// one of these for each variable.
struct variable {
  size_t size;
  size_t alignment;
  uintptr_t key;      // one more than its pthread_key_t; 0 before its first use
  const void* start;  // its value in a new thread; NULL: zeros
};

static uintptr_t key_of(struct variable* one) {
  uintptr_t key = __atomic_load_n(&one->key, __ATOMIC_ACQUIRE);
  if (key != 0) {
    return key;
  }
  pthread_key_t made;
  if (pthread_key_create(&made, free) != 0) {
    abort();
  }
  const uintptr_t mine = (uintptr_t)made + 1;
  if (__atomic_compare_exchange_n(&one->key, &key, mine, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    return mine;
  }
  pthread_key_delete(made);  // another thread was first
  return key;
}

HIDDEN void* __emutls_get_address(struct variable* one) {
  const pthread_key_t key = (pthread_key_t)(key_of(one) - 1);
  void* value = pthread_getspecific(key);
  if (value == NULL) {
    value = aligned_alloc(one->alignment, one->size);
    if (value == NULL || pthread_setspecific(key, value) != 0) {
      abort();
    }
    if (one->start != NULL) {
      memcpy(value, one->start, one->size);
    } else {
      memset(value, 0, one->size);
    }
  }
  return value;
}
