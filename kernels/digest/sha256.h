// SHA-256 (FIPS 180-4), so that a session needs no OpenSSL, which takes 4 MiB of a process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace edgemem::digest {

using Bytes = std::span<const std::uint8_t>;
using State = std::array<std::uint32_t, 8>;
// Takes whole blocks of 64 bytes into a state.
using Compress = void (*)(State& state, const std::uint8_t* blocks, std::size_t count);

// The fastest of this processor: its own instructions for SHA-256 if it has them.
Compress best_compress();
// The one that runs everywhere.
Compress portable_compress();

class Sha256 {
 public:
  explicit Sha256(Compress compress = best_compress()) : compress_(compress) {}

  void update(Bytes data);
  // The digest of everything so far; nothing may follow.
  std::array<std::uint8_t, 32> finish();

 private:
  Compress compress_;
  State state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> partial_{};  // the first `length_ % 64` bytes wait for the rest of their block
  std::uint64_t length_ = 0;
};

}  // namespace edgemem::digest
