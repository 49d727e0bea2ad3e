// How many random cases a test tries: its usual number, or as many as EDGEMEM_FUZZ says.
#pragma once

#include <cstdlib>

inline int rounds(int usual) {
  const char* const asked = std::getenv("EDGEMEM_FUZZ");
  return asked != nullptr ? std::atoi(asked) : usual;
}
