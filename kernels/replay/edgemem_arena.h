/* The C ABI of the replay allocator: it records what a runtime asks for, and then replays a plan made from the record.

   Recording: the heap serves every request, and the events are noted. Replaying: the k-th request of the run gets the
   place of the k-th request of the plan if it is no larger, and what the plan frees before it has been freed where it
   would lie; else the heap serves it. So one plan serves all runs that are no larger, and results are right in any run.

   The heap is a pool of the process: it keeps the pages of freed blocks for later requests until em_trim.

   Errors. No function declared here throws or ends the process, except em_torch_malloc_or_throw, and the allocator that
   RegisterCustomOps gives to ONNX Runtime: they throw std::bad_alloc where memory is short. A function that gives a
   pointer gives null when it fails, a function that gives an int32_t gives one of the EM_ codes below, and
   em_last_error says why.

   Threads. A context is active on the thread that called em_begin_*, from that call until em_end, which the same
   thread must call. A thread may have one active context of each kind of memory; it serves the requests of this thread
   and of no other. While it is inactive a context may be used and destroyed on any thread, by one at a time. A request
   on a thread without an active context goes to the heap and counts as `outside`. A block may be freed on any thread;
   a free on another thread than the context's is no event of its run: to the run, that block is still in use.
   Arenas, plans, loops, em_totals_get and the allocator itself may be used by several threads at once.

   Ownership. What em_arena_create, em_arena_part, em_arena_wrap, em_plan_create, em_context_create and em_loop_create
   give is the caller's, who ends it with em_arena_release, em_plan_release, em_context_destroy or em_loop_destroy,
   once, and does not use it afterwards. A run keeps its plan and its arena alive until em_end, a loop its arena until
   em_loop_stop or the next em_loop_replay, and a block keeps its arena alive until it is freed, so all may be released
   earlier. A block goes back to the pair it came from: em_allocate and em_free, em_cuda_alloc and em_cuda_free,
   em_torch_malloc and em_torch_free.

   In libedgemem.so for Android there are no functions em_cuda_... and em_torch_...: nothing there calls them.

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

#define EM_ABI 2
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
enum {
  EM_GUARD_PAGE = 1, /* em_arena_create: the page after the arena cannot be touched */
  EM_PARTS = 2,      /* em_arena_create: runs use parts of it, and never the arena itself */
};
enum {
  EM_POISON = 1, /* em_begin_replay, em_loop_replay: unused host memory of the arena is filled with a pattern */
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
   negative or above the limit, `flags` has another bit than these two, or memory is short. */
EM_EXPORT em_arena* em_arena_create(int64_t size, int32_t flags);

/* `size` bytes from `offset` of an arena that was made with EM_PARTS, for runs of their own. It keeps that arena alive.
   Null if `arena` is null or has no such bytes, or some of them are in another part that is not released or has a
   block. */
EM_EXPORT em_arena* em_arena_part(em_arena* arena, int64_t offset, int64_t size);

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

/* Gives the arena's pages to the system; its contents are lost, and it takes pages again as they are used. EM_BUSY
   while a run or a block is inside, and for memory of the caller's; EM_REFUSED for null. */
EM_EXPORT int32_t em_arena_give_pages(em_arena* arena);

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

/* Ends the calling thread's run in it, if there is one, and destroys it, unless it is active on another thread. */
EM_EXPORT void em_context_abandon(em_context* context);

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

/* The largest `peak` of the context's runs that have ended since the last call; 0 for null. Only while it is inactive.
 */
EM_EXPORT int64_t em_recent_peak(em_context* context);

/* The context of this kind that is active on the calling thread, or null. */
EM_EXPORT em_context* em_active(int32_t kind);

/* Gives the free pages of the heap back to the system, and asks the C library to give back those of its own; the number
   of bytes that the heap gave back. */
EM_EXPORT int64_t em_trim(void);

/* The allocator itself, for runtimes that are called through C. Blocks are host memory; those from the heap begin at
   multiples of 64, those from an arena at multiples of the plan's alignment. Null for 0 bytes, for a size above the
   limit, and when memory is short. */
EM_EXPORT void* em_allocate(size_t size);

/* Not 0: the calling thread loads a model, and what it asks for outside a run is no block of the pool but of the C
   library, as weights are: weights in another form take the memory of those that they replace. 0, and where a run
   begins on the thread: it does not. */
EM_EXPORT void em_loading(int32_t is_on);

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

/* ---- Loops: a program that does the same again and again, on several threads, such as a training loop -------------

   A loop serves all requests that come through em_torch_malloc for one device, whatever thread makes them: the first
   iterations are recorded, the later ones get the places of a plan. One loop of a device is active at a time; without
   one, the fallback serves all. The fallback is the heap above for host memory; for a device it is a caching allocator
   with the rules of PyTorch's over em_cuda_source.

   A lane is a sequence of requests whose order is the same in each iteration: those of a thread in host memory, those
   of a stream on a device. Lanes have numbers from 0 on, in the order in which they came after em_loop_start. The slots
   of a lane are matched in order. A request takes the first of these that there is, in the section it is made in: the
   next slot if it has its size; the slot that was next when a request of another size came, the last one of these, if
   it has its size; the next of its size among the 64 that follow; the next slot if it is larger. em_loop_enter moves a
   thread's lane to the next slot of a section. A place is given only while nothing else lies there, so results are
   right whatever the program does.

   Streams. A block's memory is given to later requests as soon as the program frees it, in the order of its stream.
   Therefore, on a device, only the requests of one stream get places: of the one with the most bytes in the plan. The
   fallback keeps the blocks of streams apart. A block that another stream uses is to be named to
   em_torch_record_stream; after its free it serves no request before em_loop_synchronized. */

typedef struct em_loop em_loop;

enum {
  EM_HOST_MEMORY = -1,  /* the device of host memory */
  EM_MOST_DEVICES = 32, /* others are 0 to 31 */
  EM_MOST_LANES = 65536,
  EM_MOST_SPACES = 1 << 20,
};

typedef struct em_slot {
  int64_t bytes;  /* asked for */
  int64_t offset; /* its place; -1 for the fallback, and in dynamic slots */
  int64_t other;  /* its place while `offset` is in use, or -1 */
  int64_t lane;
  int64_t section; /* that em_loop_enter named, or -1 */
  int64_t space;   /* -1; else the slot is dynamic: it serves any size from what is free of this space */
} em_slot;

typedef struct em_interval {
  int64_t space; /* number of the space that this is a part of */
  int64_t begin; /* in bytes; half-open */
  int64_t end;
} em_interval;

typedef struct em_slots {
  int64_t size;      /* of the arena in bytes */
  int64_t alignment; /* of the offsets; a power of two */
  const em_slot* slots;
  int64_t count;
  const em_interval* intervals; /* by space, then by begin; those of a space are disjoint */
  int64_t intervals_count;
  int64_t spaces; /* how many; some may be empty */
} em_slots;

typedef struct em_loop_event {
  int64_t size;      /* bytes asked for; 0 for a free */
  int64_t request;   /* the one made, counted from 0 since em_loop_record, or the one freed */
  int64_t time_ns;   /* since em_loop_record */
  int64_t thread;    /* number of the thread, in the order of their first requests since em_loop_start */
  int64_t stream;    /* number of the stream in the same way; 0 for host memory */
  int64_t section;   /* of the thread, or -1 */
  int64_t iteration; /* counted from 0 since em_loop_record; -1: outside of any, or it began before */
} em_loop_event;

/* Every request within an iteration counts in exactly one of hits to failed. */
typedef struct em_loop_stats {
  int64_t iterations;     /* that have ended */
  int64_t requests;       /* within iterations, except while the loop is paused */
  int64_t hits;           /* served by the slot's place */
  int64_t dynamic_hits;   /* served by a place in a dynamic slot's space */
  int64_t misses;         /* no slot fits, or there is no plan */
  int64_t occupied;       /* a slot fits, but its places are in use */
  int64_t dynamic_misses; /* the slot's space has no room */
  int64_t unplanned;      /* the plan says that the fallback serves it */
  int64_t other_stream;   /* on a device: of a stream that the plan is not of */
  int64_t failed;         /* not served: memory is short */
  int64_t missed_bytes;   /* of misses, occupied and dynamic_misses */
  int64_t arena_peak;     /* bytes of this loop's blocks in arenas at once */
  int64_t fallback_peak;  /* bytes of this loop's blocks in the fallback at once */
  int64_t unnoted;        /* events that the record had no room for */
} em_loop_stats;

/* `device` is EM_HOST_MEMORY, or the number of a device. Null if there is no such number, or memory is short. */
EM_EXPORT em_loop* em_loop_create(int32_t device);

/* Stops it first. Null does nothing. */
EM_EXPORT void em_loop_destroy(em_loop* loop);

/* Makes it the active loop of its device, which forgets threads and streams. EM_BUSY if there is one. */
EM_EXPORT int32_t em_loop_start(em_loop* loop);

/* Ends the iteration, the record and the replay. Blocks stay valid. A loop that is not active stays so. */
EM_EXPORT void em_loop_stop(em_loop* loop);

/* Drops the last record, and notes at most `most_events` events from now until em_loop_events; later ones count as
   `unnoted`. Frees of blocks that were made before, or while the loop is paused, are not noted. EM_REFUSED if the loop
   is not active. */
EM_EXPORT int32_t em_loop_record(em_loop* loop, int64_t most_events);

/* Ends the record; the number of events, and where they are: valid until em_loop_record, em_loop_events_drop or
   em_loop_destroy. 0 if an argument is null. */
EM_EXPORT int64_t em_loop_events(em_loop* loop, const em_loop_event** out);
EM_EXPORT void em_loop_events_drop(em_loop* loop);

/* Follows the slots, which are copied, from the next em_loop_begin on. `flags` is EM_POISON or 0. EM_REFUSED if an
   argument is null, a slot or an interval does not lie in the arena, or the arena is smaller than the plan, less
   aligned, or of another kind of memory than the device. EM_BUSY if the arena has a run or blocks, unless it is the
   loop's own. EM_NO_MEMORY if memory is short. */
EM_EXPORT int32_t em_loop_replay(em_loop* loop, const em_slots* slots, em_arena* arena, int32_t flags);

/* Around an iteration, on any thread. At its beginning all lanes are at their first slots, and no thread is in a
   section; in host memory the calling thread has a lane from then on. EM_REFUSED if the loop is not active, or is, or
   is not, in an iteration. */
EM_EXPORT int32_t em_loop_begin(em_loop* loop);
EM_EXPORT int32_t em_loop_end(em_loop* loop);

/* While it is paused, on all threads, the fallback serves requests, which are neither matched nor noted nor counted.
   Pauses nest. EM_REFUSED from em_loop_resume without em_loop_pause. */
EM_EXPORT int32_t em_loop_pause(em_loop* loop);
EM_EXPORT int32_t em_loop_resume(em_loop* loop);

/* The calling thread is in this section from now on; -1: in none. Does nothing while the loop is not active. */
EM_EXPORT void em_loop_enter(em_loop* loop, int64_t section);

/* The program waited for all streams of the device: blocks that were used by several streams are free to serve. */
EM_EXPORT void em_loop_synchronized(em_loop* loop);

/* Of the iteration that ended last, and of all since em_loop_start; either may be null. */
EM_EXPORT void em_loop_stats_get(const em_loop* loop, em_loop_stats* last, em_loop_stats* total);

/* The allocator itself, with the signatures of torch.cuda.memory.CUDAPluggableAllocator. Null for 0 bytes, for a size
   below 0 or above the limit, for an unknown device, and when memory is short. Host blocks from the fallback begin at
   multiples of 64, device blocks at multiples of 512, those in an arena at multiples of the plan's alignment. A block
   may be freed on any thread, also when its loop has been destroyed; size and stream of the free are not looked at. */
EM_EXPORT void* em_torch_malloc(ptrdiff_t size, int device, void* stream);
EM_EXPORT void em_torch_free(void* block, ptrdiff_t size, int device, void* stream); /* null does nothing */

/* As em_torch_malloc, for a caller in C++ that does not look whether it got null, as PyTorch with its pluggable
   allocator: throws std::bad_alloc where em_torch_malloc gives null, except for 0 bytes. */
EM_EXPORT void* em_torch_malloc_or_throw(ptrdiff_t size, int device, void* stream);

/* A block of a device is in use on this stream, too. Does nothing for host memory. */
EM_EXPORT void em_torch_record_stream(void* block, void* stream);

typedef struct em_torch_memory {
  int64_t used; /* bytes of blocks in use, rounded up as the allocator does */
  int64_t used_peak;
  int64_t reserved; /* bytes taken from em_cuda_source, in use or cached */
  int64_t reserved_peak;
} em_torch_memory;

/* Gives what the fallback of a device keeps for later requests back to em_cuda_source, or for host memory what em_trim
   does; how many bytes. 0 if there is no such device. */
EM_EXPORT int64_t em_torch_empty_cache(int device);

/* What the fallback of a device holds, without arenas; all 0 for host memory, which em_totals_get tells. Null does
   nothing. */
EM_EXPORT void em_torch_memory_get(int device, em_torch_memory* out);

#ifdef __cplusplus
}
#endif

#endif
