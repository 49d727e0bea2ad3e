/* SHA-256 (FIPS 180-4) in the library of edgemem_arena.h, so that a session loads neither OpenSSL nor the planner for
 * it. */
#ifndef EDGEMEM_DIGEST_H
#define EDGEMEM_DIGEST_H

#include "replay/edgemem_arena.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct em_sha256 em_sha256;

/* A digest of no bytes yet; null if memory is short. One thread at a time uses it. */
EM_EXPORT em_sha256* em_sha256_create(void);
EM_EXPORT void em_sha256_release(em_sha256* sum); /* null does nothing */

/* Goes on with `size` bytes. */
EM_EXPORT void em_sha256_update(em_sha256* sum, const void* data, int64_t size);

/* Writes the 32 bytes of the digest; afterwards the sum may only be released. */
EM_EXPORT void em_sha256_finish(em_sha256* sum, uint8_t* out);

#ifdef __cplusplus
}
#endif

#endif
