#include "replay/in_order_matcher.h"

namespace edgemem {

void InOrderMatcher::start(const em_plan& plan) noexcept {
  plan_ = &plan;
  next_event_ = 0;
  next_request_ = 0;
}

Match InOrderMatcher::match_request(int64_t bytes, int64_t /*thread*/) noexcept {
  const auto events = plan_->events();
  // The sign tells a request from a free, so a size that is not positive would be taken for the code of a free.
  if (bytes <= 0 || next_event_ == events.size() || events[next_event_] != bytes) {
    return {};
  }
  ++next_event_;
  const int64_t request = next_request_++;
  return {request, plan_->offset(request)};
}

Match InOrderMatcher::match_free_at(int64_t offset, int64_t /*thread*/) noexcept {
  const int64_t request = next_free();
  if (request < 0 || offset < 0 || plan_->offset(request) != offset) {
    return {};
  }
  ++next_event_;
  return {request, offset};
}

Match InOrderMatcher::match_free_of(int64_t request, int64_t /*thread*/) noexcept {
  if (request < 0 || next_free() != request || plan_->offset(request) >= 0) {
    return {};
  }
  ++next_event_;
  return {request, -1};
}

int64_t InOrderMatcher::next_free() const noexcept {
  const auto events = plan_->events();
  if (next_event_ == events.size() || events[next_event_] >= 0) {
    return -1;
  }
  return -(events[next_event_] + 1);
}

}  // namespace edgemem
