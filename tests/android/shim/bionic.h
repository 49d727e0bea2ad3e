/* Functions of bionic whose binary interface differs from glibc's, under the names that the generated libraries look
   up.

   `fill_table` is what each generated library (libc.so, libm.so ...) calls when it is loaded. Everything that is not
   defined here is taken from glibc, which has the same interface. What bionic has and this shim cannot act out ends
   the process with its name. */
#ifndef EDGEMEM_TESTS_BIONIC_H
#define EDGEMEM_TESTS_BIONIC_H

#include <stddef.h>
#include <stdio.h>

#define BIONIC(name) bionic_##name

/* Writes the addresses of `count` functions to `table`, by name; ends the process if one of them is unknown. */
void bionic_shim_fill_table(void** table, const char* const* names, int count);

/* The standard streams: pointers to them, and the array `__sF` whose elements stand for them. */
void bionic_shim_fill_streams(FILE** in, FILE** out, FILE** err, char* array);

_Noreturn void bionic_shim_refuse(const char* what);

#endif
