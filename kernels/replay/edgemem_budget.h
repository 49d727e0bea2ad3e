/* Caps on what the allocator of edgemem_arena.h holds in host memory; its rules for errors, threads and sizes hold
 * here. */
#ifndef EDGEMEM_BUDGET_H
#define EDGEMEM_BUDGET_H

#include "replay/edgemem_arena.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct em_budget em_budget;

/* A cap of `most` bytes on host memory. Null if `most` is negative or memory is short. A released budget lives on until
   the last arena and block that counts in it is freed. */
EM_EXPORT em_budget* em_budget_create(int64_t most);
EM_EXPORT void em_budget_release(em_budget* budget); /* null does nothing */

/* Arenas that the calling thread makes from now on, and blocks outside the arenas that it is given, count in this
   budget until they are freed on any thread; what would exceed it fails as if memory were short. Free blocks of it keep
   no pages. Null: they count in none. Gives the budget before. The caller keeps the budget while it is the thread's. */
EM_EXPORT em_budget* em_budget_enter(em_budget* budget);

/* The budget in which requests of the calling thread count now, or null. */
EM_EXPORT em_budget* em_budget_here(void);

/* Bytes of whole pages and blocks that count in it now; 0 for null. */
EM_EXPORT int64_t em_budget_held(const em_budget* budget);

/* The bytes that a budget would have held with what it refused last on the calling thread; 0 if it refused nothing
   since the last call. */
EM_EXPORT int64_t em_budget_refused(void);

#ifdef __cplusplus
}
#endif

#endif
