// The test program's own checks: they hold in every build type, name the place, and end the run.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (false)

#define CHECK_REFUSED(expression)                                                        \
  do {                                                                                   \
    bool refused = false;                                                                \
    try {                                                                                \
      (void)(expression);                                                                \
    } catch (const std::invalid_argument&) {                                             \
      refused = true;                                                                    \
    }                                                                                    \
    if (!refused) {                                                                      \
      std::fprintf(stderr, "%s:%d: not refused: %s\n", __FILE__, __LINE__, #expression); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (false)
