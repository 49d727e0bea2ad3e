/* Threads. On aarch64 glibc's pthread_mutex_t has 48 bytes and pthread_attr_t 64, bionic's 40 and 56. glibc uses the
   first 40 bytes of a mutex only, so a mutex works if it is not initialised by glibc, which clears 48. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "bionic.h"

int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void* library);

int BIONIC(pthread_atfork)(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  return __register_atfork(prepare, parent, child, NULL);
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
