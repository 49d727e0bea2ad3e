/* The C ABI of the replay allocator: it records what a runtime asks for, and then replays a plan made from the record.

   Recording: the heap serves every request, and the events are noted. Replaying: the k-th request of the run gets the
   place of the k-th request of the plan if it is no larger, and what the plan frees before it has been freed where it
   would lie; else the heap serves it. So one plan serves all runs that are no larger, and results are right in any run.

   The heap is a pool of the process: it keeps the pages of freed blocks for later requests until em_trim.

   Errors. No function declared here throws or ends the process, except that the allocator which RegisterCustomOps
   gives to ONNX Runtime throws std::bad_alloc into it. A function that gives a pointer gives null when it fails, a
   function that gives an int32_t gives one of the EM_ codes below, and em_last_error says why.

   Threads. A context is active on the thread that called em_begin_*, from that call until em_end, which the same
   thread must call. A thread may have one active context of each kind of memory; it serves the requests of this thread
   and of no other. While it is inactive a context may be used and destroyed on any thread, by one at a time. A request
   on a thread without an active context goes to the heap and counts as `outside`. A block may be freed on any thread;
   a free on another thread than the context's is no event of its run: to the run, that block is still in use.
   Arenas, plans, em_totals_get and the allocator itself may be used by several threads at once.

   Ownership. What em_arena_create, em_arena_wrap, em_plan_create and em_context_create give is the caller's, who ends
   it with em_arena_release, em_plan_release or em_context_destroy, once, and does not use it afterwards. A run keeps
   its plan and its arena alive until em_end, and a block keeps its arena alive until it is freed, so both may be
   released earlier. A block goes back to the pair it came from: em_allocate and em_free, em_cuda_alloc and
   em_cuda_free.

   Sizes are bytes. No size above 2^56 is ever served (2^31 - 2^20 where pointers have 32 bits).

   An example; kernels/tests/arena_c_test.c is a whole program of this kind, with its checks:

     em_stats stats;
     const em_event* events;
     em_context* context = em_context_create(EM_HOST);
     em_begin_record(context, 1 << 20);
     run_the_network();                                 // calls em_allocate and em_free
     em_end(context, &stats);
     int64_t count = em_events(context, &events);       // stats.failed == 0: nothing is missing

     int64_t codes[] = {100, 200, -1, 90, -2, -3};      // what was recorded: 100, 200, free 0, 90, free 1, free 2
     int64_t offsets[] = {0, 128, 0};                   // the third request gets the place of the first
     em_plan* plan = em_plan_create(codes, 6, offsets, 3, 328, 64);
     em_arena* arena = em_arena_create(328, 0);
     em_begin_replay(context, plan, arena, 0);
     run_the_network();
     em_end(context, &stats);                           // stats.bail == -1: all came as planned

     em_context_destroy(context);
     em_plan_release(plan);
     em_arena_release(arena);
*/
#ifndef EDGEMEM_ARENA_H
#define EDGEMEM_ARENA_H

#include <stddef.h>
#include <stdint.h>

#define EM_ABI 1
#define EM_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

enum {
  EM_OK = 0,
  EM_REFUSED = -1,   /* the arguments are wrong; the same call will fail again */
  EM_BUSY = -2,      /* the context, the thread or the arena has a run, or the arena has a block of one */
  EM_NO_MEMORY = -3, /* memory is short */
};
enum { EM_HOST = 0, EM_DEVICE = 1 }; /* kinds of memory */
enum { EM_GUARD_PAGE = 1 };          /* em_arena_create: the page after the arena cannot be touched */
enum {
  EM_POISON = 1, /* em_begin_replay: unused host memory of the arena is filled with a pattern */
  EM_RECORD = 2, /* em_begin_replay: the run is recorded, too */
};

typedef struct em_arena em_arena;
typedef struct em_plan em_plan;
typedef struct em_context em_context;

/* Requests count from 0 in the order in which they came. */
typedef struct em_event {
  int64_t size;    /* bytes asked for; 0 for a free */
  int64_t request; /* the one made, or the one freed */
  int64_t time_ns; /* since the run began */
  int64_t thread;  /* the operating system's number of the thread that asked or freed */
} em_event;

typedef struct em_stats {
  int64_t requests;  /* in this run */
  int64_t hits;      /* served by the arena */
  int64_t misses;    /* served by the heap */
  int64_t bail;      /* number of events before the first request that did not fit into the plan, or -1 */
  int64_t events;    /* requests that were served, and frees of what this run asked for */
  int64_t peak;      /* bytes alive at once in arena and heap */
  int64_t heap_peak; /* bytes alive at once in the heap */
  int64_t arena_top; /* end of the highest byte given out */
  int64_t left;      /* blocks of the arena that outlived the run */
  int64_t failed;    /* requests that could not be served, and events that could not be noted */
} em_stats;

typedef struct em_totals {
  int64_t contexts;     /* in existence */
  int64_t arenas;       /* in existence, released ones with living blocks included */
  int64_t arena_bytes;  /* of these */
  int64_t heap_live;    /* bytes of requests on the heap now */
  int64_t heap_peak;    /* the most there were */
  int64_t reserve_live; /* bytes that a runtime reserved for good, such as weights */
  int64_t outside;      /* requests that came while no context was active on their thread */
} em_totals;

/* The EM_ABI that the library was built with. A caller that was built with another must not go on. */
EM_EXPORT int32_t em_abi(void);

/* Why the last call on the calling thread failed; "" if none did. Valid until the next call that fails there. */
EM_EXPORT const char* em_last_error(void);

/* Counts of the whole process. Null does nothing. */
EM_EXPORT void em_totals_get(em_totals* out);

/* The next `count` allocations from the system succeed and every later one fails; negative: none fails. For tests. */
EM_EXPORT void em_fail_after(int64_t count);

/* An arena of `size` bytes of host memory that begins at a multiple of 64; an arena of 0 bytes has 1. Null if `size` is
   negative or above the limit, or memory is short. */
EM_EXPORT em_arena* em_arena_create(int64_t size, int32_t flags);

/* An arena in memory of the caller's, which must outlive the arena: until it is released, and the last block in it is
   freed. Null if `base` is null, `size` is not above 0 or above the limit, the kind is unknown, or another arena has
   some of these bytes. */
EM_EXPORT em_arena* em_arena_wrap(void* base, int64_t size, int32_t kind);

/* A released arena lives on until the run in it ends and the last block in it is freed. Null does nothing. */
EM_EXPORT void em_arena_release(em_arena* arena);

/* For null: null, 0 and 0. */
EM_EXPORT void* em_arena_base(const em_arena* arena);
EM_EXPORT int64_t em_arena_size(const em_arena* arena);
EM_EXPORT int64_t em_arena_left(const em_arena* arena); /* blocks in use */

/* A plan for an arena of `size` bytes whose base is a multiple of `alignment`, a power of two up to 64. events[i] > 0
   asks for that many bytes, events[i] < 0 frees request -events[i] - 1; there are `count` events. offsets[k] is the
   place of request k in bytes, a multiple of `alignment`, or -1 for the heap; there are `requests` offsets. Both are
   copied. Null unless each event makes sense, each place lies in the arena, and no two requests overlap while both are
   alive. */
EM_EXPORT em_plan* em_plan_create(const int64_t* events, int64_t count, const int64_t* offsets, int64_t requests,
                                  int64_t size, int64_t alignment);

/* Runs that replay the plan keep it alive. Null does nothing. */
EM_EXPORT void em_plan_release(em_plan* plan);

/* `kind` is that of the memory whose requests it will serve. Null if the kind is unknown or memory is short. */
EM_EXPORT em_context* em_context_create(int32_t kind);

/* EM_BUSY, and nothing is destroyed, while the context is active. Null does nothing. */
EM_EXPORT int32_t em_context_destroy(em_context* context);

/* Begins a run that is recorded; drops the last record. Events after the first `most_events` are not noted but counted
   in em_stats.failed. EM_BUSY if the context is active, or the thread has an active context of this kind. */
EM_EXPORT int32_t em_begin_record(em_context* context, int64_t most_events);

/* Begins a run that follows `plan` in `arena`; drops the last record. EM_REFUSED if an argument is null, or the arena
   is smaller than the plan, less aligned, or of another kind of memory than the context. EM_BUSY if the context is
   active, the thread has an active context of this kind, or the arena has a run or a block that outlived one.
   EM_NO_MEMORY if memory is short. */
EM_EXPORT int32_t em_begin_replay(em_context* context, em_plan* plan, em_arena* arena, int32_t flags);

/* Ends the run and tells what happened in it; `out` may be null. EM_REFUSED, and nothing ends, if the context is not
   active on the calling thread. */
EM_EXPORT int32_t em_end(em_context* context, em_stats* out);

/* The number of events that were recorded, and where they are: the context's memory, valid until it begins again or is
   destroyed. 0 if an argument is null. */
EM_EXPORT int64_t em_events(const em_context* context, const em_event** out);

/* Drops the record, which may be large. Null, or an active context, does nothing. */
EM_EXPORT void em_events_drop(em_context* context);

/* The context of this kind that is active on the calling thread, or null. */
EM_EXPORT em_context* em_active(int32_t kind);

/* Gives the free pages of the heap back to the system, and asks the C library to give back those of its own; the number
   of bytes that the heap gave back. */
EM_EXPORT int64_t em_trim(void);

/* The allocator itself, for runtimes that are called through C. Blocks are host memory; those from the heap begin at
   multiples of 64, those from an arena at multiples of the plan's alignment. Null for 0 bytes, for a size above the
   limit, and when memory is short. */
EM_EXPORT void* em_allocate(size_t size);
EM_EXPORT void em_free(void* block); /* null does nothing */

/* ONNX Runtime finds this name in the library (SessionOptions::RegisterCustomOpsLibrary) and owns the OrtStatus that it
   gives; null is success, and an unknown version of ONNX Runtime is no error but leaves the allocator out. */
EM_EXPORT void* RegisterCustomOps(void* options, const void* api_base);

/* "" before ONNX Runtime called, else the version it named; em_ort_error is "" unless the allocator was refused. */
EM_EXPORT const char* em_ort_version(void);
EM_EXPORT const char* em_ort_error(void);

/* For gpu_external_alloc, gpu_external_free and gpu_external_empty_cache of ONNX Runtime's CUDA provider. What is not
   in an arena comes from `take` and goes back to the `give` that was set with it; they have the signatures of
   cudaMalloc and cudaFree, and 0 is success. With a null among them there is no source, and em_cuda_alloc gives null
   unless an arena serves the request; it gives null in the cases of em_allocate, too. */
EM_EXPORT void em_cuda_source(int (*take)(void**, size_t), int (*give)(void*));
EM_EXPORT void* em_cuda_alloc(size_t size);
EM_EXPORT void em_cuda_free(void* block); /* null does nothing */
EM_EXPORT void em_cuda_empty_cache(void);

#ifdef __cplusplus
}
#endif

#endif
