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
