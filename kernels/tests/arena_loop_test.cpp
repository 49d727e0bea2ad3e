// Loops through the C ABI: what is served from where, and what is counted and noted.
#include <cstdint>
#include <thread>
#include <vector>

#include "replay/edgemem_arena.h"
#include "tests/arena_loops.h"
#include "tests/check.h"
#include "tests/registry.h"

namespace {

const std::vector<em_slot> kSmall{SlotOf{100, 0}, SlotOf{200, 128}, SlotOf{90, 0}};

}  // namespace

TEST(requests_of_an_iteration_get_the_places_of_their_slots) {
  StartedLoop loop;
  const char* base = loop.replay(kSmall, 384);
  loop.begin();
  void* a = take(100);
  void* b = take(200);
  CHECK(a == base && b == base + 128);
  give(a);
  void* c = take(90);
  CHECK(c == base);
  give(b);
  give(c);
  loop.end();
  const em_loop_stats stats = loop.last();
  CHECK(stats.iterations == 1 && stats.requests == 3 && stats.hits == 3 && stats.arena_peak == 300);
  CHECK(stats.fallback_peak == 0 && em_arena_left(loop.arena()) == 0);
}

TEST(a_plan_is_followed_from_the_next_iteration_on) {
  StartedLoop loop;
  loop.begin();
  const char* base = loop.replay(kSmall, 384);
  void* a = take(100);
  CHECK(a != base);
  give(a);
  loop.end();
  a = take(100);  // outside of any iteration
  CHECK(a != base);
  give(a);
  loop.begin();
  a = take(100);
  CHECK(a == base);
  give(a);
  loop.end();
  CHECK(loop.total().requests == 2 && loop.total().hits == 1 && loop.total().misses == 1);
}

TEST(a_place_in_use_is_not_given) {
  StartedLoop loop;
  const char* base = loop.replay({SlotOf{100, 0}, SlotOf{64, 64}, SlotOf{64, 128}}, 192);
  loop.begin();
  void* a = take(100);
  void* b = take(64);  // would overlap the last 36 bytes of a
  CHECK(a == base && b != base + 64);
  void* c = take(64);
  CHECK(c == base + 128);
  give(a);
  give(b);
  give(c);
  loop.end();
  const em_loop_stats stats = loop.last();
  CHECK(stats.hits == 2 && stats.occupied == 1 && stats.missed_bytes == 64 && stats.fallback_peak == 64);
}

TEST(the_other_place_serves_while_the_first_is_in_use) {
  StartedLoop loop;
  const char* base = loop.replay({SlotOf{100, 0, 128}}, 256);
  void* before = nullptr;
  for (int k = 0; k < 5; ++k) {  // each block lives until the next iteration has made its own
    loop.begin();
    void* now = take(100);
    CHECK(now == base + (k % 2 == 0 ? 0 : 128));
    give(before);
    before = now;
    loop.end();
    CHECK(loop.last().hits == 1);
  }
  give(before);
}

TEST(sizes_that_differ_take_the_next_slot_of_their_size_or_a_larger_one) {
  StartedLoop loop;
  const char* base = loop.replay({SlotOf{100, 0}, SlotOf{200, 128}, SlotOf{300, 384}}, 704);
  loop.begin();
  void* b = take(200);  // the first slot is passed over
  CHECK(b == base + 128);
  void* c = take(250);  // smaller than the slot's 300
  CHECK(c == base + 384);
  give(take(1));  // no slot is left
  loop.end();
  CHECK(loop.last().hits == 2 && loop.last().misses == 1 && loop.last().missed_bytes == 1);
  loop.begin();
  void* large = take(101);  // larger than the first slot, and no slot has its size
  give(b);
  b = take(200);
  CHECK(b == base + 128);
  loop.end();
  CHECK(loop.last().hits == 1 && loop.last().misses == 1);
  give(large);
  give(b);
  give(c);
}

TEST(one_request_more_or_in_another_place_does_not_throw_the_rest_out_of_step) {
  StartedLoop loop;
  const std::vector<em_slot> slots{SlotOf{100, 0}, SlotOf{200, 128}, SlotOf{300, 384}, SlotOf{200, 704}};
  const char* base = loop.replay(slots, 904);
  const auto places = [&](const std::vector<int64_t>& sizes) {
    std::vector<int64_t> found;
    std::vector<void*> blocks;
    loop.begin();
    for (const int64_t size : sizes) {
      blocks.push_back(take(size));
      const auto offset = static_cast<const char*>(blocks.back()) - base;
      found.push_back(offset >= 0 && offset < 904 ? offset : -1);
    }
    loop.end();
    for (void* block : blocks) {
      give(block);
    }
    return found;
  };
  using Places = std::vector<int64_t>;
  CHECK((places({100, 400, 200, 300, 200}) == Places{0, -1, 128, 384, 704}));  // one more, larger
  CHECK((places({100, 20, 200, 300, 200}) == Places{0, 128, -1, 384, 704}));   // one more, smaller
  CHECK((places({200, 100, 300, 200}) == Places{128, 0, 384, 704}));           // the first two exchanged
  CHECK((places({100, 200, 200, 300}) == Places{0, 128, 704, 384}));           // the last two
  CHECK((places({100, 300, 200}) == Places{0, 384, 704}));                     // one less
  CHECK((places({100, 250, 300, 200, 100}) == Places{0, -1, 384, 704, -1}));   // one replaced
}

TEST(a_section_begins_at_its_own_slots) {
  StartedLoop loop;
  const std::vector<em_slot> slots{SlotOf{64, 0, -1, 0, 7}, SlotOf{64, 64, -1, 0, 7}, SlotOf{64, 128, -1, 0, 8},
                                   SlotOf{64, 192, -1, 0, 7}};
  const char* base = loop.replay(slots, 256);
  loop.begin();
  void* outside = take(64);  // in no section
  CHECK(outside < base || outside >= base + 256);
  loop.enter(8);
  void* c = take(64);
  CHECK(c == base + 128);
  void* more = take(64);  // section 8 has one slot
  CHECK(more < base || more >= base + 256);
  loop.enter(7);
  void* d = take(64);
  CHECK(d == base + 192);  // searched on from where the lane is
  loop.enter(8);
  loop.enter(7);
  void* a = take(64);
  CHECK(a == base);  // none follows, so from the beginning
  loop.enter(5);
  loop.enter(7);
  void* b = take(64);
  CHECK(b == base + 64);  // goes on in the middle of the section
  loop.enter(9);
  void* unknown = take(64);
  CHECK(unknown < base || unknown >= base + 256);
  loop.end();
  CHECK(loop.last().hits == 4 && loop.last().misses == 3);
  for (void* block : {a, b, c, d, outside, more, unknown}) {
    give(block);
  }
}

TEST(dynamic_slots_serve_any_size_from_what_is_free_of_their_space) {
  StartedLoop loop;
  const std::vector<em_interval> spaces{{0, 0, 128}, {0, 256, 640}, {1, 640, 704}};
  const std::vector<em_slot> slots{SlotOf{64, 384, -1, 0, 1}, SlotOf{10, -1, -1, 0, 2, 0}, SlotOf{10, -1, -1, 0, 2, 0},
                                   SlotOf{10, -1, -1, 0, 3, 1}};
  const char* base = loop.replay(slots, 704, spaces);
  loop.begin();
  loop.enter(1);
  void* fixed = take(64);
  CHECK(fixed == base + 384);
  loop.enter(2);
  void* a = take(100);  // the gaps are 128, 128 and 192 bytes: the lowest of the smallest
  void* b = take(120);
  CHECK(a == base && b == base + 256);
  void* c = take(150);  // one more than was planned
  CHECK(c == base + 448);
  void* d = take(65);  // what is left of the gaps is smaller
  CHECK(d < base || d >= base + 704);
  loop.enter(3);
  void* e = take(60);
  CHECK(e == base + 640);
  loop.end();
  CHECK(loop.last().hits == 1 && loop.last().dynamic_hits == 4 && loop.last().dynamic_misses == 1);
  for (void* block : {fixed, a, b, c, d, e}) {
    give(block);
  }
}

TEST(what_is_planned_for_the_fallback_is_no_miss) {
  StartedLoop loop;
  loop.replay({SlotOf{100, -1}}, 64);
  loop.begin();
  give(take(100));
  loop.end();
  CHECK(loop.last().unplanned == 1 && loop.last().misses == 0 && loop.last().missed_bytes == 0);
}

TEST(a_paused_loop_neither_matches_nor_counts) {
  StartedLoop loop;
  const char* base = loop.replay(kSmall, 384);
  CHECK(em_loop_record(loop.get(), kMany) == EM_OK);
  loop.begin();
  void* a = take(100);
  CHECK(em_loop_pause(loop.get()) == EM_OK && em_loop_pause(loop.get()) == EM_OK);
  void* x = take(200);
  CHECK(x != base + 128);
  give(a);
  CHECK(em_loop_resume(loop.get()) == EM_OK);
  give(take(90));
  CHECK(em_loop_resume(loop.get()) == EM_OK && em_loop_resume(loop.get()) == EM_REFUSED);
  void* b = take(200);
  CHECK(b == base + 128);
  give(x);
  give(b);
  loop.end();
  CHECK(loop.last().requests == 2 && loop.last().hits == 2);
  const std::vector<em_loop_event> events = loop.take_events();
  CHECK(events.size() == 4 && events[0].size == 100 && events[1].request == 0 && events[2].size == 200);
  CHECK(events[3].size == 0 && events[3].request == 1);
}

TEST(a_record_leaves_out_what_was_made_before_it) {
  StartedLoop loop;
  CHECK(em_loop_record(loop.get(), kMany) == EM_OK);
  void* before = take(10);
  CHECK(em_loop_record(loop.get(), kMany) == EM_OK);
  loop.begin();
  void* a = take(20);
  loop.enter(3);
  void* b = take(30);
  give(before);
  give(a);
  loop.end();
  loop.begin();
  give(b);
  loop.end();
  const std::vector<em_loop_event> events = loop.take_events();
  CHECK(events.size() == 4);
  CHECK(events[0].size == 20 && events[0].request == 0 && events[0].section == -1 && events[0].iteration == 0);
  CHECK(events[1].size == 30 && events[1].request == 1 && events[1].section == 3 && events[1].thread == 0);
  CHECK(events[2].size == 0 && events[2].request == 0 && events[2].iteration == 0);
  CHECK(events[3].request == 1 && events[3].iteration == 1 && events[3].section == -1);
  CHECK(loop.take_events().empty());
  give(take(5));  // the record has ended
  CHECK(loop.take_events().empty());
}

TEST(an_iteration_that_is_on_when_the_record_begins_is_none_of_it) {
  StartedLoop loop;
  loop.begin();
  CHECK(em_loop_record(loop.get(), kMany) == EM_OK);
  give(take(10));
  loop.end();
  loop.begin();
  give(take(20));
  loop.end();
  const std::vector<em_loop_event> events = loop.take_events();
  CHECK(events.size() == 4 && events[0].iteration == -1 && events[3].iteration == 0);
}

TEST(events_beyond_the_record_are_counted) {
  StartedLoop loop;
  CHECK(em_loop_record(loop.get(), 2) == EM_OK);
  void* a = take(10);
  void* b = take(20);
  void* c = take(30);
  give(c);  // not known to the record
  give(b);
  give(a);
  CHECK(loop.total().unnoted == 3 && loop.take_events().size() == 2);
}

TEST(the_thread_that_begins_has_a_lane_before_it_asks) {
  StartedLoop loop;
  const char* base = loop.replay({SlotOf{64, 0, -1, 0}}, 64);
  loop.begin();
  std::thread([base] {
    void* other = take(64);
    CHECK(other != base);
    give(other);
  }).join();
  void* a = take(64);
  CHECK(a == base);
  give(a);
  loop.end();
}

TEST(threads_that_ask_outside_of_iterations_take_no_room_from_those_within) {
  StartedLoop loop;
  const char* base = loop.replay({SlotOf{64, 0, -1, 1}}, 64);
  for (int k = 0; k < 5000; ++k) {
    std::thread([] { give(take(8)); }).join();
  }
  loop.begin();
  give(take(8));
  void* block = nullptr;
  std::thread([&block] { block = take(64); }).join();
  CHECK(block == base);
  give(block);
  loop.end();
}

TEST(lanes_are_threads_in_the_order_of_their_first_requests_in_iterations) {
  StartedLoop loop;
  const char* base =
      loop.replay({SlotOf{64, 0, -1, 0}, SlotOf{64, 64, -1, 1}, SlotOf{64, 128, -1, 0}, SlotOf{64, 192, -1, 1}}, 256);
  std::thread([] { give(take(1)); }).join();  // outside of iterations
  loop.begin();
  void* a = take(64);
  void* b = nullptr;
  void* d = nullptr;
  std::thread([&] {
    b = take(64);
    d = take(64);
  }).join();
  void* c = take(64);
  CHECK(a == base && b == base + 64 && c == base + 128 && d == base + 192);
  for (void* block : {a, b, c, d}) {
    give(block);
  }
  std::thread([] { give(take(64)); }).join();  // a third lane, which the plan does not have
  loop.end();
  CHECK(loop.last().hits == 4 && loop.last().misses == 1);
}
