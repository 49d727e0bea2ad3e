// An allocator that records what a runtime asks for, and then replays a plan made from the record.
//
// A context belongs to one thread while it is active (em_begin_* to em_end). Recording: every request is served by the
// heap and noted. Replaying: the events must come exactly as planned, sizes and order of frees; a planned request gets
// its place in the arena. At the first deviation the rest of the run is served by the heap, so results stay right.
//
// No function declared here throws or ends the process. Functions that can fail return null or an EM_ code;
// em_last_error says why.
#ifndef EDGEMEM_ARENA_H
#define EDGEMEM_ARENA_H

#include <stddef.h>
#include <stdint.h>

#define EM_ABI 1
#define EM_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

enum { EM_OK = 0, EM_REFUSED = -1, EM_BUSY = -2, EM_NO_MEMORY = -3 };
enum { EM_HOST = 0, EM_DEVICE = 1 };  // kinds of memory; a thread may have one active context of each
enum { EM_GUARD_PAGE = 1 };           // em_arena_create: the page after the arena cannot be touched
enum { EM_POISON = 1 };               // em_begin_replay: unused arena memory is filled with a pattern

typedef struct em_arena em_arena;
typedef struct em_plan em_plan;
typedef struct em_context em_context;

// Requests count from 0 in the order in which they came.
typedef struct em_event {
  int64_t size;     // bytes asked for; 0 for a free
  int64_t request;  // the one made, or the one freed
  int64_t time_ns;  // since the run began
  int64_t thread;   // the operating system's number
} em_event;

typedef struct em_stats {
  int64_t requests;   // in this run
  int64_t hits;       // served by the arena
  int64_t misses;     // served by the heap
  int64_t bail;       // index of the first event that was not as planned, or -1
  int64_t events;     // that were as planned, or recorded
  int64_t peak;       // bytes alive at once in arena and heap
  int64_t heap_peak;  // bytes alive at once in the heap
  int64_t arena_top;  // end of the highest byte given out
  int64_t left;       // blocks of the arena that outlived the run
  int64_t failed;     // requests that could not be served, and events that could not be noted
} em_stats;

typedef struct em_totals {
  int64_t contexts;      // in existence
  int64_t arenas;        // in existence, released ones with living blocks included
  int64_t arena_bytes;   // of these
  int64_t heap_live;     // bytes of requests on the heap now
  int64_t heap_peak;     // the most there were
  int64_t reserve_live;  // bytes that a runtime reserved for good, such as weights
  int64_t outside;       // requests that came while no context was active on their thread
} em_totals;

EM_EXPORT int32_t em_abi(void);
EM_EXPORT const char* em_last_error(void);  // of the calling thread
EM_EXPORT void em_totals_get(em_totals* out);

// The next `count` allocations from the system succeed and every later one fails; negative: none fails. For tests.
EM_EXPORT void em_fail_after(int64_t count);

// An arena of `size` bytes that begins at a multiple of 64; em_arena_wrap uses memory of the caller's, which must
// outlive it. A released arena lives on until the last block in it is freed.
EM_EXPORT em_arena* em_arena_create(int64_t size, int32_t flags);
EM_EXPORT em_arena* em_arena_wrap(void* base, int64_t size, int32_t kind);
EM_EXPORT void em_arena_release(em_arena* arena);
EM_EXPORT void* em_arena_base(const em_arena* arena);
EM_EXPORT int64_t em_arena_size(const em_arena* arena);
EM_EXPORT int64_t em_arena_left(const em_arena* arena);  // blocks in use

// A plan: events[i] > 0 asks for that many bytes, events[i] < 0 frees request -events[i] - 1. offsets[k] is the place
// of request k in bytes, or -1 for the heap. Refused unless no two requests overlap while both are alive.
EM_EXPORT em_plan* em_plan_create(const int64_t* events, int64_t count, const int64_t* offsets, int64_t requests,
                                  int64_t size, int64_t alignment);
EM_EXPORT void em_plan_release(em_plan* plan);  // contexts that replay it keep it alive

EM_EXPORT em_context* em_context_create(int32_t kind);
EM_EXPORT int32_t em_context_destroy(em_context* context);  // EM_BUSY while it is active
EM_EXPORT int32_t em_begin_record(em_context* context, int64_t most_events);
// EM_BUSY while another run, or a block that outlived one, is in the arena.
EM_EXPORT int32_t em_begin_replay(em_context* context, em_plan* plan, em_arena* arena, int32_t flags);
EM_EXPORT int32_t em_end(em_context* context, em_stats* out);
// What was recorded; valid until the context begins again or is destroyed.
EM_EXPORT int64_t em_events(const em_context* context, const em_event** out);

// The allocator itself, for runtimes that are called through C. Null when memory is short or the size is 0.
EM_EXPORT void* em_allocate(size_t size);
EM_EXPORT void em_free(void* block);

// ONNX Runtime finds this name in the library (SessionOptions::RegisterCustomOpsLibrary).
EM_EXPORT void* RegisterCustomOps(void* options, const void* api_base);
// "" before ONNX Runtime called, else the version it named; em_ort_error is "" unless the allocator was refused.
EM_EXPORT const char* em_ort_version(void);
EM_EXPORT const char* em_ort_error(void);

// For gpu_external_alloc, gpu_external_free and gpu_external_empty_cache of ONNX Runtime's CUDA provider. What is not
// in an arena comes from `take` and goes back to `give`, which have the signatures of cudaMalloc and cudaFree.
EM_EXPORT void em_cuda_source(int (*take)(void**, size_t), int (*give)(void*));
EM_EXPORT void* em_cuda_alloc(size_t size);
EM_EXPORT void em_cuda_free(void* block);
EM_EXPORT void em_cuda_empty_cache(void);

#ifdef __cplusplus
}
#endif

#endif
