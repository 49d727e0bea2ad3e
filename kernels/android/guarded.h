// Lets no exception out of the C ABI.
#pragma once

#include <exception>
#include <stdexcept>

#include "android/flat_reader.h"
#include "arena/totals.h"

namespace edgemem {

// What `call` gives; `otherwise`, with the error set, if it throws. Refusals and what kernels refuse keep their texts;
// every other exception of the library is one of memory.
template <typename Result, typename Call>
Result guarded(Result otherwise, Call call) noexcept {
  try {
    return call();
  } catch (const Refusal& e) {
    set_error("%s", e.what());
  } catch (const std::invalid_argument& e) {
    set_error("%s", e.what());
  } catch (const std::exception&) {
    set_error("no memory");
  }
  return otherwise;
}

}  // namespace edgemem
