/* bionic's streams: `stdin` and its like are pointers to FILE, which glibc made; older code uses elements of the array
   `__sF` instead, of 152 bytes each, which stand for the same three streams. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <wchar.h>

#include "bionic.h"

enum { STREAM_BYTES = 152, STREAMS = 3 };

static char* first;

void bionic_shim_fill_streams(FILE** in, FILE** out, FILE** err, char* array) {
  first = array;
  *in = stdin;
  *out = stdout;
  *err = stderr;
}

static FILE* stream(FILE* file) {
  const ptrdiff_t at = (char*)file - first;
  if (first == NULL || at < 0 || at >= STREAMS * STREAM_BYTES) {
    return file;
  }
  return at < STREAM_BYTES ? stdin : at < 2 * STREAM_BYTES ? stdout : stderr;
}

int BIONIC(fclose)(FILE* file) { return fclose(stream(file)); }
int BIONIC(fflush)(FILE* file) { return fflush(file == NULL ? NULL : stream(file)); }
int BIONIC(fileno)(FILE* file) { return fileno(stream(file)); }
int BIONIC(fputc)(int c, FILE* file) { return fputc(c, stream(file)); }
int BIONIC(fputs)(const char* text, FILE* file) { return fputs(text, stream(file)); }
wint_t BIONIC(fputwc)(wchar_t c, FILE* file) { return fputwc(c, stream(file)); }
int BIONIC(fseek)(FILE* file, long at, int from) { return fseek(stream(file), at, from); }
int BIONIC(fseeko)(FILE* file, off_t at, int from) { return fseeko(stream(file), at, from); }
long BIONIC(ftell)(FILE* file) { return ftell(stream(file)); }
off_t BIONIC(ftello)(FILE* file) { return ftello(stream(file)); }
int BIONIC(getc)(FILE* file) { return getc(stream(file)); }
wint_t BIONIC(getwc)(FILE* file) { return getwc(stream(file)); }
int BIONIC(ungetc)(int c, FILE* file) { return ungetc(c, stream(file)); }
wint_t BIONIC(ungetwc)(wint_t c, FILE* file) { return ungetwc(c, stream(file)); }
int BIONIC(vfprintf)(FILE* file, const char* format, va_list values) { return vfprintf(stream(file), format, values); }

size_t BIONIC(fread)(void* to, size_t size, size_t count, FILE* file) { return fread(to, size, count, stream(file)); }

size_t BIONIC(fwrite)(const void* from, size_t size, size_t count, FILE* file) {
  return fwrite(from, size, count, stream(file));
}

int BIONIC(fprintf)(FILE* file, const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int written = vfprintf(stream(file), format, values);
  va_end(values);
  return written;
}
