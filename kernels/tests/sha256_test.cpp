#include "digest/sha256.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tests/check.h"
#include "tests/registry.h"

namespace {

using edgemem::digest::best_compress;
using edgemem::digest::Bytes;
using edgemem::digest::Compress;
using edgemem::digest::portable_compress;
using edgemem::digest::Sha256;

Bytes bytes(std::string_view text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

// In hexadecimal digits, of the text in parts of so many bytes.
std::string digest_of(std::string_view text, Compress compress, std::size_t part) {
  Sha256 sum(compress);
  for (; !text.empty(); text.remove_prefix(std::min(part, text.size()))) {
    sum.update(bytes(text.substr(0, part)));
  }
  std::string digits;
  for (const std::uint8_t byte : sum.finish()) {
    digits += "0123456789abcdef"[byte >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

std::string letters(std::size_t count) {
  std::string text(count, ' ');
  for (std::size_t k = 0; k < count; ++k) {
    text[k] = static_cast<char>('a' + (k * k + k / 7) % 26);
  }
  return text;
}

}  // namespace

// The examples of NIST for FIPS 180-4: one block, two blocks, none, and a million letters.
TEST(sha256_of_the_standards_examples) {
  const std::array<std::pair<std::string, std::string_view>, 4> examples{{
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {std::string(1000000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  }};
  for (const Compress compress : {portable_compress(), best_compress()}) {
    for (const auto& [text, digest] : examples) {
      CHECK(digest_of(text, compress, 1 << 20) == digest);
    }
  }
}

TEST(sha256_does_not_depend_on_the_parts_or_the_instructions) {
  for (std::size_t size = 0; size <= 200; ++size) {
    const std::string text = letters(size);
    const std::string whole = digest_of(text, portable_compress(), size + 1);
    for (const std::size_t part : {1, 3, 55, 63, 64, 65, 128}) {
      CHECK(digest_of(text, portable_compress(), part) == whole);
      CHECK(digest_of(text, best_compress(), part) == whole);
    }
  }
}
