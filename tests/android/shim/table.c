/* Where the functions of the generated libraries come from. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "bionic.h"

enum { NAME_LIMIT = 128 };

_Noreturn void bionic_shim_refuse(const char* what) {
  fprintf(stderr, "bionic shim: %s\n", what);
  fflush(stderr);
  abort();
}

static void* open_library(const char* name) {
  void* found = dlopen(name, RTLD_NOW);
  if (found == NULL) {
    bionic_shim_refuse(dlerror());
  }
  return found;
}

void bionic_shim_fill_table(void** table, const char* const* names, int count) {
  void* const own = open_library("libbionicshim.so");
  void* const c = open_library("libc.so.6");
  void* const m = open_library("libm.so.6");
  for (int i = 0; i < count; i++) {
    char name[NAME_LIMIT];
    snprintf(name, sizeof name, "bionic_%s", names[i]);
    void* found = dlsym(own, name);
    found = found == NULL ? dlsym(c, names[i]) : found;
    found = found == NULL ? dlsym(m, names[i]) : found;
    if (found == NULL) {
      snprintf(name, sizeof name, "glibc has no %s, and the shim does not act it out", names[i]);
      bionic_shim_refuse(name);
    }
    table[i] = found;
  }
}
