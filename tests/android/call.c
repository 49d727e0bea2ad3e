/* Loads a library, calls a function of it that gives an int, and ends with that number: call LIBRARY FUNCTION. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** given) {
  void* library = count == 3 ? dlopen(given[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  int (*function)(void) = library == NULL ? NULL : dlsym(library, given[2]);
  if (function == NULL) {
    fprintf(stderr, "%s\n", count == 3 ? dlerror() : "usage: call LIBRARY FUNCTION");
    return 255;
  }
  return function() & 0x7f;
}
