/* Numbers, structures and small functions that bionic has otherwise than glibc, and the log. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "bionic.h"

int* BIONIC(__errno)(void) { return &errno; }

_Noreturn void BIONIC(__assert2)(const char* file, int line, const char* function, const char* said) {
  fprintf(stderr, "%s:%d: %s: assertion \"%s\" failed\n", file, line, function, said);
  abort();
}

/* The log goes to stderr, with bionic's priority and tag before each line. */
int BIONIC(__android_log_vprint)(int priority, const char* tag, const char* format, va_list values) {
  fprintf(stderr, "[%d/%s] ", priority, tag == NULL ? "" : tag);
  const int written = vfprintf(stderr, format, values);
  fputc('\n', stderr);
  return written;
}

int BIONIC(__android_log_print)(int priority, const char* tag, const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int written = BIONIC(__android_log_vprint)(priority, tag, format, values);
  va_end(values);
  return written;
}

int BIONIC(__android_log_write)(int priority, const char* tag, const char* text) {
  return fprintf(stderr, "[%d/%s] %s\n", priority, tag == NULL ? "" : tag, text);
}

void BIONIC(android_set_abort_message)(const char* text) { fprintf(stderr, "abort message: %s\n", text); }

/* No property is set. */
int BIONIC(__system_property_get)(const char* name, char* value) {
  (void)name;
  value[0] = '\0';
  return 0;
}

/* The checks of _FORTIFY_SOURCE that glibc has not. */
size_t BIONIC(__strlen_chk)(const char* text, size_t room) {
  const size_t length = strlen(text);
  if (length >= room) {
    bionic_shim_refuse("strlen: the string is not ended within its object");
  }
  return length;
}

char* BIONIC(__strchr_chk)(const char* text, int c, size_t room) {
  if (strnlen(text, room) == room) {
    bionic_shim_refuse("strchr: the string is not ended within its object");
  }
  return strchr(text, c);
}

static void check_descriptor(int descriptor, size_t bytes) {
  if (descriptor < 0 || (size_t)descriptor >= 8 * bytes) {
    bionic_shim_refuse("FD_SET: the descriptor is not in the set");
  }
}

void BIONIC(__FD_SET_chk)(int descriptor, unsigned long* set, size_t bytes) {
  check_descriptor(descriptor, bytes);
  set[descriptor / 64] |= 1UL << (descriptor % 64);
}

int BIONIC(__FD_ISSET_chk)(int descriptor, const unsigned long* set, size_t bytes) {
  check_descriptor(descriptor, bytes);
  return (int)((set[descriptor / 64] >> (descriptor % 64)) & 1);
}

char* BIONIC(__gnu_strerror_r)(int error, char* buffer, size_t room) { return strerror_r(error, buffer, room); }

int BIONIC(strerror_r)(int error, char* buffer, size_t room) {
  const int length = snprintf(buffer, room, "%s", strerror(error));
  return length >= 0 && (size_t)length < room ? 0 : ERANGE;
}

/* A set of signals has 8 bytes in bionic, and 128 in glibc. */
int BIONIC(sigfillset)(unsigned long* set) {
  *set = ~0UL;
  return 0;
}

int BIONIC(pthread_sigmask)(int how, const unsigned long* set, unsigned long* before) {
  sigset_t given;
  sigset_t old;
  memset(&given, 0, sizeof given);
  memset(&old, 0, sizeof old);
  if (set != NULL) {
    memcpy(&given, set, sizeof *set);
  }
  const int failed = pthread_sigmask(how, set == NULL ? NULL : &given, &old);
  if (before != NULL) {
    memcpy(before, &old, sizeof *before);
  }
  return failed;
}

/* bionic's numbers of what sysconf tells: page size (three names), open files, processors, pages of memory. */
long BIONIC(sysconf)(int name) {
  switch (name) {
    case 0x0e:
      return sysconf(_SC_OPEN_MAX);
    case 0x26:
    case 0x27:
    case 0x28:
      return sysconf(_SC_PAGESIZE);
    case 0x60:
      return sysconf(_SC_NPROCESSORS_CONF);
    case 0x61:
      return sysconf(_SC_NPROCESSORS_ONLN);
    case 0x62:
      return sysconf(_SC_PHYS_PAGES);
    case 0x63:
      return sysconf(_SC_AVPHYS_PAGES);
    default:
      fprintf(stderr, "bionic shim: sysconf(0x%x) is not known\n", (unsigned)name);
      errno = EINVAL;
      return -1;
  }
}

/* Constants and structures differ, and nothing that is tested needs them. */
int BIONIC(nftw)(void) { bionic_shim_refuse("nftw is not acted out"); }
long BIONIC(pathconf)(void) { bionic_shim_refuse("pathconf is not acted out"); }

/* long double is IEEE's quadruple precision on both processors, but glibc's on x86-64 has 80 bits. */
#ifdef __x86_64__
long long BIONIC(llroundl)(__float128 value) { return (long long)(value + (value < 0 ? -0.5 : 0.5)); }

__float128 BIONIC(strtold_l)(const char* text, char** end, locale_t locale) {
  (void)locale;
  return (__float128)strtold(text, end);
}
#endif
