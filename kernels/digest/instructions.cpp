// SHA-256 by the processor's own instructions: SHA-NI on x86, the cryptographic extension on ARM. Both take four rounds
// at a time. Of the message they hold the sixteen words w[t] to w[t + 15], four in each of w0 to w3; after four rounds
// w[t + 16] to w[t + 19] have the place of w0.
#include "digest/round_constants.h"
#include "digest/sha256.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#define EDGEMEM_SHA __attribute__((target("sha,sse4.1,ssse3")))
#elif defined(__aarch64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define EDGEMEM_SHA __attribute__((target("+crypto")))
#elif defined(__aarch64__) && defined(__ARM_FEATURE_SHA2)  // Apple's processors, or asked for by a flag
#include <arm_neon.h>
#define EDGEMEM_SHA
#endif

namespace edgemem::digest {

#ifdef EDGEMEM_SHA
namespace {

#ifdef __x86_64__

using Words = __m128i;

bool has_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_SSE4_1) == 0 || (c & bit_SSSE3) == 0) {
    return false;
  }
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
}

// The state as the instructions have it, in two registers: (f, e, b, a) and (h, g, d, c), lowest first.
EDGEMEM_SHA inline void take_four(Words& abef, Words& cdgh, Words& w0, Words w1, Words w2, Words w3,
                                  const std::uint32_t* constants) {
  const Words keyed = _mm_add_epi32(w0, _mm_load_si128(reinterpret_cast<const Words*>(constants)));
  cdgh = _mm_sha256rnds2_epu32(cdgh, abef, keyed);
  abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(keyed, 0x0E));
  const Words sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
  w0 = _mm_sha256msg2_epu32(sum, w3);
}

EDGEMEM_SHA void compress_by_instructions(State& state, const std::uint8_t* blocks, std::size_t count) {
  const Words to_big_endian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  auto* const stored = reinterpret_cast<Words*>(state.data());
  const Words badc = _mm_shuffle_epi32(_mm_loadu_si128(stored), 0xB1);
  const Words hgfe = _mm_shuffle_epi32(_mm_loadu_si128(stored + 1), 0x1B);
  Words abef = _mm_alignr_epi8(badc, hgfe, 8);
  Words cdgh = _mm_blend_epi16(hgfe, badc, 0xF0);
  for (; count > 0; --count, blocks += 64) {
    const Words abef_before = abef;
    const Words cdgh_before = cdgh;
    Words w[4];
    for (int k = 0; k < 4; ++k) {
      w[k] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const Words*>(blocks) + k), to_big_endian);
    }
    for (int t = 0; t < 64; t += 16) {
      take_four(abef, cdgh, w[0], w[1], w[2], w[3], kRound + t);
      take_four(abef, cdgh, w[1], w[2], w[3], w[0], kRound + t + 4);
      take_four(abef, cdgh, w[2], w[3], w[0], w[1], kRound + t + 8);
      take_four(abef, cdgh, w[3], w[0], w[1], w[2], kRound + t + 12);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const Words feba = _mm_shuffle_epi32(abef, 0x1B);
  const Words dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(stored, _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(stored + 1, _mm_alignr_epi8(dchg, feba, 8));
}

#else

using Words = uint32x4_t;

bool has_instructions() {
#ifdef __ARM_FEATURE_SHA2
  return true;
#else
  return (getauxval(AT_HWCAP) & HWCAP_SHA2) != 0;
#endif
}

EDGEMEM_SHA inline void take_four(Words& abcd, Words& efgh, Words& w0, Words w1, Words w2, Words w3,
                                  const std::uint32_t* constants) {
  const Words keyed = vaddq_u32(w0, vld1q_u32(constants));
  const Words before = abcd;
  abcd = vsha256hq_u32(abcd, efgh, keyed);
  efgh = vsha256h2q_u32(efgh, before, keyed);
  w0 = vsha256su1q_u32(vsha256su0q_u32(w0, w1), w2, w3);
}

EDGEMEM_SHA void compress_by_instructions(State& state, const std::uint8_t* blocks, std::size_t count) {
  Words abcd = vld1q_u32(state.data());
  Words efgh = vld1q_u32(state.data() + 4);
  for (; count > 0; --count, blocks += 64) {
    const Words abcd_before = abcd;
    const Words efgh_before = efgh;
    Words w[4];
    for (int k = 0; k < 4; ++k) {
      w[k] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(blocks + 16 * k)));
    }
    for (int t = 0; t < 64; t += 16) {
      take_four(abcd, efgh, w[0], w[1], w[2], w[3], kRound + t);
      take_four(abcd, efgh, w[1], w[2], w[3], w[0], kRound + t + 4);
      take_four(abcd, efgh, w[2], w[3], w[0], w[1], kRound + t + 8);
      take_four(abcd, efgh, w[3], w[0], w[1], w[2], kRound + t + 12);
    }
    abcd = vaddq_u32(abcd, abcd_before);
    efgh = vaddq_u32(efgh, efgh_before);
  }
  vst1q_u32(state.data(), abcd);
  vst1q_u32(state.data() + 4, efgh);
}

#endif

}  // namespace
#endif

Compress best_compress() {
#ifdef EDGEMEM_SHA
  static const bool is_there = has_instructions();
  if (is_there) {
    return compress_by_instructions;
  }
#endif
  return portable_compress();
}

}  // namespace edgemem::digest
