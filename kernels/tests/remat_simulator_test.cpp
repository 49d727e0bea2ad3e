#include "tests/remat_simulator.h"

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

#include "tests/check.h"
#include "tests/registry.h"

namespace {

using edgemem::EventKind;
using edgemem::OperatorLog;
using edgemem::RematEnd;
using edgemem::RematRun;
using edgemem::RematStep;
using edgemem::remat::Fit;
using edgemem::remat::Heuristic;
using edgemem::remat::Rules;
using edgemem::remat::Search;
using Values = std::vector<std::int64_t>;

constexpr Rules kDtr{Heuristic::kDtr, Search::kOneByOne, Fit::kLeftmost, false, false, false, false};
constexpr Rules kCoop{};

// The log of a program as it is written down.
struct Program {
  Values cost, reads_offsets{0}, reads, writes_offsets{0}, writes, takes, size, event_kind, event_index;

  void event(EventKind kind, std::int64_t index) {
    event_kind.push_back(static_cast<std::int64_t>(kind));
    event_index.push_back(index);
  }
  std::int64_t value(std::int64_t bytes) {
    size.push_back(bytes);
    return static_cast<std::int64_t>(size.size()) - 1;
  }
  std::int64_t constant(std::int64_t bytes) {
    event(EventKind::kConstant, value(bytes));
    return event_index.back();
  }
  // The first of the values that it writes.
  std::int64_t call(std::int64_t time, const Values& read, const Values& bytes, std::int64_t taken = -1) {
    event(EventKind::kCall, static_cast<std::int64_t>(cost.size()));
    cost.push_back(time);
    takes.push_back(taken);
    reads.insert(reads.end(), read.begin(), read.end());
    reads_offsets.push_back(static_cast<std::int64_t>(reads.size()));
    const auto first = static_cast<std::int64_t>(size.size());
    for (const std::int64_t count : bytes) writes.push_back(value(count));
    writes_offsets.push_back(static_cast<std::int64_t>(writes.size()));
    return first;
  }
  void let_go(std::int64_t gone) { event(EventKind::kLetGo, gone); }

  OperatorLog log() const {
    return {cost, reads_offsets, reads, writes_offsets, writes, takes, size, event_kind, event_index};
  }
  RematRun run(std::int64_t budget, const Rules& rules, double limit = 10, bool with_history = false) const {
    return edgemem::simulate_remat(log(), budget, 1, rules, limit, with_history);
  }
};

// Forward over a chain, then backward: each gradient reads the activation of its layer.
Program network(int layers) {
  Program program;
  Values activations{program.constant(10)};
  for (int i = 0; i < layers; ++i) activations.push_back(program.call(5, {activations.back()}, {10}));
  std::int64_t gradient = program.call(5, {activations.back()}, {10});
  for (int i = layers; i-- > 0;) {
    program.let_go(activations.back());
    activations.pop_back();
    const std::int64_t next = program.call(5, {gradient, activations.back()}, {10});
    program.let_go(gradient);
    gradient = next;
  }
  return program;
}

}  // namespace

TEST(dense_calls_are_expensive) {
  edgemem::CallDensity density;
  CHECK(density.is_expensive(10, 10));   // as dense as all so far
  CHECK(!density.is_expensive(1, 10));   // 0.1 < 11 / 20
  CHECK(density.is_expensive(10, 10));   // 1 >= 21 / 30
  CHECK(!density.is_expensive(100, 0));  // takes no memory
}

TEST(remat_simulator_evicts_nothing_with_memory_enough) {
  const RematRun run = network(8).run(1000, kCoop);
  CHECK(run.ended == RematEnd::kDone && run.recomputed_calls == 0 && run.counts.evictions == 0);
  CHECK(run.counts.peak == 100);  // the input, eight activations, a gradient
  CHECK(network(8).run(100, kDtr).counts.evictions == 0);
  CHECK(network(8).run(99, kDtr).counts.evictions > 0);
}

TEST(remat_simulator_recomputes_what_the_budget_evicts) {
  for (const Rules& rules : {kDtr, kCoop}) {
    const RematRun run = network(8).run(60, rules, 10, true);
    CHECK(run.ended == RematEnd::kDone && run.counts.peak <= 60);
    CHECK(run.recomputed_cost == 5 * run.recomputed_calls && run.recomputed_calls >= 4);
    std::int64_t reruns = 0;
    for (std::size_t i = 0; i < run.history.size(); i += 3) {
      reruns += run.history[i] == static_cast<std::int64_t>(RematStep::kRerun);
    }
    CHECK(reruns == run.recomputed_calls);
  }
}

TEST(remat_simulator_says_when_memory_does_not_suffice) {
  // A gradient, the one before it and an activation, beside the input.
  const RematRun run = network(8).run(39, kCoop);
  CHECK(run.ended == RematEnd::kOutOfMemory && run.short_of == 10);
  CHECK(run.event < static_cast<std::int64_t>(network(8).event_kind.size()));
}

TEST(remat_simulator_stops_when_it_only_recomputes) {
  const RematRun enough = network(40).run(60, kDtr, 100);
  CHECK(enough.ended == RematEnd::kDone);
  const RematRun stopped = network(40).run(60, kDtr, 0.5);
  CHECK(stopped.ended == RematEnd::kThrashing && enough.recomputed_cost > stopped.recomputed_cost);
}

TEST(remat_simulator_recomputes_a_long_chain_without_recursion) {
  Program program;
  const std::int64_t start = program.constant(1);
  std::int64_t last = start;
  constexpr int kCalls = 100'000;
  for (int i = 0; i < kCalls; ++i) {
    const std::int64_t next = program.call(1, {last}, {1});
    if (last != start) program.let_go(last);
    last = next;
  }
  // All but this one are gone; to make room for a large one, it goes too, and is needed again.
  const std::int64_t large = program.call(1, {start}, {9});
  program.let_go(large);
  program.call(1, {last}, {1});
  const RematRun run = program.run(10, kCoop);
  CHECK(run.ended == RematEnd::kDone && run.recomputed_calls == kCalls);
  // What was made again stays: all but ten of its bytes were evicted to make room.
  CHECK(run.counts.evictions >= kCalls - 10);
}

TEST(remat_simulator_needs_what_the_program_holds_at_its_end) {
  Program program;
  const std::int64_t start = program.constant(1);
  program.call(7, {start}, {6});
  program.call(1, {start}, {6});
  CHECK(program.run(12, kCoop).ended == RematEnd::kOutOfMemory);
  program.let_go(2);
  const RematRun run = program.run(12, kCoop);
  CHECK(run.ended == RematEnd::kDone && run.recomputed_cost == 7);
}

TEST(remat_simulator_writes_in_place_or_copies) {
  Program program;
  const std::int64_t start = program.constant(2);
  const std::int64_t before = program.call(3, {start}, {10});
  const std::int64_t seen = program.call(4, {before}, {1});
  program.call(5, {before}, {10}, before);
  program.let_go(seen);
  CHECK(program.run(100, kCoop).counts.peak == 13 && program.run(100, kDtr).counts.peak == 23);
  CHECK(program.run(13, kCoop).recomputed_calls == 0);
}

TEST(remat_simulator_recomputes_the_old_version_elsewhere) {
  Program program;
  const std::int64_t start = program.constant(2);
  const std::int64_t before = program.call(3, {start}, {10});
  const std::int64_t seen = program.call(4, {before}, {20});
  program.call(5, {before}, {10}, before);                    // in the memory of `before`
  const std::int64_t other = program.call(1, {start}, {30});  // evicts `seen`
  program.let_go(other);
  program.call(1, {seen}, {1});  // which needs the old version
  const RematRun run = program.run(50, Rules{.partition = false}, 10, true);
  CHECK(run.ended == RematEnd::kDone && run.recomputed_cost >= 3 + 4);
}

TEST(remat_simulator_secures_what_needs_a_parameter_before_its_update) {
  for (const std::int64_t budget : {100, 46, 45}) {
    Program program;
    const std::int64_t weight = program.constant(10);
    const std::int64_t kept = program.call(3, {weight}, {10});
    const std::int64_t large = program.call(1, {weight}, {25});
    program.let_go(large);
    program.call(1, {weight}, {10}, weight);
    const RematRun run = program.run(budget, kCoop, 10, true);
    CHECK(run.ended == RematEnd::kDone);
    CHECK(run.counts.peak == 45 && run.recomputed_calls == 0);
    (void)kept;
  }
  // `kept` is evicted for `large`; it is made again before the weight changes.
  Program program;
  const std::int64_t weight = program.constant(10);
  program.call(3, {weight}, {10});
  const std::int64_t large = program.call(1, {weight}, {25});
  program.let_go(large);
  program.call(1, {weight}, {10}, weight);
  const RematRun run = program.run(40, kCoop, 10, true);
  CHECK(run.ended == RematEnd::kDone && run.recomputed_cost == 3);
  const auto step = [&](std::size_t i) { return static_cast<RematStep>(run.history[i]); };
  const std::size_t rows = run.history.size();
  CHECK(step(rows - 3) == RematStep::kRun && step(rows - 6) == RematStep::kTakeOver);
  CHECK(step(rows - 9) == RematStep::kRerun);
}

TEST(remat_simulator_runs_calls_without_results) {
  Program program;
  const std::int64_t start = program.constant(5);
  const std::int64_t made = program.call(3, {start}, {5});
  const std::int64_t large = program.call(1, {start}, {15});
  program.let_go(large);
  program.call(2, {made}, {});
  program.call(2, {}, {0});
  const RematRun run = program.run(20, kDtr);
  CHECK(run.ended == RematEnd::kDone && run.recomputed_cost == 3);
}

TEST(remat_simulator_refuses_logs_that_contradict_themselves) {
  const auto refused = [](const auto& spoil) {
    Program program = network(3);
    spoil(program);
    CHECK_REFUSED(program.run(1000, kCoop));
  };
  refused([](Program& p) { p.cost[0] = -1; });
  refused([](Program& p) { p.cost[0] = std::int64_t{1} << 51; });
  refused([](Program& p) { p.size[1] = -1; });
  refused([](Program& p) { p.size[1] = INT64_MAX; });
  refused([](Program& p) { p.reads[0] = 3; });
  refused([](Program& p) { p.reads[0] = 99; });
  refused([](Program& p) { p.reads[0] = -1; });
  refused([](Program& p) { p.reads_offsets[1] = 9; });
  refused([](Program& p) { p.reads_offsets.pop_back(); });
  refused([](Program& p) { p.writes_offsets[0] = 1; });
  refused([](Program& p) { p.writes[1] = p.writes[0]; });
  refused([](Program& p) { p.takes[1] = 0; });
  refused([](Program& p) { p.takes.pop_back(); });
  refused([](Program& p) { p.event_kind[1] = 5; });
  refused([](Program& p) { p.let_go(0), p.event(EventKind::kPin, 0); });
  refused([](Program& p) { p.event(EventKind::kSpare, 99); });
  refused([](Program& p) { p.event_index[1] = 1; });
  refused([](Program& p) { p.event_index.pop_back(); });
  refused([](Program& p) { p.let_go(0), p.let_go(0); });
  refused([](Program& p) { p.constant(1), p.event(EventKind::kConstant, p.event_index.back()); });
  CHECK_REFUSED(network(3).run(-1, kCoop));
  CHECK_REFUSED(network(3).run(100, kCoop, -1));
  CHECK_REFUSED(network(3).run(100, kCoop, 1e9));
  CHECK_REFUSED(edgemem::simulate_remat(network(3).log(), 100, 0, kCoop, 1, false));
}

// A random program: constants, calls of one or two results, in place at times, values let go at any time.
namespace {

Program random_program(std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) { return static_cast<std::int64_t>(random() % limit); };
  Program program;
  Values held;
  for (int i = 0; i < 3; ++i) held.push_back(program.constant(1 + below(8)));
  const std::int64_t calls = 5 + below(40);
  for (std::int64_t i = 0; i < calls; ++i) {
    std::set<std::int64_t> reads;
    for (std::int64_t k = below(4); k > 0 && !held.empty(); --k) {
      reads.insert(held[static_cast<std::size_t>(below(held.size()))]);
    }
    const Values read(reads.begin(), reads.end());
    Values bytes;
    for (std::int64_t k = below(8) == 0 ? 0 : 1 + below(2); k > 0; --k) bytes.push_back(below(9));
    std::int64_t taken = -1;
    if (!read.empty() && !bytes.empty() && below(3) == 0) {
      taken = read[static_cast<std::size_t>(below(read.size()))];
      bytes[0] = program.size[static_cast<std::size_t>(taken)];
    }
    const std::int64_t first = program.call(below(20), read, bytes, taken);
    for (std::size_t k = 0; k < bytes.size(); ++k) held.push_back(first + static_cast<std::int64_t>(k));
    std::erase(held, taken);
    while (!held.empty() && below(5) < 2) {
      std::swap(held[static_cast<std::size_t>(below(held.size()))], held.back());
      program.let_go(held.back());
      held.pop_back();
    }
  }
  return program;
}

// Replays the history: values do not overlap, lie inside the budget, and a call finds in memory what it reads.
void check_history(const Program& program, const RematRun& run, std::int64_t budget, const Rules& rules) {
  std::map<std::int64_t, std::int64_t> value_at, address_of, call_of;
  for (std::size_t call = 0; call < program.cost.size(); ++call) {
    for (std::int64_t k = program.writes_offsets[call]; k < program.writes_offsets[call + 1]; ++k) {
      call_of[program.writes[static_cast<std::size_t>(k)]] = static_cast<std::int64_t>(call);
    }
  }
  // What cannot be made again: constants, what a call made that wrote over such a value, and what needs an old version
  // of one.
  std::set<std::int64_t> run_once, overwritten;
  const auto is_recomputable = [&](const auto& self, std::int64_t value) -> bool {
    if (!call_of.contains(value) || run_once.contains(call_of[value])) return false;
    const auto call = static_cast<std::size_t>(call_of[value]);
    for (std::int64_t k = program.reads_offsets[call]; k < program.reads_offsets[call + 1]; ++k) {
      const std::int64_t read = program.reads[static_cast<std::size_t>(k)];
      if (overwritten.contains(read)) return false;
      const bool is_kept = !call_of.contains(read) || run_once.contains(call_of[read]);
      if (!is_kept && !self(self, read)) return false;
    }
    return true;
  };
  std::int64_t used = 0, peak = 0, recomputed = 0, evictions = 0;
  const auto size_of = [&](std::int64_t value) { return program.size[static_cast<std::size_t>(value)]; };
  const auto leave = [&](std::int64_t value) {
    CHECK(address_of.contains(value) && value_at.at(address_of[value]) == value);
    value_at.erase(address_of[value]);
    address_of.erase(value);
    used -= size_of(value);
  };
  for (std::size_t i = 0; i < run.history.size(); i += 3) {
    const std::int64_t subject = run.history[i + 1], address = run.history[i + 2];
    switch (static_cast<RematStep>(run.history[i])) {
      case RematStep::kPlace: {
        const std::int64_t end = address + size_of(subject);
        CHECK(address >= 0 && end <= budget && !address_of.contains(subject));
        const auto after = value_at.lower_bound(address);
        CHECK(after == value_at.end() || after->first >= end);
        CHECK(after == value_at.begin() || std::prev(after)->first + size_of(std::prev(after)->second) <= address);
        value_at[address] = subject;
        address_of[subject] = address;
        used += size_of(subject);
        peak = std::max(peak, used);
        break;
      }
      case RematStep::kTakeOver: {
        const std::int64_t taken = program.takes[static_cast<std::size_t>(call_of.at(subject))];
        const bool is_last = !is_recomputable(is_recomputable, taken);
        CHECK(rules.in_place || is_last);
        if (is_last) run_once.insert(call_of[subject]), overwritten.insert(taken);
        if (size_of(subject) == 0) break;
        const std::int64_t old_version = value_at.at(address);
        CHECK(size_of(old_version) == size_of(subject));
        leave(old_version);
        value_at[address] = subject;
        address_of[subject] = address;
        used += size_of(subject);
        break;
      }
      case RematStep::kEvict:
        ++evictions;
        leave(subject);
        break;
      case RematStep::kRelease:
        if (size_of(subject) > 0) leave(subject);
        break;
      case RematStep::kRerun:
        recomputed += program.cost[static_cast<std::size_t>(subject)];
        [[fallthrough]];
      case RematStep::kRun: {
        const auto call = static_cast<std::size_t>(subject);
        for (std::int64_t k = program.reads_offsets[call]; k < program.reads_offsets[call + 1]; ++k) {
          const std::int64_t read = program.reads[static_cast<std::size_t>(k)];
          // A version whose memory this call takes was in memory until now.
          const bool may_be_taken = rules.in_place || !is_recomputable(is_recomputable, read);
          if (size_of(read) > 0 && !(may_be_taken && program.takes[call] == read)) CHECK(address_of.contains(read));
        }
        break;
      }
    }
  }
  CHECK(peak == run.counts.peak && recomputed == run.recomputed_cost && evictions == run.counts.evictions);
}

}  // namespace

TEST(remat_simulator_keeps_its_books_on_random_programs) {
  std::mt19937_64 random(11);
  int recomputing = 0, short_of_memory = 0;
  for (int round = 0; round < 600; ++round) {
    const Program program = random_program(random);
    const std::int64_t whole = program.run(1 << 20, kCoop).counts.peak;
    for (int variant = 0; variant < 8; ++variant) {
      const Rules rules{.heuristic = static_cast<Heuristic>(variant % 3),
                        .search = static_cast<Search>(random() % 3),
                        .fit = variant % 2 == 0 ? Fit::kBest : Fit::kLeftmost,
                        .partition = random() % 2 == 0,
                        .in_place = random() % 2 == 0,
                        .constants_at_ends = random() % 2 == 0,
                        .small_apart = random() % 2 == 0};
      const std::int64_t budget = whole * static_cast<std::int64_t>(4 + random() % 7) / 10;
      const RematRun run = program.run(budget, rules, 10, true);
      check_history(program, run, budget, rules);
      recomputing += run.recomputed_calls > 0;
      short_of_memory += run.ended == RematEnd::kOutOfMemory;
      if (run.ended == RematEnd::kDone) {
        CHECK(run.event == static_cast<std::int64_t>(program.event_kind.size()));
      }
    }
  }
  CHECK(recomputing > 100 && short_of_memory > 100);
}
