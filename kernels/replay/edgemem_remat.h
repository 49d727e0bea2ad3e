/* The C ABI of programs under a budget: a part of edgemem_arena.h, whose rules for errors and sizes hold here, too. */
#ifndef EDGEMEM_REMAT_H
#define EDGEMEM_REMAT_H

#include <stdint.h>

#include "replay/edgemem_arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Programs under a budget: values are evicted, and the caller makes them again ----------------------------------

   One at a time serves all requests for host memory that come through em_torch_malloc, from a pool of the budget's
   size. A *value* is one version of a storage's content and has a number. It is evictable while the call that made it
   is known (em_remat_ran): a request that does not fit evicts values until it does. Whose storage it is the caller
   says with a pointer that means nothing here; the caller empties it when asked. A block without a value, such as
   workspace, is never evicted, nor is a constant: a value that no call made.

   A value is held while it has a storage. em_torch_free of its block, or em_remat_dropped where the storage was empty,
   says that the storage is gone. A value that is not held leaves memory at once if it is evictable, and it is forgotten
   when no call needs it that may have to run again. Numbers of forgotten values are used again after the second call of
   em_remat_take_forgotten from then.

   A call: em_remat_lock what it reads; if some of that is not resident, make it again first; run it; em_remat_ran;
   em_remat_unlock. To make values again: lock what their call reads, run it, em_remat_remade or em_remat_take_over for
   each, em_remat_repeated, unlock.

   em_remat_create with em_remat_destroy and everything in between are for one thread at a time; requests and frees may
   come on any thread, and evict values that are not locked. */

typedef struct em_remat em_remat;

/* Empties the storage of a value, whose block belongs to the pool from then on; 0 if it cannot be emptied, which keeps
   the value in memory for good. It is called in em_torch_malloc, with a lock held that em_torch_free may take again on
   the same thread. */
typedef int32_t (*em_remat_evict)(void* storage, int64_t value);

/* Moves a storage's memory: `bytes` from one place to another, which may overlap. 0, and nothing happens, if the
   storage has no memory there. */
typedef int32_t (*em_remat_move)(void* storage, void* from, void* to, int64_t bytes);

typedef struct em_remat_rules {
  int64_t heuristic;         /* 0: DTR's, 1: DTE's, 2: Coop's */
  int64_t search;            /* 0: values one by one, 1: the cheapest contiguous ones, 2: the cheapest for each byte */
  int64_t fit;               /* 0: leftmost free block, 1: best */
  int64_t partition;         /* else 0: expensive and cheap values at the two ends of a free block */
  int64_t in_place;          /* else 0: em_remat_take_over is possible */
  int64_t constants_at_ends; /* else 0: requests outside calls go to the ends of the pool */
  int64_t small_apart;       /* else 0: the smallest requests go to a part of the pool for them */
} em_remat_rules;

typedef struct em_remat_result {
  int64_t value; /* out: its number */
  int64_t takes; /* the value whose block and storage it takes, or -1 */
  void* block;   /* where it lies, if it takes none */
  void* storage; /* whose content it is, if it takes none */
} em_remat_result;

typedef struct em_remat_stats {
  int64_t budget;        /* negative: none */
  int64_t peak;          /* most bytes of blocks at once, until em_remat_lift */
  int64_t last_peak;     /* the same until now */
  int64_t used;          /* bytes of blocks now */
  int64_t pinned;        /* of these, what cannot be evicted */
  int64_t requests;      /* served */
  int64_t refused;       /* not served: no evictions would make room */
  int64_t refused_bytes; /* of the last one */
  int64_t refused_fixed; /* bytes that could not be evicted then: locked, workspace, constants */
  int64_t taken_bytes;   /* of all requests served */
  int64_t evictions;
  int64_t evicted_bytes;
  int64_t searches;    /* passes over all blocks for values to evict */
  int64_t evaluations; /* heuristics computed in them */
  int64_t search_ns;
  int64_t recomputed_calls;
  int64_t recomputed_ns;
  int64_t forgotten; /* values that em_remat_take_forgotten will name */
  int64_t moves;     /* of blocks, to make one piece of what is free */
  int64_t moved_bytes;
  double fragmentation; /* free share of the pool when a request did not fit, on average */
} em_remat_stats;

/* `budget` is in bytes, rounded down to a multiple of 64; negative: none, and nothing is evicted. `flags` is EM_POISON,
   which fills every block that is served, or 0. Null if a rule is unknown or memory is short. */
EM_EXPORT em_remat* em_remat_create(int64_t budget, const em_remat_rules* rules, em_remat_evict evict,
                                    em_remat_move move, int32_t flags);

/* Ends it first. Blocks stay valid. Null does nothing. */
EM_EXPORT void em_remat_destroy(em_remat* remat);

/* From now on it serves the requests. EM_BUSY if another one does, or a loop is active on the host. */
EM_EXPORT int32_t em_remat_start(em_remat* remat);

/* There is no budget any more: what does not fit makes the pool larger. */
EM_EXPORT void em_remat_lift(em_remat* remat);

/* Whether a block is of its pool. */
EM_EXPORT int32_t em_remat_holds(em_remat* remat, const void* block);

/* A constant, in this block or, where that is null or not a block of the pool, elsewhere: then it is not held, and
   counts as let go when it is unlocked. Its number, or -1 if memory is short. */
EM_EXPORT int64_t em_remat_constant(em_remat* remat, void* block, void* storage);

/* Nothing evicts a locked value. Requests are of this kind until em_remat_unlock: 1 for results and workspace of an
   expensive operator, 0 of another; 2 more for an operator that may run again after em_remat_clear: until then no
   spared value is evicted for it. How many of the values are not resident; -1, and nothing is locked, if one has been
   forgotten. */
EM_EXPORT int64_t em_remat_lock(em_remat* remat, const int64_t* values, int64_t count, int32_t kind);
EM_EXPORT void em_remat_unlock(em_remat* remat, const int64_t* values, int64_t count);

/* A call ran in `cost` nanoseconds. It has no value twice in `reads`, all of which are locked once by it. EM_REFUSED if
   a result's block is not one without a value. Without results it only counts as an access. */
EM_EXPORT int32_t em_remat_ran(em_remat* remat, int64_t cost, const int64_t* reads, int64_t count,
                               em_remat_result* results, int64_t results_count);

/* The content of a locked value's storage has become something that no known call makes: a new constant has its block
   and its storage. Its number, or -1. */
EM_EXPORT int64_t em_remat_make_constant(em_remat* remat, int64_t value);

/* An evicted value lies in this block now, which was taken for it and has `storage`. EM_REFUSED if not. */
EM_EXPORT int32_t em_remat_remade(em_remat* remat, int64_t value, void* block, void* storage);

/* The same where an operator wrote it into the block of an older version. */
EM_EXPORT int32_t em_remat_take_over(em_remat* remat, int64_t old_version, int64_t new_version, void* storage);

/* The call that made this value ran again, in so many nanoseconds. */
EM_EXPORT void em_remat_repeated(em_remat* remat, int64_t value, int64_t cost);

/* A value that lies in memory without a storage gets one, perhaps twice: where it lies. Null if it does not. */
EM_EXPORT void* em_remat_lend(em_remat* remat, int64_t value, void* storage);

/* It stays in memory for good. Does nothing unless it is resident and evictable. */
EM_EXPORT void em_remat_pin(em_remat* remat, int64_t value);

/* It is evicted only where nothing else makes room, until it is locked. */
EM_EXPORT void em_remat_spare(em_remat* remat, int64_t value);

/* Others know where it lies: it is not moved. */
EM_EXPORT void em_remat_fix(em_remat* remat, int64_t value);

/* Evicts all that can be evicted, and moves the rest together, locked values too: no operator may be running. Requests
   that do not fit move values that are not locked by themselves. */
EM_EXPORT void em_remat_clear(em_remat* remat);

EM_EXPORT int32_t em_remat_is_resident(em_remat* remat, int64_t value);
EM_EXPORT int32_t em_remat_is_recomputable(em_remat* remat, int64_t value);

/* The held values that are made from this one by calls that may have to run again: before its content changes, they
   have to be resident and pinned. In the order in which they were made. How many; where they are stays valid until the
   next call of this function. */
EM_EXPORT int64_t em_remat_dependents(em_remat* remat, int64_t value, const int64_t** out);

/* Values that nobody needs any more; valid until the next call of this function. */
EM_EXPORT int64_t em_remat_take_forgotten(em_remat* remat, const int64_t** out);

/* The empty storage of an evicted value is gone. `remat` may have been destroyed. */
EM_EXPORT void em_remat_dropped(em_remat* remat, int64_t value);

EM_EXPORT void em_remat_stats_get(em_remat* remat, em_remat_stats* out);

#ifdef __cplusplus
}
#endif

#endif
