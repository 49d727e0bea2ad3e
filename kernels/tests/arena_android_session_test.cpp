// Plans of recorded runs, and sessions: which plan each run follows, and what is reported of it.
#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "android/edgemem_android.h"
#include "fuzz/plan_files.h"
#include "tests/check.h"
#include "tests/registry.h"

namespace {

using plan_files::Plan;
using plan_files::Table;

// A run: n > 0 asks for n bytes, -k - 1 frees request k. What is not freed is given back at the end, outside of the
// run.
using Codes = std::vector<int64_t>;

struct Blocks {
  std::vector<void*> all;
  ~Blocks() { give(); }
  void give() {
    for (void*& block : all) em_free(std::exchange(block, nullptr));
  }
};

// Fills each block with its number, and checks that the number is still there when it is freed.
void run_codes(const Codes& codes, Blocks& blocks) {
  std::vector<std::size_t> sizes;
  for (const int64_t code : codes) {
    if (code > 0) {
      blocks.all.push_back(em_allocate(static_cast<std::size_t>(code)));
      sizes.push_back(static_cast<std::size_t>(code));
      CHECK(blocks.all.back() != nullptr);
      std::memset(blocks.all.back(), static_cast<int>(sizes.size()), sizes.back());
      continue;
    }
    const auto freed = static_cast<std::size_t>(-(code + 1));
    const auto* block = static_cast<const unsigned char*>(blocks.all[freed]);
    for (std::size_t k = 0; k < sizes[freed]; ++k) CHECK(block[k] == static_cast<unsigned char>(freed + 1));
    em_free(std::exchange(blocks.all[freed], nullptr));
  }
}

struct TestSession {
  em_session* held;
  Blocks blocks;

  explicit TestSession(const em_planfile* file = nullptr, int32_t flags = 0) : held(em_session_create(file, flags)) {
    CHECK(held != nullptr);
  }
  ~TestSession() {
    blocks.give();
    CHECK(em_session_destroy(held) == EM_OK);
  }
  TestSession(const TestSession&) = delete;
  TestSession& operator=(const TestSession&) = delete;

  em_run run(const Codes& codes) {
    blocks.give();
    blocks.all.clear();
    return run_on(codes);
  }
  // Without giving back what the run before left.
  em_run run_on(const Codes& codes) {
    Blocks now;
    CHECK(em_session_begin(held) == EM_OK);
    run_codes(codes, now);
    em_run out;
    CHECK(em_session_end(held, &out) == EM_OK);
    for (void*& block : now.all) {
      if (block != nullptr) blocks.all.push_back(std::exchange(block, nullptr));
    }
    return out;
  }
};

em_planfile* read(const plan_files::Octets& bytes) {
  em_planfile* file = em_planfile_read(bytes.data(), static_cast<int64_t>(bytes.size()), EM_FORM_PLANFILE);
  CHECK(file != nullptr);
  return file;
}

const Codes kSmall{100, 200, -1, 90, -2, -3};

em_context* recorded(const Codes& codes, Blocks& blocks, int64_t most = 1000) {
  em_context* context = em_context_create(EM_HOST);
  CHECK(em_begin_record(context, most) == EM_OK);
  run_codes(codes, blocks);
  CHECK(em_end(context, nullptr) == EM_OK);
  return context;
}

}  // namespace

TEST(planned_record_is_replayed) {
  Blocks blocks;
  em_context* context = recorded({100, 200, 50, -1, 90, -2, -4}, blocks);  // request 2 outlives the run
  em_planned planned;
  em_plan* plan = em_plan_record(context, 64, &planned);
  CHECK(plan != nullptr);
  // By size, and by breadth, 200 bytes come first, and 100 behind their 256: 356.
  CHECK(planned.arena == 328 && planned.lower_bound == 328 && planned.naive == 128 + 256 + 90);
  CHECK(planned.requests == 3 && std::string(planned.strategy) == "greedy_in_order");
  em_arena* arena = em_arena_create(planned.arena, 0);
  CHECK(em_begin_replay(context, plan, arena, EM_POISON) == EM_OK);
  Blocks again;
  run_codes({100, 200, 50, -1, 90, -2, -4}, again);
  em_stats stats;
  CHECK(em_end(context, &stats) == EM_OK);
  CHECK(stats.hits == 3 && stats.misses == 1 && stats.bail == -1 && stats.arena_top == planned.arena);
  CHECK(em_context_destroy(context) == EM_OK);
  em_plan_release(plan);
  em_arena_release(arena);
}

TEST(planned_record_refusals) {
  CHECK(em_plan_record(nullptr, 64, nullptr) == nullptr);
  Blocks blocks;
  em_context* context = recorded(kSmall, blocks);
  for (const int64_t alignment : {0, -1, 3, 128}) CHECK(em_plan_record(context, alignment, nullptr) == nullptr);
  for (const int64_t alignment : {1, 2, 32, 64}) {
    em_planned planned;
    em_plan* plan = em_plan_record(context, alignment, &planned);
    CHECK(plan != nullptr && planned.arena >= planned.lower_bound);
    em_plan_release(plan);
  }
  CHECK(em_begin_record(context, 10) == EM_OK);
  CHECK(em_plan_record(context, 64, nullptr) == nullptr && std::strstr(em_last_error(), "active") != nullptr);
  CHECK(em_end(context, nullptr) == EM_OK);
  em_planned planned;
  em_plan* plan = em_plan_record(context, 64, &planned);  // of nothing
  CHECK(plan != nullptr && planned.arena == 0 && planned.requests == 0 && planned.naive == 0);
  em_plan_release(plan);
  CHECK(em_context_destroy(context) == EM_OK);
  Blocks others;
  context = recorded(kSmall, others, 4);  // cut short: the plan is of the part that is there
  plan = em_plan_record(context, 64, &planned);
  CHECK(plan != nullptr && planned.requests == 1 && planned.arena == 100);
  em_plan_release(plan);
  CHECK(em_context_destroy(context) == EM_OK);
}

TEST(session_without_a_file_plans_its_first_run) {
  TestSession session;
  CHECK(em_session_places(session.held, 0, nullptr) == 0);
  em_run run = session.run(kSmall);
  CHECK(run.source == EM_RAN_RECORDED && run.is_complete == 0 && run.planned == 0 && run.arena == 0);
  CHECK(run.requests == 3 && run.misses == 3 && run.heap_peak == 300 && run.replans == 1);
  for (int k = 0; k < 3; ++k) {
    run = session.run(kSmall);
    CHECK(run.source == EM_RAN_MADE_HERE && run.is_complete == 1 && run.hits == 3 && run.misses == 0);
    CHECK(run.planned == run.measured && run.measured == run.lower_bound && run.arena >= run.planned);
    CHECK(run.naive == 128 + 256 + 90 && run.heap_peak == 0 && run.replans == 1);
  }
  em_record places[3];
  CHECK(em_session_places(session.held, 2, places) == 3);
  CHECK(std::string(places[1].name) == "request 1" && places[1].size == 200 && places[1].first == 1);
  CHECK(places[1].last == 3);
}

TEST(session_follows_the_file) {
  em_planfile* file = read(plan_files::file_of({plan_files::recording(plan_files::small_recording(), 6)}));
  TestSession session(file, EM_SESSION_POISON | EM_SESSION_GUARD_PAGE);
  em_planfile_release(file);
  for (int k = 0; k < 3; ++k) {
    const em_run run = session.run(kSmall);
    CHECK(run.source == EM_RAN_FILE && run.is_complete == 1 && run.planned == 328 && run.measured == 328);
    CHECK(run.replans == 0 && run.naive == 1000);
  }
  const em_run less = session.run({50, 10, -1, 90, -2, -3});  // smaller requests fit
  CHECK(less.source == EM_RAN_FILE && less.is_complete == 1 && less.replans == 0);
  em_record places[3];
  CHECK(em_session_places(session.held, 3, places) == 3 && places[1].offset == 128);
}

TEST(session_leaves_a_plan_that_does_not_fit) {
  em_planfile* file = read(plan_files::file_of({plan_files::recording(plan_files::small_recording(), 6)}));
  TestSession session(file);
  em_planfile_release(file);
  const Codes other{300, 10, -1, 20, 5, -2, -3, -4};
  em_run run = session.run(other);
  CHECK(run.source == EM_RAN_FILE && run.is_complete == 0 && run.misses > 0 && run.replans == 1);
  run = session.run(other);
  CHECK(run.source == EM_RAN_MADE_HERE && run.is_complete == 1 && run.measured == run.planned && run.replans == 1);
}

TEST(session_takes_the_recording_that_fits) {
  const Plan larger{{"request 0", "request 1"}, {0, 1}, {1, 2}, {500, 100}, {0, 512}, {0, 0}, 612};
  const Plan smaller{{"request 0", "request 1"}, {0, 1}, {1, 2}, {400, 100}, {0, 448}, {0, 0}, 548};
  em_planfile* file = read(plan_files::file_of({plan_files::recording(plan_files::small_recording(), 6),
                                                plan_files::recording(smaller, 4), plan_files::recording(larger, 4)}));
  TestSession session(file);
  em_planfile_release(file);
  CHECK(session.run({500, 100, -1, -2}).source == EM_RAN_FILE);
  const em_run run = session.run({500, 100, -1, -2});
  CHECK(run.source == EM_RAN_FILE && run.planned == 612 && run.is_complete == 1 && run.replans == 1);
}

TEST(session_that_grows_keeps_room_for_what_was) {
  TestSession session;
  session.run({1000, 100, -1, -2});
  CHECK(session.run({100, 1000, -1, -2}).is_complete == 0);
  for (const Codes& codes : {Codes{1000, 100, -1, -2}, Codes{100, 1000, -1, -2}, Codes{1000, 1000, -1, -2}}) {
    const em_run run = session.run(codes);
    CHECK(run.source == EM_RAN_MADE_HERE && run.is_complete == 1 && run.planned == 2024 && run.replans == 2);
  }
}

TEST(session_stops_planning_what_never_comes_again) {
  TestSession session;
  for (int k = 1; k <= 20; ++k) {  // k requests of 64 k bytes
    Codes codes(static_cast<std::size_t>(k), 64 * k);
    for (int i = 0; i < k; ++i) codes.push_back(-i - 1);
    const em_run run = session.run(codes);
    CHECK(run.hits + run.misses == k && run.is_complete == 0 && run.replans == std::min(k, int{EM_MOST_REPLANS}));
  }
}

TEST(session_plans_no_more_often_than_it_pays) {
  TestSession session;
  int64_t complete = 0;
  for (int k = 0; k < 100; ++k) {
    const em_run run = session.run(k % 2 == 0 ? Codes{1000, -1, 100, -2} : Codes{100, 1000, -1, -2});
    complete += run.is_complete;
    CHECK(run.hits + run.misses == 2 && run.replans <= EM_MOST_REPLANS + complete);
  }
  CHECK(complete > 20);
}

TEST(session_whose_plan_fits_again_may_plan_again) {
  TestSession session;
  for (int k = 1; k <= 3 * EM_MOST_REPLANS; ++k) {
    const Codes codes(static_cast<std::size_t>(k), 64);
    Codes freed = codes;
    for (int i = 0; i < k; ++i) freed.push_back(-i - 1);
    session.run(freed);
    const em_run run = session.run(freed);
    CHECK(run.is_complete == 1 && run.replans == k);
  }
}

TEST(session_results_that_outlive_runs) {
  TestSession session;
  const Codes codes{100, 200, -1};  // request 1 is a result
  session.run(codes);
  const em_run run = session.run(codes);
  CHECK(run.hits == 1 && run.misses == 1 && run.is_complete == 0 && run.replans == 1 && run.planned == 100);
  CHECK(session.run(codes).replans == 1);  // no plan would be better

  const Plan placed{{"request 0", "request 1"}, {0, 1}, {1, 2}, {100, 200}, {0, 128}, {0, 0}, 328};
  em_planfile* file = read(plan_files::file_of({plan_files::recording(placed, 3)}));  // request 1 is alive to the end
  TestSession other(file);
  em_planfile_release(file);
  std::set<void*> results;
  for (int k = 0; k < 3; ++k) {
    const em_run kept = other.run_on(codes);
    CHECK(kept.is_complete == 1 && kept.source == EM_RAN_FILE && kept.replans == 0);
    results.insert(other.blocks.all.back());
  }
  CHECK(results.size() == 3);  // each lies in an arena of its own
  for (void* result : other.blocks.all) {
    for (int k = 0; k < 200; ++k) CHECK(static_cast<const unsigned char*>(result)[k] == 2);
  }
}

TEST(session_refusals) {
  CHECK(em_session_begin(nullptr) == EM_REFUSED && em_session_end(nullptr, nullptr) == EM_REFUSED);
  CHECK(em_session_destroy(nullptr) == EM_OK && em_session_places(nullptr, 0, nullptr) == 0);
  CHECK(em_session_create(nullptr, 2) == nullptr);
  TestSession session;
  CHECK(em_session_end(session.held, nullptr) == EM_REFUSED);
  CHECK(em_session_begin(session.held) == EM_OK);
  CHECK(em_session_begin(session.held) == EM_BUSY && em_session_destroy(session.held) == EM_BUSY);
  TestSession other;
  CHECK(em_session_begin(other.held) == EM_BUSY);
  std::thread([&] {
    CHECK(em_session_end(session.held, nullptr) == EM_REFUSED);
    CHECK(em_session_begin(other.held) == EM_OK && em_session_end(other.held, nullptr) == EM_OK);
  }).join();
  CHECK(em_session_end(session.held, nullptr) == EM_OK);
  CHECK(session.run(kSmall).replans == 1);  // the run before asked for nothing, so it gave no plan
  CHECK(session.run(kSmall).is_complete == 1);
}

TEST(session_without_memory_for_the_arena_records_its_run) {
  TestSession session;
  session.run(kSmall);
  em_fail_after(0);
  CHECK(em_session_begin(session.held) == EM_OK);
  em_fail_after(-1);
  CHECK(std::strstr(em_last_error(), "no memory for an arena of 328 bytes") != nullptr);
  Blocks blocks;
  run_codes(kSmall, blocks);
  em_run run;
  CHECK(em_session_end(session.held, &run) == EM_OK);
  CHECK(run.source == EM_RAN_RECORDED && run.planned == 0 && run.hits == 0 && run.misses == 3 && run.replans == 2);
  CHECK(session.run(kSmall).is_complete == 1);
}

TEST(session_drops_a_plan_of_more_memory_than_there_is) {
  Plan plan = plan_files::small_recording();
  plan.arena = int64_t{1} << 50;
  em_planfile* file = read(plan_files::file_of({plan_files::recording(plan, 6)}));
  TestSession session(file);
  em_planfile_release(file);
  CHECK(session.run(kSmall).source == EM_RAN_RECORDED);
  CHECK(std::strstr(em_last_error(), "no memory for an arena of 1125899906842624 bytes") != nullptr);
  for (int k = 0; k < 3; ++k) {
    const em_run run = session.run(kSmall);
    CHECK(run.source == EM_RAN_MADE_HERE && run.is_complete == 1 && run.planned == 328 && run.replans == 1);
  }
}

TEST(tflite_place_refusals) {
  int anything = 0;
  alignas(64) unsigned char memory[512];
  const Plan graph{{"a", "b", "c"}, {0, 1, 2}, {1, 2, 2}, {100, 60, 30}, {0, 128, 0}, {1, 0, 4}, 188};
  em_planfile* file = read(plan_files::graph_file(plan_files::plan_set(graph)));
  CHECK(em_tflite_place(nullptr, nullptr, file, memory, 512) == EM_REFUSED);
  CHECK(em_tflite_place(nullptr, &anything, nullptr, memory, 512) == EM_REFUSED);
  CHECK(em_tflite_place(nullptr, &anything, file, nullptr, 512) == EM_REFUSED);
  CHECK(em_tflite_place(nullptr, &anything, file, memory, 187) == EM_REFUSED);
  CHECK(em_tflite_place(nullptr, &anything, file, memory + 16, 400) == EM_REFUSED);
  CHECK(em_tflite_place(nullptr, &anything, file, memory, 512) == EM_REFUSED);
  CHECK(std::strstr(em_last_error(), "does not export TfLite") != nullptr);
  em_planfile_release(file);
  file = read(plan_files::file_of({plan_files::recording(plan_files::small_recording(), 6)}));
  CHECK(em_tflite_place(nullptr, &anything, file, memory, 512) == EM_REFUSED);
  CHECK(std::strstr(em_last_error(), "no plan of a graph") != nullptr);
  em_planfile_release(file);
}
