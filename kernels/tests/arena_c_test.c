/* A runtime written in C: records a run through the ABI, makes a plan of the record, and replays it. */
#include "tests/arena_c_test.h"

#include <string.h>

#include "replay/edgemem_arena.h"

enum { MOST = 16, ALIGNMENT = 64 };

#define EXPECT(condition) \
  do {                    \
    if (!(condition)) {   \
      return __LINE__;    \
    }                     \
  } while (0)

/* What a network does: four requests, of which three at most are alive at once. */
static int run_network(void) {
  unsigned char* a = em_allocate(100);
  unsigned char* b = em_allocate(200);
  unsigned char* c;
  unsigned char* d;
  EXPECT(a != NULL && b != NULL);
  memset(a, 1, 100);
  memset(b, 2, 200);
  em_free(a);
  c = em_allocate(90);
  d = em_allocate(64);
  EXPECT(c != NULL && d != NULL);
  memset(c, 3, 90);
  memset(d, 4, 64);
  EXPECT(b[0] == 2 && b[199] == 2 && c[89] == 3);
  em_free(b);
  em_free(c);
  em_free(d);
  return 0;
}

/* One place after the other: a plan without reuse. Gives the bytes that it needs. */
static int64_t place_all(const em_event* events, int64_t count, int64_t* codes, int64_t* offsets) {
  int64_t top = 0;
  for (int64_t k = 0; k < count; ++k) {
    if (events[k].size > 0) {
      codes[k] = events[k].size;
      offsets[events[k].request] = top;
      top += (events[k].size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    } else {
      codes[k] = -events[k].request - 1;
    }
  }
  return top;
}

int record_and_replay(void) {
  const em_event* events = NULL;
  int64_t codes[MOST];
  int64_t offsets[MOST];
  em_stats stats;
  EXPECT(em_abi() == EM_ABI);

  em_context* context = em_context_create(EM_HOST);
  EXPECT(context != NULL);
  EXPECT(em_begin_record(context, MOST) == EM_OK);
  int failed = run_network();
  EXPECT(em_end(context, &stats) == EM_OK && failed == 0);
  EXPECT(stats.failed == 0 && stats.requests == 4 && stats.misses == 4);
  const int64_t count = em_events(context, &events);
  EXPECT(count == 8 && events[2].size == 0 && events[2].request == 0);
  const int64_t size = place_all(events, count, codes, offsets);
  EXPECT(size == 128 + 256 + 128 + 64);

  em_plan* plan = em_plan_create(codes, count, offsets, stats.requests, size, ALIGNMENT);
  em_arena* arena = em_arena_create(size, 0);
  EXPECT(plan != NULL && arena != NULL && em_arena_size(arena) == size);
  EXPECT(em_begin_replay(context, plan, arena, EM_POISON | EM_RECORD) == EM_OK);
  EXPECT(em_begin_record(context, MOST) == EM_BUSY && em_last_error()[0] != '\0');
  failed = run_network();
  EXPECT(em_end(context, &stats) == EM_OK && failed == 0);
  EXPECT(stats.bail == -1 && stats.hits == 4 && stats.misses == 0 && stats.arena_top == size && stats.left == 0);
  EXPECT(em_events(context, &events) == count && events[0].size == 100 && events[7].request == 3);
  em_events_drop(context);
  EXPECT(em_events(context, &events) == 0);
  EXPECT(em_trim() >= 0);

  EXPECT(em_end(context, NULL) == EM_REFUSED);
  EXPECT(em_context_destroy(context) == EM_OK);
  em_plan_release(plan);
  em_arena_release(arena);
  return 0;
}
