/* Runs a model in ONNX Runtime for Android, plainly or inside edgemem's plan, through C alone.

     run_model ORT MODEL RESULTS [OPTION...] INPUTS...

   ORT is libonnxruntime.so; each file INPUTS has the inputs of one run, and RESULTS.W.K gets the outputs of run K of
   worker W. One line of JSON about each run goes to stdout. Options:

     --edgemem LIBRARY  serve the runs by this libedgemem.so, in a session of edgemem_android.h
     --plan             give that session the plan in MODEL
     --poison           fill unused memory of the arena, and guard its end
     --bind             run with an IO binding whose results are in memory of this program's
     --fail-after N     the system gives edgemem memory N times in a run, and then none
     --threads N        of one operator (1)
     --workers N        threads that each have a session of their own and make all runs at the same time (1)
     --fork             a child process makes all runs, too, while other threads of the parent allocate

   A file of tensors: their number; for each the length of its name, the name, its ONNX element type, its rank, the
   dimensions, the number of bytes, and the bytes. Numbers are 64-bit integers of this machine. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <onnxruntime_c_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "android/edgemem_android.h"

enum { MOST_TENSORS = 64, MOST_RUNS = 64, MOST_RANK = 16, MOST_NAME = 1024, ALLOCATING_THREADS = 2 };
static const int64_t kMostBytes = (int64_t)1 << 32;

typedef struct Tensors {
  int64_t count;
  char* names[MOST_TENSORS];
  OrtValue* values[MOST_TENSORS];
  void* data[MOST_TENSORS]; /* of the caller's, or null: the value has its own */
} Tensors;

/* What is used of libedgemem.so. */
typedef struct Edgemem {
  const char* (*last_error)(void);
  const char* (*ort_error)(void);
  void (*totals)(em_totals*);
  void (*fail_after)(int64_t);
  void* (*allocate)(size_t);
  void (*release)(void*);
  em_planfile* (*read)(const void*, int64_t, int32_t);
  void (*release_file)(em_planfile*);
  em_session* (*create)(const em_planfile*, int32_t);
  int32_t (*begin)(em_session*);
  int32_t (*end)(em_session*, em_run*);
  int64_t (*places)(em_session*, int64_t, em_record*);
  int32_t (*destroy)(em_session*);
} Edgemem;

typedef struct Job {
  const char *ort, *model, *results, *edgemem;
  int has_plan, poison, bind, threads, workers, forks, fail_after; /* -1: no failures */
  int runs;
  const char* inputs[MOST_RUNS];
} Job;

/* One worker's session. */
typedef struct Worker {
  int number;
  const char* process; /* "parent" or "child" */
  OrtSession* session;
  em_session* planned;
  int failed;
} Worker;

static Job job = {.threads = 1, .workers = 1, .fail_after = -1};
static const OrtApi* api;
static OrtEnv* environment;
static OrtMemoryInfo* host;
static OrtAllocator* names_allocator;
static Edgemem em;
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

static _Noreturn void fail(const char* what, const char* why) {
  fprintf(stderr, "run_model: %s: %s\n", what, why);
  fflush(stderr);
  _Exit(1);
}

static void check(OrtStatus* status, const char* what) {
  if (status != NULL) {
    fail(what, api->GetErrorMessage(status));
  }
}

static void check_em(int32_t code, const char* what) {
  if (code != EM_OK) {
    fail(what, em.last_error());
  }
}

static void* must(void* made, const char* what) {
  if (made == NULL) {
    fail(what, "memory is short");
  }
  return made;
}

static void read_exactly(FILE* file, void* to, int64_t bytes, const char* path) {
  if (bytes < 0 || bytes > kMostBytes || fread(to, 1, (size_t)bytes, file) != (size_t)bytes) {
    fail(path, "the file ends too early");
  }
}

static int64_t read_number(FILE* file, int64_t most, const char* path) {
  int64_t number = 0;
  read_exactly(file, &number, sizeof number, path);
  if (number < 0 || number > most) {
    fail(path, "a number is out of range");
  }
  return number;
}

static Tensors read_tensors(const char* path) {
  Tensors made;
  memset(&made, 0, sizeof made);
  FILE* file = fopen(path, "rb");
  if (file == NULL) {
    fail(path, "cannot be opened");
  }
  made.count = read_number(file, MOST_TENSORS, path);
  for (int64_t i = 0; i < made.count; i++) {
    const int64_t length = read_number(file, MOST_NAME, path);
    made.names[i] = must(calloc(1, (size_t)length + 1), path);
    read_exactly(file, made.names[i], length, path);
    const int64_t type = read_number(file, 64, path);
    const int64_t rank = read_number(file, MOST_RANK, path);
    int64_t shape[MOST_RANK];
    read_exactly(file, shape, rank * 8, path);
    const int64_t bytes = read_number(file, kMostBytes, path);
    made.data[i] = must(aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64), path);
    read_exactly(file, made.data[i], bytes, path);
    check(api->CreateTensorWithDataAsOrtValue(host, made.data[i], (size_t)bytes, shape, (size_t)rank,
                                              (ONNXTensorElementDataType)type, &made.values[i]),
          "CreateTensorWithDataAsOrtValue");
  }
  fclose(file);
  return made;
}

static void release_tensors(Tensors* tensors) {
  for (int64_t i = 0; i < tensors->count; i++) {
    api->ReleaseValue(tensors->values[i]);
    free(tensors->data[i]);
    free(tensors->names[i]);
  }
  memset(tensors, 0, sizeof *tensors);
}

static int64_t bytes_of(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32:
      return 4;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64:
      return 8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16:
      return 2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
      return 1;
    default:
      fail("a result", "its element type is not known here");
  }
}

/* Type, rank, shape and bytes of a tensor. */
typedef struct Form {
  ONNXTensorElementDataType type;
  size_t rank;
  int64_t shape[MOST_RANK];
  int64_t bytes;
} Form;

static Form form_of(OrtValue* value) {
  Form form;
  OrtTensorTypeAndShapeInfo* info = NULL;
  check(api->GetTensorTypeAndShape(value, &info), "GetTensorTypeAndShape");
  check(api->GetTensorElementType(info, &form.type), "GetTensorElementType");
  check(api->GetDimensionsCount(info, &form.rank), "GetDimensionsCount");
  if (form.rank > MOST_RANK) {
    fail("a result", "it has too many dimensions");
  }
  check(api->GetDimensions(info, form.shape, form.rank), "GetDimensions");
  form.bytes = bytes_of(form.type);
  for (size_t i = 0; i < form.rank; i++) {
    form.bytes *= form.shape[i];
  }
  api->ReleaseTensorTypeAndShapeInfo(info);
  return form;
}

static void write_exactly(FILE* file, const void* from, int64_t bytes, const char* path) {
  if (fwrite(from, 1, (size_t)bytes, file) != (size_t)bytes) {
    fail(path, "cannot be written");
  }
}

static void write_tensors(const Tensors* tensors, const Worker* worker, int run) {
  char path[4096];
  snprintf(path, sizeof path, "%s.%s%d.%d", job.results, worker->process, worker->number, run);
  FILE* file = fopen(path, "wb");
  if (file == NULL) {
    fail(path, "cannot be opened");
  }
  write_exactly(file, &tensors->count, 8, path);
  for (int64_t i = 0; i < tensors->count; i++) {
    const Form form = form_of(tensors->values[i]);
    const int64_t length = (int64_t)strlen(tensors->names[i]);
    const int64_t numbers[] = {form.type, (int64_t)form.rank};
    void* data = NULL;
    check(api->GetTensorMutableData(tensors->values[i], &data), "GetTensorMutableData");
    write_exactly(file, &length, 8, path);
    write_exactly(file, tensors->names[i], length, path);
    write_exactly(file, numbers, sizeof numbers, path);
    write_exactly(file, form.shape, 8 * (int64_t)form.rank, path);
    write_exactly(file, &form.bytes, 8, path);
    write_exactly(file, data, form.bytes, path);
  }
  if (fclose(file) != 0) {
    fail(path, "cannot be written");
  }
}

static Tensors result_names(OrtSession* session) {
  Tensors made;
  memset(&made, 0, sizeof made);
  size_t count = 0;
  check(api->SessionGetOutputCount(session, &count), "SessionGetOutputCount");
  if (count > MOST_TENSORS) {
    fail("the model", "it has too many results");
  }
  made.count = (int64_t)count;
  for (size_t i = 0; i < count; i++) {
    char* name = NULL;
    check(api->SessionGetOutputName(session, i, names_allocator, &name), "SessionGetOutputName");
    made.names[i] = must(strdup(name), "a name");
    check(api->AllocatorFree(names_allocator, name), "AllocatorFree");
  }
  return made;
}

static void run_plainly(OrtSession* session, const Tensors* inputs, Tensors* results) {
  check(api->Run(session, NULL, (const char* const*)inputs->names, (const OrtValue* const*)inputs->values,
                 (size_t)inputs->count, (const char* const*)results->names, (size_t)results->count, results->values),
        "Run");
}

/* A binding whose results are in memory of this program's; one plain run tells how large they are. */
static OrtIoBinding* bind(OrtSession* session, const Tensors* inputs, Tensors* results) {
  OrtIoBinding* binding = NULL;
  run_plainly(session, inputs, results);
  check(api->CreateIoBinding(session, &binding), "CreateIoBinding");
  for (int64_t i = 0; i < results->count; i++) {
    const Form form = form_of(results->values[i]);
    api->ReleaseValue(results->values[i]);
    results->data[i] = must(aligned_alloc(64, (size_t)(form.bytes + 127) / 64 * 64), "a result");
    memset(results->data[i], 0xa5, (size_t)form.bytes);
    check(api->CreateTensorWithDataAsOrtValue(host, results->data[i], (size_t)form.bytes, form.shape, form.rank,
                                              form.type, &results->values[i]),
          "CreateTensorWithDataAsOrtValue");
    check(api->BindOutput(binding, results->names[i], results->values[i]), "BindOutput");
  }
  for (int64_t i = 0; i < inputs->count; i++) {
    check(api->BindInput(binding, inputs->names[i], inputs->values[i]), "BindInput");
  }
  return binding;
}

static void print_run(const Worker* worker, int run, const em_run* told, int64_t outside, int64_t places) {
  static const char* const sources[] = {"none", "file", "made here"};
  pthread_mutex_lock(&printing);
  printf("{\"process\": \"%s\", \"worker\": %d, \"run\": %d", worker->process, worker->number, run);
  if (told != NULL) {
    const char* source = told->source >= 0 && told->source <= 2 ? sources[told->source] : "?";
    printf(", \"source\": \"%s\", \"is_complete\": %s", source, told->is_complete == 1 ? "true" : "false");
    printf(", \"planned\": %lld, \"arena\": %lld, \"measured\": %lld", (long long)told->planned, (long long)told->arena,
           (long long)told->measured);
    printf(", \"lower_bound\": %lld, \"naive\": %lld", (long long)told->lower_bound, (long long)told->naive);
    printf(", \"requests\": %lld, \"hits\": %lld, \"misses\": %lld", (long long)told->requests, (long long)told->hits,
           (long long)told->misses);
    printf(", \"heap_peak\": %lld, \"replans\": %lld", (long long)told->heap_peak, (long long)told->replans);
    printf(", \"outside\": %lld, \"places\": %lld", (long long)outside, (long long)places);
  }
  printf("}\n");
  fflush(stdout);
  pthread_mutex_unlock(&printing);
}

static void make_run(Worker* worker, int run) {
  Tensors inputs = read_tensors(job.inputs[run]);
  Tensors results = result_names(worker->session);
  OrtIoBinding* binding = job.bind ? bind(worker->session, &inputs, &results) : NULL;
  em_totals before;
  em_totals after;
  if (worker->planned != NULL) {
    em.totals(&before);
    check_em(em.begin(worker->planned), "em_session_begin");
    em.fail_after(job.fail_after);
  }
  if (binding != NULL) {
    check(api->RunWithBinding(worker->session, NULL, binding), "RunWithBinding");
  } else {
    run_plainly(worker->session, &inputs, &results);
  }
  write_tensors(&results, worker, run);
  if (binding != NULL) {
    api->ReleaseIoBinding(binding);
  }
  release_tensors(&results); /* a result that ONNX Runtime allocated is in the arena */
  if (worker->planned != NULL) {
    em_run told;
    check_em(em.end(worker->planned, &told), "em_session_end");
    em.totals(&after);
    print_run(worker, run, &told, after.outside - before.outside, em.places(worker->planned, 0, NULL));
  } else {
    print_run(worker, run, NULL, 0, 0);
  }
  release_tensors(&inputs);
}

static void* make_runs(void* given) {
  Worker* worker = given;
  for (int run = 0; run < job.runs; run++) {
    make_run(worker, run);
  }
  return NULL;
}

static em_planfile* read_plan(void) {
  FILE* file = fopen(job.model, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    fail(job.model, "cannot be opened");
  }
  const long size = ftell(file);
  rewind(file);
  void* bytes = must(malloc((size_t)size + 1), job.model);
  read_exactly(file, bytes, size, job.model);
  fclose(file);
  em_planfile* read = em.read(bytes, size, EM_FORM_ONNX);
  if (read == NULL) {
    fail("em_planfile_read", em.last_error());
  }
  free(bytes);
  return read;
}

static void open_session(Worker* worker) {
  OrtSessionOptions* options = NULL;
  check(api->CreateSessionOptions(&options), "CreateSessionOptions");
  check(api->SetIntraOpNumThreads(options, job.threads), "SetIntraOpNumThreads");
  if (job.edgemem != NULL) {
    check(api->RegisterCustomOpsLibrary_V2(options, job.edgemem), "RegisterCustomOpsLibrary_V2");
    check(api->AddSessionConfigEntry(options, "session.use_env_allocators", "1"), "AddSessionConfigEntry");
    check(api->DisableMemPattern(options), "DisableMemPattern");
    if (em.ort_error()[0] != '\0') {
      fail("edgemem", em.ort_error());
    }
    em_planfile* plan = job.has_plan ? read_plan() : NULL;
    worker->planned = em.create(plan, job.poison ? EM_SESSION_POISON | EM_SESSION_GUARD_PAGE : 0);
    em.release_file(plan);
    if (worker->planned == NULL) {
      fail("em_session_create", em.last_error());
    }
  }
  check(api->CreateSession(environment, job.model, options, &worker->session), "CreateSession");
  api->ReleaseSessionOptions(options);
}

static void close_session(Worker* worker) {
  api->ReleaseSession(worker->session);
  if (worker->planned != NULL) {
    check_em(em.destroy(worker->planned), "em_session_destroy");
  }
}

static void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) {
    fail(name, "the library does not export it");
  }
  return found;
}

static void load_edgemem(void) {
  void* library = dlopen(job.edgemem, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fail(job.edgemem, dlerror());
  }
  int32_t (*abi)(void) = symbol(library, "em_abi");
  if (abi() != EM_ABI) {
    fail(job.edgemem, "it has another version of the ABI");
  }
  em.last_error = symbol(library, "em_last_error");
  em.ort_error = symbol(library, "em_ort_error");
  em.totals = symbol(library, "em_totals_get");
  em.fail_after = symbol(library, "em_fail_after");
  em.allocate = symbol(library, "em_allocate");
  em.release = symbol(library, "em_free");
  em.read = symbol(library, "em_planfile_read");
  em.release_file = symbol(library, "em_planfile_release");
  em.create = symbol(library, "em_session_create");
  em.begin = symbol(library, "em_session_begin");
  em.end = symbol(library, "em_session_end");
  em.places = symbol(library, "em_session_places");
  em.destroy = symbol(library, "em_session_destroy");
}

static void load_runtime(void) {
  void* library = dlopen(job.ort, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fail(job.ort, dlerror());
  }
  const OrtApiBase* (*base)(void) = symbol(library, "OrtGetApiBase");
  api = base()->GetApi(ORT_API_VERSION);
  if (api == NULL) {
    fail(job.ort, "it has no API of this header's version");
  }
  fprintf(stderr, "ONNX Runtime %s\n", base()->GetVersionString());
  check(api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "run_model", &environment), "CreateEnv");
  check(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &host), "CreateCpuMemoryInfo");
  check(api->GetAllocatorWithDefaultOptions(&names_allocator), "GetAllocatorWithDefaultOptions");
}

static atomic_int is_over;

static void* keep_allocating(void* given) {
  (void)given;
  for (size_t size = 64; !atomic_load(&is_over); size = size % 1000000 + 4097) {
    em.release(em.allocate(size));
  }
  return NULL;
}

/* The child has one thread of the parent's; locks that the others held at the time must not stop it. */
static void run_in_child(Worker* worker) {
  pthread_t threads[ALLOCATING_THREADS];
  for (int i = 0; i < ALLOCATING_THREADS; i++) {
    if (pthread_create(&threads[i], NULL, keep_allocating, NULL) != 0) {
      fail("a thread", "cannot be made");
    }
  }
  usleep(10000);
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);
    worker->process = "child";
    make_runs(worker);
    _Exit(0);
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    fail("the child", "it did not end well");
  }
  atomic_store(&is_over, 1);
  for (int i = 0; i < ALLOCATING_THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
}

static int number_of(const char* text) {
  const long value = text == NULL ? 0 : strtol(text, NULL, 10);
  if (value < 1 || value > 64) {
    fail("a number", "1 to 64 are allowed");
  }
  return (int)value;
}

static void read_arguments(int count, char** given) {
  if (count < 5) {
    fail("usage", "run_model ORT MODEL RESULTS [OPTION...] INPUTS...");
  }
  job.ort = given[1];
  job.model = given[2];
  job.results = given[3];
  for (int i = 4; i < count; i++) {
    if (strcmp(given[i], "--edgemem") == 0) {
      job.edgemem = given[++i];
    } else if (strcmp(given[i], "--plan") == 0) {
      job.has_plan = 1;
    } else if (strcmp(given[i], "--poison") == 0) {
      job.poison = 1;
    } else if (strcmp(given[i], "--bind") == 0) {
      job.bind = 1;
    } else if (strcmp(given[i], "--fork") == 0) {
      job.forks = 1;
    } else if (strcmp(given[i], "--threads") == 0) {
      job.threads = number_of(given[++i]);
    } else if (strcmp(given[i], "--fail-after") == 0) {
      job.fail_after = number_of(given[++i]);
    } else if (strcmp(given[i], "--workers") == 0) {
      job.workers = number_of(given[++i]);
    } else if (job.runs == MOST_RUNS) {
      fail(given[i], "there are too many runs");
    } else {
      job.inputs[job.runs++] = given[i];
    }
  }
}

int main(int count, char** given) {
  read_arguments(count, given);
  load_runtime();
  if (job.edgemem != NULL) {
    load_edgemem();
  }
  Worker* workers = must(calloc((size_t)job.workers, sizeof *workers), "workers");
  pthread_t* threads = must(calloc((size_t)job.workers, sizeof *threads), "workers");
  for (int i = 0; i < job.workers; i++) {
    workers[i].number = i;
    workers[i].process = "parent";
    open_session(&workers[i]);
  }
  if (job.forks && job.edgemem != NULL) {
    run_in_child(&workers[0]);
  }
  for (int i = 0; i < job.workers; i++) {
    if (pthread_create(&threads[i], NULL, make_runs, &workers[i]) != 0) {
      fail("a thread", "cannot be made");
    }
  }
  for (int i = 0; i < job.workers; i++) {
    pthread_join(threads[i], NULL);
    close_session(&workers[i]);
  }
  free(workers);
  free(threads);
  api->ReleaseMemoryInfo(host);
  fflush(stdout);
  _Exit(0); /* glibc's and the shim's clean-up at exit is no part of the test */
}
