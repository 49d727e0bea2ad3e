#include "tests/remat_log_check.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace edgemem {

namespace {

// In one number and in all together, so that no sum of the simulator overflows.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
constexpr std::int64_t kMostCost = std::int64_t{1} << 50;  // each value carries the cost of its call

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

void check_offsets(Column offsets, std::size_t rows, std::size_t values) {
  require(offsets.size() == rows + 1, "the offsets of an operator log have another length than its calls");
  require(offsets[0] == 0 && offsets[rows] == static_cast<std::int64_t>(values),
          "the offsets of an operator log do not cover its values");
  for (std::size_t i = 0; i < rows; ++i) require(offsets[i] <= offsets[i + 1], "the offsets of an operator log fall");
}

enum class State : std::uint8_t { kUnmade, kHeld, kGone };

class Events {
 public:
  explicit Events(const OperatorLog& log) : log_(log), state_(log.size.size()), read_at_(log.size.size(), -1) {}

  void check() {
    std::int64_t next_call = 0;
    const auto calls = static_cast<std::int64_t>(log_.cost.size());
    for (std::size_t event = 0; event < log_.event_kind.size(); ++event) {
      const std::int64_t index = log_.event_index[event];
      switch (log_.event_kind[event]) {
        case static_cast<std::int64_t>(EventKind::kCall):
          require(index == next_call && index < calls, "the calls of an operator log do not run once and in order");
          ++next_call;
          call(static_cast<std::size_t>(index));
          break;
        case static_cast<std::int64_t>(EventKind::kConstant):
          make(index);
          break;
        case static_cast<std::int64_t>(EventKind::kLetGo):
          let_go(index);
          break;
        case static_cast<std::int64_t>(EventKind::kPin):
        case static_cast<std::int64_t>(EventKind::kSpare):
          require(state(index) == State::kHeld,
                  "an operator log pins or spares a value that the program does not hold");
          break;
        default:
          require(false, "an event of an operator log is of no known kind");
      }
    }
    require(next_call == calls, "the calls of an operator log do not run once and in order");
  }

 private:
  State& state(std::int64_t value) {
    require(value >= 0 && value < static_cast<std::int64_t>(state_.size()), "an operator log names a value it has not");
    return state_[static_cast<std::size_t>(value)];
  }

  void make(std::int64_t value) {
    require(state(value) == State::kUnmade, "a value of an operator log appears twice");
    state(value) = State::kHeld;
  }

  void let_go(std::int64_t value) {
    require(state(value) == State::kHeld, "an operator log lets a value go that the program does not hold");
    state(value) = State::kGone;
  }

  void call(std::size_t call) {
    const auto number = static_cast<std::int64_t>(call);
    for (std::int64_t i = log_.reads_offsets[call]; i < log_.reads_offsets[call + 1]; ++i) {
      const std::int64_t read = log_.reads[static_cast<std::size_t>(i)];
      require(state(read) == State::kHeld, "a call of an operator log reads a value that the program does not hold");
      std::int64_t& read_at = read_at_[static_cast<std::size_t>(read)];
      require(read_at != number, "a call of an operator log reads a value twice");
      read_at = number;
    }
    const std::int64_t first = log_.writes_offsets[call], end = log_.writes_offsets[call + 1];
    for (std::int64_t i = first; i < end; ++i) make(log_.writes[static_cast<std::size_t>(i)]);
    const std::int64_t taken = log_.takes[call];
    if (taken == -1) return;
    require(state(taken) == State::kHeld && read_at_[static_cast<std::size_t>(taken)] == number && first < end,
            "a call of an operator log takes the memory of a value that it does not read, or for no value");
    const std::int64_t made = log_.writes[static_cast<std::size_t>(first)];
    require(log_.size[static_cast<std::size_t>(taken)] == log_.size[static_cast<std::size_t>(made)],
            "a call of an operator log takes the memory of a value of another size");
    let_go(taken);
  }

  const OperatorLog& log_;
  std::vector<State> state_;
  std::vector<std::int64_t> read_at_;  // of values, the call that read it last
};

}  // namespace

void check_log(const OperatorLog& log) {
  require(log.takes.size() == log.cost.size(), "the columns of the calls of an operator log differ in length");
  require(log.event_kind.size() == log.event_index.size(),
          "the columns of the events of an operator log differ in length");
  check_offsets(log.reads_offsets, log.cost.size(), log.reads.size());
  check_offsets(log.writes_offsets, log.cost.size(), log.writes.size());
  std::int64_t cost_left = kMostCost;
  for (std::size_t i = 0; i < log.cost.size(); ++i) {
    const std::int64_t times = std::max<std::int64_t>(1, log.writes_offsets[i + 1] - log.writes_offsets[i]);
    require(log.cost[i] >= 0 && log.cost[i] <= cost_left / times,
            "the costs of an operator log are below 0 or too high");
    cost_left -= log.cost[i] * times;
  }
  std::int64_t bytes_left = kMostBytes;
  for (const std::int64_t bytes : log.size) {
    require(bytes >= 0 && bytes <= bytes_left, "the sizes of an operator log are below 0 or too large");
    bytes_left -= bytes;
  }
  Events(log).check();
}

}  // namespace edgemem
