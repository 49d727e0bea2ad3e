#include <algorithm>
#include <cstddef>
#include <new>

#include "digest/edgemem_digest.h"
#include "digest/sha256.h"

struct em_sha256 {
  edgemem::digest::Sha256 sum;
};

em_sha256* em_sha256_create() { return new (std::nothrow) em_sha256; }

void em_sha256_release(em_sha256* sum) { delete sum; }

void em_sha256_update(em_sha256* sum, const void* data, std::int64_t size) {
  sum->sum.update({static_cast<const std::uint8_t*>(data), static_cast<std::size_t>(size)});
}

void em_sha256_finish(em_sha256* sum, std::uint8_t* out) { std::ranges::copy(sum->sum.finish(), out); }
