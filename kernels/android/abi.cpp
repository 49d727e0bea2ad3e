// The C ABI over planning and sessions: checks what comes in, lets no exception out.
#include <utility>

#include "android/edgemem_android.h"
#include "android/guarded.h"
#include "android/plan_file.h"
#include "android/planning.h"
#include "android/session.h"
#include "replay/context.h"
#include "replay/refusal.h"

using edgemem::guarded;
using edgemem::refuse;

namespace {

// A text that stays when its plan set goes.
const char* lasting(const std::string& strategy) {
  for (const char* name : {"greedy_by_size", "greedy_by_breadth", "greedy_in_order", "strip_packing"}) {
    if (strategy == name) return name;
  }
  return "";
}

}  // namespace

em_plan* em_plan_record(const em_context* context, int64_t alignment, em_planned* out) {
  if (context == nullptr || context->is_running()) {
    refuse(context == nullptr ? "no context" : "the context is active; end its run first");
    return nullptr;
  }
  if (alignment < 1 || alignment > 64 || (alignment & (alignment - 1)) != 0) {
    refuse("the alignment is a power of two up to 64");
    return nullptr;
  }
  return guarded<em_plan*>(nullptr, [&] {
    const edgemem::PlanSet set = edgemem::plan_stream(edgemem::codes_of(context->events()), alignment);
    em_plan* plan = edgemem::plan_of(set);
    if (plan != nullptr && out != nullptr) {
      *out = {set.arena, set.lower_bound, set.naive, static_cast<int64_t>(set.records.size()), lasting(set.strategy)};
    }
    return plan;
  });
}

em_session* em_session_create(const em_planfile* file, int32_t flags) {
  if ((flags & ~(EM_SESSION_POISON | EM_SESSION_GUARD_PAGE)) != 0) {
    refuse("the flags of a session are EM_SESSION_POISON and EM_SESSION_GUARD_PAGE");
    return nullptr;
  }
  return guarded<em_session*>(
      nullptr, [&] { return new em_session(file == nullptr ? edgemem::SharedPlanSets() : file->sets, flags); });
}

int32_t em_session_begin(em_session* session) { return session == nullptr ? refuse("no session") : session->begin(); }

int32_t em_session_end(em_session* session, em_run* out) {
  return session == nullptr ? refuse("no session") : session->end(out);
}

int64_t em_session_places(em_session* session, int64_t most, em_record* out) {
  if (session == nullptr) {
    refuse("no session");
    return 0;
  }
  const std::vector<edgemem::PlacedRecord>& places = session->places();
  for (std::size_t k = 0; out != nullptr && k < places.size() && static_cast<int64_t>(k) < most; ++k) {
    out[k] = edgemem::record_of(places[k]);
  }
  return static_cast<int64_t>(places.size());
}

int32_t em_session_destroy(em_session* session) {
  if (session != nullptr && session->is_running()) {
    return refuse("a run of the session is active; end it first", EM_BUSY);
  }
  delete session;
  return EM_OK;
}
