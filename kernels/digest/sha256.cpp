#include "digest/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "digest/round_constants.h"

namespace edgemem::digest {
namespace {

constexpr std::size_t kBlock = 64;

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

void put_big_endian(std::uint64_t value, std::span<std::uint8_t> bytes) {
  for (std::size_t k = bytes.size(); k-- > 0; value >>= 8) {
    bytes[k] = static_cast<std::uint8_t>(value);
  }
}

// FIPS 180-4, section 6.2.2, with its names.
void compress(State& state, const std::uint8_t* blocks, std::size_t count) {
  for (; count > 0; --count, blocks += kBlock) {
    std::uint32_t w[64];
    for (std::size_t t = 0; t < 16; ++t) {
      w[t] = big_endian(blocks + 4 * t);
    }
    for (std::size_t t = 16; t < 64; ++t) {
      const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
      const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t t = 0; t < 64; ++t) {
      const std::uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
      const std::uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const State after{a, b, c, d, e, f, g, h};
    for (std::size_t k = 0; k < after.size(); ++k) {
      state[k] += after[k];
    }
  }
}

}  // namespace

Compress portable_compress() { return compress; }

void Sha256::update(Bytes data) {
  const std::size_t waiting = length_ % kBlock;
  length_ += data.size();
  if (waiting > 0) {
    const Bytes first = data.first(std::min(data.size(), kBlock - waiting));
    std::ranges::copy(first, partial_.begin() + static_cast<std::ptrdiff_t>(waiting));
    if (waiting + first.size() < kBlock) {
      return;
    }
    compress_(state_, partial_.data(), 1);
    data = data.subspan(first.size());
  }
  compress_(state_, data.data(), data.size() / kBlock);
  std::ranges::copy(data.last(data.size() % kBlock), partial_.begin());
}

std::array<std::uint8_t, 32> Sha256::finish() {
  // A one bit, zeros, and the number of bits in the last eight bytes of a block.
  std::array<std::uint8_t, 2 * kBlock> end{0x80};
  const std::size_t waiting = length_ % kBlock;
  const std::size_t size = (waiting + 9 <= kBlock ? kBlock : 2 * kBlock) - waiting;
  put_big_endian(length_ * 8, std::span(end).subspan(size - 8, 8));
  update(Bytes(end).first(size));
  std::array<std::uint8_t, 32> made{};
  for (std::size_t k = 0; k < state_.size(); ++k) {
    put_big_endian(state_[k], std::span(made).subspan(4 * k, 4));
  }
  return made;
}

}  // namespace edgemem::digest
