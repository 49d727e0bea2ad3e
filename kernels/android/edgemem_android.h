/* The C ABI of edgemem for devices: reads plan files, plans recorded runs, and runs a model inside a plan.

   It stands on edgemem_arena.h, whose words it uses. A plan file is made on a desktop (`edgemem plan`) and is in the
   model file; docs/plan-file.md describes it. On a device a program reads it and runs inside its plan:

     em_planfile* file = em_planfile_read(model, model_bytes, EM_FORM_ONNX);  // null: em_last_error says why
     em_session* session = em_session_create(file, 0);
     for (;;) {
       em_run run;
       if (em_session_begin(session) != EM_OK) break;
       run_the_network();                            // its requests come to em_allocate and em_free on this thread
       if (em_session_end(session, &run) != EM_OK) break;
       report(run.source, run.measured, run.planned);
     }
     em_session_destroy(session);
     em_planfile_release(file);

   ONNX Runtime makes its requests through this library once `RegisterCustomOps` is registered in the session's options,
   the entry session.use_env_allocators is "1" and memory patterns are off.

   Errors. No function declared here throws or ends the process. A function that gives a pointer gives null when it
   fails, a function that gives an int32_t one of the codes of edgemem_arena.h, and em_last_error says why.

   Threads. An em_planfile may be used by several threads at once. An em_session may be used and destroyed on any
   thread, by one at a time; em_session_end must be called on the thread that called em_session_begin. Between the two,
   the session serves the requests of that thread and of no other, and no other run may be active on it. em_plan_record
   reads a context, and must be the only one to use it at that time.

   Ownership. What em_planfile_read and em_session_create give is the caller's, who ends it with em_planfile_release or
   em_session_destroy, once. A plan that em_planfile_plan or em_plan_record gives is the caller's, too, until
   em_plan_release. A session keeps what it needs of its file, so the file may be released before it.

   Texts are UTF-8 and end with a zero; of a text that has a zero in it, the part before the zero is seen. Sizes and
   offsets are bytes. */
#ifndef EDGEMEM_ANDROID_H
#define EDGEMEM_ANDROID_H

#include <stdint.h>

#include "replay/edgemem_arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Plan files ----------------------------------------------------------------------------------------------------
 */

/* The contents of a plan file, read and checked; they do not change. */
typedef struct em_planfile em_planfile;

/* What the bytes of em_planfile_read are. */
enum {
  EM_FORM_PLANFILE = 0, /* a plan file (*.edgemem) */
  EM_FORM_ONNX = 1,     /* an ONNX model; the plan is its metadata entry `edgemem.plan` */
  EM_FORM_TFLITE = 2,   /* a TFLite model; the plan is the buffer of its metadata entry `edgemem.plan` */
};

/* What a plan set is a plan of. */
enum { EM_PLAN_OF_GRAPH = 0, EM_PLAN_OF_RECORDING = 1, EM_PLAN_OF_CYCLE = 2 };

typedef struct em_planset {
  int32_t kind;         /* EM_PLAN_OF_GRAPH, EM_PLAN_OF_RECORDING or EM_PLAN_OF_CYCLE */
  int32_t is_usable;    /* 1: see below; else 0 */
  const char* target;   /* name of the target's rules; "" of recordings, cycles and plain records */
  const char* digest;   /* SHA-256 (hex) of the graph, or "" */
  const char* strategy; /* that made the plan; "" if there is no plan with offsets */
  const char* runtime;  /* of a recording: the runtime's name, its version, and the model's digest; else "" */
  const char* version;
  const char* model;
  int64_t arena;       /* bytes of the smallest plan with offsets, the first of equals; 0 without any */
  int64_t lower_bound; /* bytes that no arena can go below, as the file says */
  int64_t naive;       /* bytes without any sharing, as the file says */
  int64_t alignment;   /* of the offsets: a power of two, and of the arena's begin */
  int64_t records;     /* how many there are */
  int64_t steps;       /* operators of a graph, events of a recording or of a cycle's period */
  int32_t is_optimal;  /* 1: the arena has the bytes of lower_bound */
  int32_t reserved;    /* 0 */
} em_planset;

/* A plan set is usable if it is of a graph in the model's own order, or of a recording; if it has one arena, and no
   record may lie within or over another, or in a region of its own, or beside reserved bytes; if its tensors are dense,
   not kept as GPUs keep them; and if its places have been proved here: each lies in the arena, is a multiple of the
   alignment, is where its record is pinned, and no two records that are in use at the same time have a byte in common.
   Whether a plan of a graph belongs to a model is not proved: compare the digest. */

/* One piece of memory, and the time it is in use. */
typedef struct em_record {
  const char* name;
  int64_t first; /* the first operator that uses it; of a recording the event that asks for it */
  int64_t last;  /* the last operator, inclusive; of a recording the event before the one that frees it */
  int64_t size;  /* bytes; of plans for textures, which are not usable, texels */
  int64_t
      offset;   /* from the arena's begin (of its region's, where there are several); -1 without a plan with offsets */
  int32_t kind; /* 0 tensor, 1 graph input, 2 graph output, 3 variable, 4 workspace of an operator, 5 state */
  int32_t reserved; /* 0 */
} em_record;

/* Reads a plan file of version 1 to 4 from `count` bytes, which it does not keep. Any bytes are safe: it takes time and
   memory in proportion to their number. Null if there is no plan in them, if they are damaged or no plan file, if what
   they say does not fit together, or memory is short. Recordings that edgemem 0.1 wrote into ONNX models, under the key
   `edgemem.trace`, are not read. */
EM_EXPORT em_planfile* em_planfile_read(const void* bytes, int64_t count, int32_t form);

/* Null does nothing. */
EM_EXPORT void em_planfile_release(em_planfile* file);

/* The number of plan sets, 1 or more; they have numbers from 0, in the order of the file. 0 for null. */
EM_EXPORT int64_t em_planfile_sets(const em_planfile* file);

/* What plan set `set` says. The texts are valid until the file is released. EM_REFUSED if there is no such plan set, or
   an argument is null. */
EM_EXPORT int32_t em_planfile_set(const em_planfile* file, int64_t set, em_planset* out);

/* Record `record` of plan set `set`, numbered from 0. The name is valid until the file is released. EM_REFUSED if there
   is no such record, or an argument is null. */
EM_EXPORT int32_t em_planfile_record(const em_planfile* file, int64_t set, int64_t record, em_record* out);

/* The plan of a recording, for em_begin_replay; the requests that the recording leaves on the heap stay there. Null if
   the plan set is not usable, not of a recording, or aligned to more than 64 bytes, or memory is short. */
EM_EXPORT em_plan* em_planfile_plan(const em_planfile* file, int64_t set);

/* ---- Planning ------------------------------------------------------------------------------------------------------
 */

typedef struct em_planned {
  int64_t arena;        /* bytes */
  int64_t lower_bound;  /* bytes that no plan of these requests can go below */
  int64_t naive;        /* bytes without any sharing */
  int64_t requests;     /* that have a place */
  const char* strategy; /* that made the plan; valid for ever */
} em_planned;

/* A plan of the run that `context` recorded last: of edgemem's fixed rules (greedy_by_size, greedy_by_breadth,
   greedy_in_order, strip_packing, in this order) the first with the smallest arena. Requests that the run did not free
   stay on the heap. `alignment` is of every offset: a power of two up to 64, and 64 is what runtimes need. `out` may be
   null. Takes O(n log n (log n + g)) for n requests and g gaps that hold one.

   Null if the context is null or active, the alignment is none, events are missing in the record, the sizes add up to
   2^62 or more, or memory is short. Of a record that was cut short, which em_stats.failed tells, the plan holds for
   the part that is there. */
EM_EXPORT em_plan* em_plan_record(const em_context* context, int64_t alignment, em_planned* out);

/* ---- Sessions ------------------------------------------------------------------------------------------------------
 */

/* The runs of one model, each inside a plan if there is one.

   The plan. The first run follows the first usable recording in the file, if there is one: each request is compared
   with its place before it gets it, so that a plan that does not fit does no harm. Each run is recorded as well. If a
   run had a request that was freed in it and did not come from the arena, the next run follows another plan: the first
   recording of the file whose stream is that of the run with no smaller sizes; else a plan that is made at the end of
   this run, by em_plan_record's rules and at an alignment of 64. Where this run's stream is that of the plan in use but
   for its sizes, each request has the larger of both sizes in the new plan, so that it serves both. Without a plan a
   run is recorded only. A session changes its plan EM_MOST_REPLANS times in a row at most, and once more for each run
   that came as planned; then it keeps the plan it has, and em_run.misses goes on to tell what that does not serve. A
   run of more than 2^20 events is not planned.

   Blocks. A block may outlive its run. If it is in the arena, the next run gets an arena of its own, and the old one
   goes with its last block. */
typedef struct em_session em_session;

enum { EM_MOST_REPLANS = 8 };

/* Flags of em_session_create. */
enum {
  EM_SESSION_POISON = EM_POISON,  /* unused memory of the arena is filled with a pattern: for tests, as it takes time */
  EM_SESSION_GUARD_PAGE = 1 << 8, /* the page after the arena cannot be touched */
};

/* What plan a run followed. */
enum {
  EM_RAN_RECORDED = 0,  /* none: the heap served it, and it was recorded */
  EM_RAN_FILE = 1,      /* one of the file's */
  EM_RAN_MADE_HERE = 2, /* one that the session made of an earlier run */
};

typedef struct em_run {
  int32_t source;      /* EM_RAN_RECORDED, EM_RAN_FILE or EM_RAN_MADE_HERE */
  int32_t is_complete; /* 1: every request of the run's thread came from the arena, and there was one */
  int64_t planned;     /* bytes that the plan says; 0 without one, as for the next four */
  int64_t arena;       /* bytes that were allocated for it */
  int64_t measured;    /* end of the highest byte that was given out */
  int64_t lower_bound; /* bytes that no plan of the plan's requests can go below, as its file says if it has one */
  int64_t naive;       /* bytes of the plan's requests without any sharing */
  int64_t requests;    /* of this run */
  int64_t hits;        /* that the arena served */
  int64_t misses;      /* that the heap served */
  int64_t heap_peak;   /* bytes of this run alive at once on the heap */
  int64_t replans;     /* changes of plan since the session was created, the one at the end of this run included */
} em_run;

/* `file` may be null: the first run is recorded. `flags` are those above. Null if the flags are unknown or memory is
   short. */
EM_EXPORT em_session* em_session_create(const em_planfile* file, int32_t flags);

/* Begins a run on the calling thread. Where memory for the plan's arena is short, or the plan of the file claims more
   than there is, the session drops that plan for good: the run is recorded only, as em_run.source says, and
   em_last_error says how many bytes were missing. EM_REFUSED for null, EM_BUSY if a run of the session, or any other
   one, is active on the thread. */
EM_EXPORT int32_t em_session_begin(em_session* session);

/* Ends the run and tells what happened in it; `out` may be null. EM_REFUSED, and nothing ends, for null, without a run,
   and on another thread than the one that began it. If memory for a new plan is short, the session keeps the one it
   has. */
EM_EXPORT int32_t em_session_end(em_session* session, em_run* out);

/* The requests that have a place in the plan that the next run follows, for a drawing of the memory: how many there
   are, of which the first `most` are written to `out`. 0 for null, and while there is no plan. Names are valid until
   the session's next em_session_begin, em_session_end or em_session_destroy. */
EM_EXPORT int64_t em_session_places(em_session* session, int64_t most, em_record* out);

/* EM_BUSY, and nothing is destroyed, while a run is active. Null does nothing. */
EM_EXPORT int32_t em_session_destroy(em_session* session);

/* ---- TensorFlow Lite -----------------------------------------------------------------------------------------------
 */

/* Gives every tensor of the file's plan of the graph its place in `bytes` bytes of memory at `arena`, by
   TfLiteInterpreterSetCustomAllocationForTensor. To be called before TfLiteInterpreterAllocateTensors, and again before
   each later one. `interpreter` is a TfLiteInterpreter of the model that the plan was made for; the arena is the
   caller's, begins at a multiple of 64 and outlives the interpreter's use. `library` is a handle of dlopen of the
   library that has TensorFlow Lite's C functions; null: they are looked up among the process's global libraries, which
   on Android those of System.loadLibrary are not: pass dlopen's handle there.

   Tensors are found by their names, in the way edgemem names them: one without a name, or with a name that another has,
   too, has # and its index behind it. What the plan says of operators' workspace is not placed: the runtime has memory
   of its own for it. Set the inputs before each run: their memory serves other tensors after their last use.

   EM_REFUSED, with nothing placed, if an argument is null, the file has no usable plan of a graph, the arena is smaller
   than the plan, less aligned than the plan or not at a multiple of 64, the library lacks a function, the model has no
   tensor of a name in the plan, or the tensor is larger than its record: the plan is of another model then. EM_REFUSED,
   too, if the runtime refuses a place; some tensors have theirs then, and the interpreter must not be used. */
EM_EXPORT int32_t em_tflite_place(void* library, void* interpreter, const em_planfile* file, void* arena,
                                  int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
