#include "replay/slot_matcher.h"

#include <algorithm>
#include <exception>

namespace edgemem {

bool SlotMatcher::start(const em_plan& plan) noexcept {
  plan_ = &plan;
  next_event_ = 0;
  next_request_ = 0;
  late_alive_ = 0;
  try {
    states_.assign(plan.requests(), State::absent);
    bytes_.resize(plan.requests());
    at_.assign(plan.places(), -1);
    late_.clear();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

Match SlotMatcher::match_request(int64_t bytes, int64_t /*thread*/) noexcept {
  const int64_t request = next_request_++;
  const auto index = static_cast<std::size_t>(request);
  if (index >= plan_->requests()) {
    return {};
  }
  pass_frees();
  ++next_event_;
  const int64_t offset = plan_->offset(request);
  if (bytes <= 0 || bytes > plan_->bytes(request)) {
    return {};
  }
  if (offset < 0) {
    return {request, -1, bytes};
  }
  if (late_alive_ > 0 && is_taken(offset, plan_->bytes(request))) {
    return {};
  }
  states_[index] = State::placed;
  bytes_[index] = bytes;
  at_[plan_->place_of(request)] = request;
  return {request, offset, bytes};
}

Match SlotMatcher::match_free_at(int64_t offset, int64_t /*thread*/) noexcept {
  const auto events = plan_->events();
  int64_t request = -1;
  if (next_event_ < events.size() && events[next_event_] < 0) {  // mostly it is the planned one
    const int64_t planned = -(events[next_event_] + 1);
    if (plan_->offset(planned) == offset && states_[static_cast<std::size_t>(planned)] == State::placed) {
      ++next_event_;
      request = planned;
    }
  }
  if (request < 0) {
    const std::size_t place = plan_->place_at(offset);
    request = place < at_.size() ? at_[place] : -1;
  }
  if (request < 0 || states_[static_cast<std::size_t>(request)] == State::absent) {
    return {};
  }
  State& state = states_[static_cast<std::size_t>(request)];
  late_alive_ -= state == State::late ? 1 : 0;
  state = State::absent;
  return {request, offset, bytes_[static_cast<std::size_t>(request)]};
}

// Goes on to the next request of the plan. What the plan frees on the way, and the run has not, is late from now on.
void SlotMatcher::pass_frees() noexcept {
  const auto events = plan_->events();
  for (; events[next_event_] < 0; ++next_event_) {
    const int64_t request = -(events[next_event_] + 1);
    State& state = states_[static_cast<std::size_t>(request)];
    if (state != State::placed) {
      continue;
    }
    state = State::late;
    ++late_alive_;
    try {
      late_.push_back(request);
    } catch (const std::exception&) {
      late_alive_ = kMostLate + 1 + static_cast<int64_t>(plan_->requests());  // nothing is compared any more
    }
  }
}

bool SlotMatcher::is_taken(int64_t offset, int64_t bytes) noexcept {
  if (late_alive_ > kMostLate) {
    return true;
  }
  std::erase_if(late_, [this](int64_t r) { return states_[static_cast<std::size_t>(r)] != State::late; });
  return std::any_of(late_.begin(), late_.end(), [&](int64_t late) {
    return plan_->offset(late) < offset + bytes && offset < plan_->offset(late) + plan_->bytes(late);
  });
}

}  // namespace edgemem
