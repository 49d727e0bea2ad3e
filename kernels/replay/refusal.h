// How functions of the C ABI refuse: the reason becomes em_last_error's text, the code is what they return.
#pragma once

#include <cstdint>

#include "arena/totals.h"
#include "replay/edgemem_arena.h"

namespace edgemem {

inline std::int32_t refuse(const char* why, std::int32_t code = EM_REFUSED) {
  set_error("%s", why);
  return code;
}

}  // namespace edgemem
