// A program under a memory budget, in figures: what is evicted, what is recomputed, what it costs.
//
// Runs the log of a program (tests/bench/remat/operator_log.py) call by call on remat::Memory:
//  - a constant appears: it is placed, and never evicted;
//  - a call runs: what it reads is locked and, where it is evicted, recomputed; what it writes is placed; the clock
//    advances. An operator that takes the memory of a value it reads writes in place where the rules say so;
//  - the program lets a value go: it leaves memory at once, and stays recomputable while another value needs it;
//  - a value is pinned: it is made resident if it is not, and never evicted from then on;
//  - a value is spared: until a call reads it, it is evicted only where nothing else makes room.
// A call that runs again places only what is not in memory of the values that it wrote and that are still needed. The
// copy of copy on write takes no time. At the end, all values that the program still holds are made resident together,
// in the order in which they were made: gradients and results must exist (DTR's output condition).
//
// Before a call takes the memory of a value that cannot be made again (the update of a parameter in place), every value
// that the program holds and that needs the old version is made resident and pinned.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/common/records.h"
#include "remat/memory.h"

namespace edgemem {

// Columns of tests/bench/remat/operator_log.py: ragged ones have one more offset than rows.
struct OperatorLog {
  Column cost;           // [calls] >= 0
  Column reads_offsets;  // [calls + 1]
  Column reads;          // values, each once in a call
  Column writes_offsets;
  Column writes;
  Column takes;       // [calls] value whose memory the first written value takes, -1: none
  Column size;        // [values] bytes
  Column event_kind;  // [events] EventKind
  Column event_index;
};

enum class EventKind : std::int64_t { kCall = 0, kConstant = 1, kLetGo = 2, kPin = 3, kSpare = 4 };

enum class RematEnd : std::int64_t { kDone = 0, kOutOfMemory = 1, kThrashing = 2 };

// What happens, in order; `subject` is a call or a value of the log, `address` is -1 where there is none.
enum class RematStep : std::int64_t {
  kRun = 0,       // a call, for the first time
  kRerun = 1,     // a call, again
  kPlace = 2,     // a value, at an address
  kEvict = 3,     // a value, to make room
  kRelease = 4,   // a value leaves memory because nobody needs it there
  kTakeOver = 5,  // a value is placed where its former version lies, which leaves memory
};

// The calls so far, for cheap tensor partitioning.
class CallDensity {
 public:
  // Whether a call is expensive: its cost density (cost / bytes it writes) is at least the density of all calls that
  // were asked about before and of this one. Counts the call: ask once a call.
  bool is_expensive(std::int64_t cost, std::int64_t bytes);

 private:
  double cost_ = 0, bytes_ = 0;
};

struct RematRun {
  RematEnd ended = RematEnd::kDone;
  std::int64_t event = 0;            // that could not be finished; the number of events if all were
  std::int64_t short_of = 0;         // bytes that found no room, if it ended so
  std::int64_t recomputed_cost = 0;  // of calls that ran again
  std::int64_t recomputed_calls = 0;
  remat::MemoryCounts counts;
  std::vector<std::int64_t> history;  // flat rows of step, subject, address; empty unless asked for
};

// Ends early when the cost of what was recomputed is above `limit` times the cost of all calls of the log (thrashing),
// or when a request does not fit with all evictions (out of memory). Throws std::invalid_argument if the log
// contradicts itself (log_check.h), for a budget below 0, an alignment that is not positive, and a limit that is not 0
// to 1000.
RematRun simulate_remat(const OperatorLog& log, std::int64_t budget, std::int64_t alignment, const remat::Rules& rules,
                        double limit, bool with_history);

}  // namespace edgemem
