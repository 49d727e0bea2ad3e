/* Threads. On aarch64 glibc's pthread_mutex_t has 48 bytes and pthread_attr_t 64, bionic's 40 and 56. glibc uses the
   first 40 bytes of a mutex only, so a mutex works if it is not initialised by glibc, which clears 48. A condition of
   bionic's begins at a multiple of 4 bytes, and glibc's has atomic operations of 8 bytes, which aarch64 refuses there:
   conditions are made here of a count and the kernel's futexes. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bionic.h"

int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void* library);

int BIONIC(pthread_atfork)(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  return __register_atfork(prepare, parent, child, NULL);
}

/* A condition: the number of signals that were given, in the first of its 48 bytes, which are zeros at first. */
static int wait_for_signal(unsigned* signals, pthread_mutex_t* mutex, const struct timespec* until) {
  const unsigned seen = __atomic_load_n(signals, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(mutex);
  const int operation = FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME;
  const long ended = syscall(SYS_futex, signals, operation, seen, until, NULL, FUTEX_BITSET_MATCH_ANY);
  const int timed_out = ended != 0 && errno == ETIMEDOUT;
  pthread_mutex_lock(mutex);
  return timed_out ? ETIMEDOUT : 0;
}

static int wake(unsigned* signals, int most) {
  __atomic_add_fetch(signals, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, signals, FUTEX_WAKE_PRIVATE, most, NULL, NULL, 0);
  return 0;
}

int BIONIC(pthread_cond_wait)(unsigned* signals, pthread_mutex_t* mutex) {
  return wait_for_signal(signals, mutex, NULL);
}

int BIONIC(pthread_cond_timedwait)(unsigned* signals, pthread_mutex_t* mutex, const struct timespec* until) {
  return wait_for_signal(signals, mutex, until);
}

int BIONIC(pthread_cond_signal)(unsigned* signals) { return wake(signals, 1); }
int BIONIC(pthread_cond_broadcast)(unsigned* signals) { return wake(signals, INT_MAX); }

int BIONIC(pthread_cond_destroy)(unsigned* signals) {
  (void)signals;
  return 0;
}

#ifdef __aarch64__
enum { MUTEX_BYTES = 40, KIND_AT = 4 };

typedef struct Attributes { /* in bionic's 56 bytes */
  size_t stack;
  long unused;
} Attributes;

int BIONIC(pthread_mutex_init)(int* mutex, const int* attributes) {
  memset(mutex, 0, MUTEX_BYTES);
  if (attributes != NULL) {
    mutex[KIND_AT] = *attributes & 3; /* normal, recursive, error-checking: as in glibc */
  }
  return 0;
}

int BIONIC(pthread_attr_init)(Attributes* attributes) {
  memset(attributes, 0, sizeof *attributes);
  return 0;
}

int BIONIC(pthread_attr_destroy)(Attributes* attributes) {
  (void)attributes;
  return 0;
}

int BIONIC(pthread_attr_setstacksize)(Attributes* attributes, size_t bytes) {
  attributes->stack = bytes;
  return 0;
}

int BIONIC(pthread_create)(pthread_t* thread, const Attributes* attributes, void* (*run)(void*), void* given) {
  pthread_attr_t made;
  pthread_attr_init(&made);
  if (attributes != NULL && attributes->stack != 0) {
    pthread_attr_setstacksize(&made, attributes->stack);
  }
  const int failed = pthread_create(thread, &made, run, given);
  pthread_attr_destroy(&made);
  return failed;
}
#endif
