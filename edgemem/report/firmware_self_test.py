"""The self-test of a model for firmware, as C and C++."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SelfTest", "self_test_source"]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """One run whose outputs are known.

    Attributes:
        kinds: of each input (`edgemem.runtime.tflm.self_test.kind_of`).
        digest: FNV-1a in 64 bits of the bytes of all outputs.
        seed: of its inputs.
        is_blind: whether other inputs gave the same outputs.
    """

    kinds: tuple[int, ...]
    digest: int
    seed: int = 1
    is_blind: bool = False


def self_test_source(prefix: str, test: SelfTest) -> str:
    """C that fills inputs and digests outputs, and C++ that runs an interpreter with them."""
    upper = prefix.upper()
    kinds = ", ".join(str(kind) for kind in test.kinds)
    text = "Other inputs of this kind gave the same outputs: to pass tells little. Test it with inputs of yours, too."
    blind = f"\n   {text}" if test.is_blind else ""
    return f"""
/* The self-test: pseudo-random inputs, and a digest of the outputs that they have with reference kernels. Kernels that
   round in another way give another digest; int8 ones mostly do not.{blind} */
#define {upper}_SELF_TEST_SEED {test.seed}u
#define {upper}_SELF_TEST_DIGEST UINT64_C(0x{test.digest:016x})
#define {upper}_DIGEST_START UINT64_C(0xcbf29ce484222325)

/* Fills an input. `kind` is 0 for any bytes, 4 for float32; of other types each element, of -kind bytes, is 0 or 1. */
static inline void {prefix}_self_test_fill(void *input, size_t size, int kind, uint32_t *state) {{
  const size_t step = kind == 0 ? 1u : (size_t)(kind < 0 ? -kind : kind);
  uint8_t *const bytes = (uint8_t *)input;
  for (size_t i = 0; i + step <= size; i += step) {{
    *state = *state * 1664525u + 1013904223u;
    const uint8_t drawn = (uint8_t)(*state >> 24);
    if (kind == 4) {{
      const float value = (float)((int)drawn - 128) / 128.0f;
      memcpy(bytes + i, &value, sizeof value);
    }} else {{
      memset(bytes + i, 0, step);
      bytes[i] = kind == 0 ? drawn : (uint8_t)(drawn & 1u);
    }}
  }}
}}

/* FNV-1a of the outputs, one after the other; it begins with {upper}_DIGEST_START. */
static inline uint64_t {prefix}_digest(uint64_t digest, const void *output, size_t size) {{
  const uint8_t *const bytes = (const uint8_t *)output;
  for (size_t i = 0; i < size; ++i) digest = (digest ^ bytes[i]) * UINT64_C(0x100000001b3);
  return digest;
}}

#ifdef __cplusplus
// Runs a tflite::MicroInterpreter once, before all other runs. False: it computes something else here. A model with
// state has run one step then: call interpreter.Reset().
template <typename Interpreter>
bool {prefix}_self_test(Interpreter &interpreter) {{
  const int kinds[] = {{{kinds or "0"}}};
  uint32_t state = {upper}_SELF_TEST_SEED;
  for (size_t k = 0; k < interpreter.inputs_size(); ++k) {{
    auto *const tensor = interpreter.input(k);
    {prefix}_self_test_fill(tensor->data.data, tensor->bytes, kinds[k], &state);
  }}
  if (interpreter.Invoke() != 0) return false;
  uint64_t digest = {upper}_DIGEST_START;
  for (size_t k = 0; k < interpreter.outputs_size(); ++k) {{
    auto *const tensor = interpreter.output(k);
    digest = {prefix}_digest(digest, tensor->data.data, tensor->bytes);
  }}
  return digest == {upper}_SELF_TEST_DIGEST;
}}
#endif
"""
