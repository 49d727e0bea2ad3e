/* Calls functions of a library by name, each with a memory image of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BASE 0x30000000u
#define SIZE (64u << 20)

typedef uint32_t W;
typedef W (*fn)(W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W);

static void get(void* to, size_t n) {
  if (fread(to, 1, n, stdin) != n) exit(0);
}

int main(int argc, char** argv) {
  void* lib = dlopen(argv[1], RTLD_NOW);
  if (!lib) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  uint8_t* mem =
      mmap((void*)(uintptr_t)BASE, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (mem == MAP_FAILED) return 3;
  for (;;) {
    W head[3], a[18] = {0};
    char name[128] = {0};
    get(head, 12);
    get(name, head[0]);
    get(a, 4 * head[1]);
    get(mem, head[2]);
    fn f = (fn)dlsym(lib, name);
    if (!f) {
      fprintf(stderr, "no %s\n", name);
      return 4;
    }
    W r = f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], a[16],
            a[17]);
    fwrite(&r, 4, 1, stdout);
    fwrite(mem, 1, head[2], stdout);
    fflush(stdout);
  }
}
