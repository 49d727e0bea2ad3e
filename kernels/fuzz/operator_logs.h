// Operator logs and layouts of a pool, out of the bytes of a case.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "fuzz/bytes.h"
#include "remat/window.h"
#include "tests/remat_simulator.h"

// The columns of a log that tells a program, with some numbers changed at times.
class LogColumns {
 public:
  explicit LogColumns(Bytes& bytes) : bytes_(bytes) {
    for (std::size_t events = bytes.below(48); events > 0 && !bytes.is_empty(); --events) add_event();
    if (bytes.below(4) == 0) spoil();
  }

  edgemem::OperatorLog log() const {
    return {cost_, reads_offsets_, reads_, writes_offsets_, writes_, takes_, size_, event_kind_, event_index_};
  }

 private:
  using Values = std::vector<std::int64_t>;

  void add_event() {
    switch (bytes_.below(5)) {
      case 0:
        event(edgemem::EventKind::kConstant, held(small()));
        break;
      case 1:
        if (!held_.empty()) event(edgemem::EventKind::kLetGo, gone(bytes_.below(held_.size())));
        break;
      case 2:
        if (!held_.empty()) {
          const bool is_pin = bytes_.below(2) == 0;
          event(is_pin ? edgemem::EventKind::kPin : edgemem::EventKind::kSpare, held_[bytes_.below(held_.size())]);
        }
        break;
      default:
        add_call();
    }
  }

  void add_call() {
    event(edgemem::EventKind::kCall, static_cast<std::int64_t>(cost_.size()));
    cost_.push_back(small());
    takes_.push_back(-1);
    const std::size_t first = held_.empty() ? 0 : bytes_.below(held_.size());
    const std::size_t count = std::min(bytes_.below(4), held_.size() - first);
    reads_.insert(reads_.end(), held_.begin() + static_cast<std::ptrdiff_t>(first),
                  held_.begin() + static_cast<std::ptrdiff_t>(first + count));
    if (count > 0 && bytes_.below(3) == 0) {
      takes_.back() = gone(first);
      writes_.push_back(held(size_[static_cast<std::size_t>(takes_.back())]));
    }
    for (std::size_t more = bytes_.below(3); more > 0; --more) writes_.push_back(held(small()));
    reads_offsets_.push_back(static_cast<std::int64_t>(reads_.size()));
    writes_offsets_.push_back(static_cast<std::int64_t>(writes_.size()));
  }

  std::int64_t small() { return static_cast<std::int64_t>(bytes_.below(64)); }
  void event(edgemem::EventKind kind, std::int64_t index) {
    event_kind_.push_back(static_cast<std::int64_t>(kind));
    event_index_.push_back(index);
  }
  std::int64_t held(std::int64_t size) {
    size_.push_back(size);
    held_.push_back(static_cast<std::int64_t>(size_.size()) - 1);
    return held_.back();
  }
  std::int64_t gone(std::size_t index) {
    const std::int64_t value = held_[index];
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
    return value;
  }
  void spoil() {
    Values* const columns[] = {&cost_,  &reads_offsets_, &reads_,      &writes_offsets_, &writes_,
                               &takes_, &size_,          &event_kind_, &event_index_};
    for (std::size_t changes = 1 + bytes_.below(3); changes > 0; --changes) {
      Values& column = *columns[bytes_.below(9)];
      if (column.empty() || bytes_.below(8) == 0) {
        column.push_back(bytes_.number());
      } else {
        column[bytes_.below(column.size())] = bytes_.number();
      }
    }
  }

  Bytes& bytes_;
  Values cost_, reads_offsets_{0}, reads_, writes_offsets_{0}, writes_, takes_, size_, event_kind_, event_index_;
  Values held_;  // by the program
};

// A log under a budget: what is in memory never exceeds it, and what ends well has run all.
inline void simulate_log(Bytes& bytes) {
  namespace remat = edgemem::remat;
  const remat::Rules rules{.heuristic = static_cast<remat::Heuristic>(bytes.below(3)),
                           .search = static_cast<remat::Search>(bytes.below(3)),
                           .fit = static_cast<remat::Fit>(bytes.below(2)),
                           .partition = bytes.below(2) == 0,
                           .in_place = bytes.below(2) == 0,
                           .constants_at_ends = bytes.below(2) == 0,
                           .small_apart = bytes.below(2) == 0};
  const std::int64_t budget = bytes.number(), alignment = bytes.below(4) == 0 ? bytes.number() : 1;
  const LogColumns columns(bytes);
  const edgemem::RematRun run = edgemem::simulate_remat(columns.log(), budget, alignment, rules, 10, true);
  HOLDS(run.counts.peak >= 0 && run.counts.peak <= budget);
  HOLDS(run.counts.evictions <= run.counts.evaluations && run.counts.shortages <= run.counts.searches);
  HOLDS(run.history.size() % 3 == 0 && run.recomputed_cost >= 0);
  const auto events = static_cast<std::int64_t>(columns.log().event_kind.size());
  HOLDS(run.ended == edgemem::RematEnd::kDone ? run.event == events : run.event <= events);
}

// The window of a layout holds the request, and nothing that cannot be evicted.
inline void find_window(Bytes& bytes) {
  std::vector<edgemem::remat::WindowBlock> blocks;
  for (std::size_t count = bytes.below(24); count > 0; --count) {
    const bool is_free = bytes.below(3) == 0;
    const double heuristic = static_cast<double>(bytes.number()) / static_cast<double>(1 + bytes.below(200));
    blocks.push_back({static_cast<std::int64_t>(1 + bytes.below(64)), is_free ? 0 : heuristic, is_free});
  }
  const auto wanted = static_cast<std::int64_t>(1 + bytes.below(200));
  const auto objective = bytes.below(2) == 0 ? edgemem::remat::Objective::kSum : edgemem::remat::Objective::kPerByte;
  const edgemem::remat::Window window = edgemem::remat::cheapest_window(blocks, wanted, objective);
  std::int64_t room = 0, most = 0;
  for (const auto& block : blocks) {
    room = block.heuristic < 0 ? 0 : room + block.bytes;
    most = std::max(most, room);
  }
  HOLDS(window.found == (most >= wanted));
  room = 0;
  for (std::size_t i = window.first; window.found && i <= window.last; ++i) {
    HOLDS(!(blocks[i].heuristic < 0));
    room += blocks[i].bytes;
  }
  HOLDS(!window.found || (room >= wanted && room - blocks[window.first].bytes < wanted));
}
