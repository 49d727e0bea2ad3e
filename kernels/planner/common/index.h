// Numbers of 32 bits as indices: a search keeps them small, a container takes std::size_t.
#pragma once

#include <cstddef>
#include <cstdint>

namespace edgemem {

constexpr std::size_t at(std::int32_t number) { return static_cast<std::size_t>(number); }

}  // namespace edgemem
