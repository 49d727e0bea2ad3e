#include "android/session.h"

#include <algorithm>
#include <new>
#include <utility>

#include "android/guarded.h"
#include "android/planning.h"
#include "arena/totals.h"

using edgemem::PlanSet;
using edgemem::set_error;

namespace {

constexpr std::int64_t kMostEvents = std::int64_t{1} << 20;
constexpr std::int64_t kAlignment = 64;  // what ONNX Runtime and the heap align every block to

using Codes = std::vector<std::int64_t>;

// Whether the streams have the same requests and frees in the same order, whatever the sizes.
bool is_alike(const Codes& a, const Codes& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](std::int64_t x, std::int64_t y) { return x == y || (x > 0 && y > 0); });
}

// Whether a run like this one gets a place for each request that it frees.
bool serves(const edgemem::Stream& plan, const Codes& run) {
  if (!is_alike(plan.events, run)) return false;
  for (std::size_t k = 0; k < run.size(); ++k) {
    const bool fits =
        run[k] > 0 ? run[k] <= plan.events[k] : plan.offsets[static_cast<std::size_t>(-(run[k] + 1))] >= 0;
    if (!fits) return false;
  }
  return true;
}

}  // namespace

em_session::em_session(edgemem::SharedPlanSets file, std::int32_t flags)
    : file_(std::move(file)), flags_(flags), context_(em_context_create(EM_HOST)) {
  if (context_ == nullptr) throw std::bad_alloc();
  if (file_ != nullptr) too_large_.reserve(file_->size());
  for (std::size_t k = 0; file_ != nullptr && k < file_->size(); ++k) {
    const PlanSet& set = (*file_)[k];
    if (is_candidate(set) && follow(SharedPlanSet(file_, &set), EM_RAN_FILE)) break;
  }
}

// Whether there is memory for the plan; without, all stays as it was.
bool em_session::follow(SharedPlanSet set, std::int32_t source) {
  std::unique_ptr<em_plan, Release> plan(edgemem::plan_of(*set));
  if (plan == nullptr) return false;
  plan_ = std::move(plan);
  arena_.reset();
  set_ = std::move(set);
  source_ = source;
  return true;
}

std::int32_t em_session::begin() noexcept {
  if (running_) {
    set_error("a run of the session is active already; end it first");
    return EM_BUSY;
  }
  std::int32_t status = plan_ == nullptr ? EM_NO_MEMORY : begin_planned();
  if (status == EM_NO_MEMORY) {  // the run goes without a plan, which the report says
    drop_plan();
    status = em_begin_record(context_.get(), kMostEvents);
  }
  running_ = status == EM_OK;
  return status;
}

std::int32_t em_session::begin_planned() noexcept {
  if (arena_ != nullptr && em_arena_left(arena_.get()) != 0) arena_.reset();  // it goes with its last block
  if (arena_ == nullptr) {
    arena_.reset(em_arena_create(set_->arena, flags_ & EM_SESSION_GUARD_PAGE ? EM_GUARD_PAGE : 0));
  }
  if (arena_ == nullptr) return EM_NO_MEMORY;
  return em_begin_replay(context_.get(), plan_.get(), arena_.get(),
                         EM_RECORD | (flags_ & EM_SESSION_POISON ? EM_POISON : 0));
}

void em_session::drop_plan() noexcept {
  if (source_ == EM_RAN_FILE) too_large_.push_back(set_.get());
  plan_.reset();
  arena_.reset();
  set_.reset();
  source_ = EM_RAN_RECORDED;
}

bool em_session::is_candidate(const PlanSet& set) const {
  return set.kind == EM_PLAN_OF_RECORDING && set.unusable.empty() &&
         std::find(too_large_.begin(), too_large_.end(), &set) == too_large_.end();
}

std::int32_t em_session::end(em_run* out) noexcept {
  em_stats stats;
  const std::int32_t status = em_end(context_.get(), &stats);
  if (status != EM_OK) return status;
  running_ = false;
  em_run report = report_of(stats);
  edgemem::guarded(0, [&] {
    choose(stats);
    return 0;
  });
  report.replans = replans_;
  if (out != nullptr) *out = report;
  return EM_OK;
}

em_run em_session::report_of(const em_stats& stats) const {
  em_run run{};
  run.is_complete = plan_ != nullptr && stats.requests > 0 && stats.hits == stats.requests ? 1 : 0;
  if (plan_ != nullptr) {
    run.source = source_;
    run.planned = set_->arena;
    run.arena = em_arena_size(arena_.get());
    run.measured = stats.arena_top;
    run.lower_bound = set_->lower_bound;
    run.naive = set_->naive;
  }
  run.requests = stats.requests;
  run.hits = stats.hits;
  run.misses = stats.misses;
  run.heap_peak = stats.heap_peak;
  return run;
}

// Chooses the plan of the next run.
void em_session::choose(const em_stats& stats) {
  if (stats.failed != 0) return;  // the record is not the whole run
  const em_event* events = nullptr;
  const auto count = static_cast<std::size_t>(em_events(context_.get(), &events));
  const auto freed = std::count_if(events, events + count, [](const em_event& event) { return event.size == 0; });
  // Every request that the run's thread freed came from the arena: of its hits, those that are not left were freed.
  if (freed <= stats.hits - stats.left) {
    in_vain_ = std::max<std::int64_t>(in_vain_ - 1, 0);
    return;
  }
  if (in_vain_ >= EM_MOST_REPLANS) return;
  const Codes codes = edgemem::codes_of({events, count});
  SharedPlanSet next = better_for(codes);
  const std::int32_t source = next != nullptr ? EM_RAN_FILE : EM_RAN_MADE_HERE;
  if (next == nullptr) {
    Codes both = codes;
    if (set_ != nullptr && is_alike(set_->stream.events, codes)) {
      std::transform(codes.begin(), codes.end(), set_->stream.events.begin(), both.begin(),
                     [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
    }
    next = std::make_shared<const PlanSet>(edgemem::plan_stream(std::move(both), kAlignment));
  }
  if (!follow(std::move(next), source)) return;
  ++replans_;
  ++in_vain_;
}

// The first recording of the file that serves such a run, or null.
em_session::SharedPlanSet em_session::better_for(const Codes& codes) const {
  for (std::size_t k = 0; file_ != nullptr && k < file_->size(); ++k) {
    const PlanSet& set = (*file_)[k];
    if (is_candidate(set) && &set != set_.get() && serves(set.stream, codes)) return SharedPlanSet(file_, &set);
  }
  return nullptr;
}

const std::vector<edgemem::PlacedRecord>& em_session::places() const {
  static const std::vector<edgemem::PlacedRecord> none;
  return set_ == nullptr ? none : set_->records;
}
