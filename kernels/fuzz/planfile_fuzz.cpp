// Fuzzes the reader of plan files: any bytes are read or refused, what is read is within its bounds, and a plan that is
// called usable can be replayed.
#include <string>

#include "android/edgemem_android.h"
#include "fuzz/bytes.h"
#include "fuzz/plan_files.h"

namespace {

using plan_files::Octets;
using plan_files::Plan;
using plan_files::Table;

// A plan of a few records, mostly end to end; the kinds of its columns may disagree in length.
Plan make_plan(Bytes& bytes) {
  Plan plan;
  plan.alignment = bytes.below(4) == 0 ? bytes.number() : std::int64_t{1} << bytes.below(7);
  std::int64_t end = 0;
  for (std::size_t k = bytes.below(6); k > 0; --k) {
    const auto size = static_cast<std::int64_t>(bytes.below(200)) + 1;
    const auto first = static_cast<std::int64_t>(bytes.below(8));
    plan.names.push_back(std::string(bytes.below(4), static_cast<char>(bytes.octet())));
    plan.first.push_back(first);
    plan.last.push_back(first + static_cast<std::int64_t>(bytes.below(4)));
    plan.size.push_back(size);
    plan.offsets.push_back(bytes.below(8) == 0 ? bytes.number() : end);
    plan.kinds.push_back(static_cast<std::uint8_t>(bytes.below(7)));
    end += (size + 63) / 64 * 64;
  }
  plan.arena = bytes.below(8) == 0 ? bytes.number() : end;
  return plan;
}

// A request after the other, each freed before the next one, or at the end of the run.
Plan make_recording(Bytes& bytes, std::int64_t& events) {
  Plan plan = make_plan(bytes);
  const auto count = static_cast<std::int64_t>(plan.first.size());
  const bool nested = bytes.below(2) == 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const auto i = static_cast<std::size_t>(k);
    plan.first[i] = nested ? k : 2 * k;
    plan.last[i] = nested ? 2 * count - 2 - k : 2 * k;
  }
  events = 2 * count + (bytes.below(8) == 0 ? bytes.number() % 3 : 0);
  return plan;
}

Octets make_file(Bytes& bytes) {
  std::vector<Table> sets;
  if (bytes.below(2) == 0) sets.push_back(plan_files::plan_set(make_plan(bytes)));
  for (std::size_t k = bytes.below(3); k > 0; --k) {
    std::int64_t events = 0;
    const Plan plan = make_recording(bytes, events);
    sets.push_back(plan_files::recording(plan, events, bytes.numbers(bytes.below(2)), bytes.numbers(bytes.below(2))));
  }
  for (Table& set : sets) {
    if (bytes.below(4) == 0) set[static_cast<int>(bytes.below(24))] = {bytes.numbers(bytes.below(4))};
  }
  const bool single = sets.size() == 1 && bytes.below(2) == 0;
  Octets payload =
      single ? plan_files::Writer::write(sets[0], "EMPL") : plan_files::Writer::write({{0, {sets}}}, "EMPF");
  for (std::size_t k = bytes.below(4); k > 0; --k) {
    const std::size_t at = static_cast<std::size_t>(bytes.octet()) << 8 | bytes.octet();
    payload[at % payload.size()] = bytes.octet();
  }
  return plan_files::sealed(payload, single ? 1 + static_cast<std::uint32_t>(bytes.below(3)) : 4);
}

void look_at(const em_planfile* file) {
  const std::int64_t sets = em_planfile_sets(file);
  HOLDS(sets > 0);
  for (std::int64_t k = 0; k < sets; ++k) {
    em_planset set;
    HOLDS(em_planfile_set(file, k, &set) == EM_OK);
    HOLDS(set.arena >= 0 && set.naive >= 0 && set.lower_bound >= 0 && set.alignment > 0 && set.steps >= 0);
    for (const char* text : {set.target, set.digest, set.strategy, set.runtime, set.version, set.model}) {
      HOLDS(std::strlen(text) < (std::size_t{1} << 20));
    }
    for (std::int64_t i = 0; i < set.records; ++i) {
      em_record record;
      HOLDS(em_planfile_record(file, k, i, &record) == EM_OK);
      HOLDS(record.name != nullptr && record.first >= 0 && record.last >= record.first && record.size >= 0);
      HOLDS(set.is_usable == 0 || (record.offset >= 0 && record.offset <= set.arena - record.size));
    }
    em_record none;
    HOLDS(em_planfile_record(file, k, set.records, &none) == EM_REFUSED);
    em_plan* plan = em_planfile_plan(file, k);
    HOLDS((plan != nullptr) == (set.is_usable == 1 && set.kind == EM_PLAN_OF_RECORDING && set.alignment <= 64));
    em_plan_release(plan);
  }
  em_session* session = em_session_create(file, 0);
  HOLDS(session != nullptr && em_session_destroy(session) == EM_OK);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  const std::size_t kind = bytes.below(8);
  Octets file;
  if (kind < 5) {
    file = make_file(bytes);
  } else if (kind == 5) {
    Octets payload{8, 0, 0, 0, 'E', 'M', 'P', 'F'};
    payload.insert(payload.end(), data, data + size);
    file = plan_files::sealed(payload, 4);
  } else {
    file.assign(data, data + size);
  }
  const auto form = static_cast<std::int32_t>(kind < 6 ? EM_FORM_PLANFILE : kind == 6 ? EM_FORM_ONNX : EM_FORM_TFLITE);
  em_planfile* read = em_planfile_read(file.data(), static_cast<std::int64_t>(file.size()), form);
  HOLDS(read != nullptr || em_last_error()[0] != 0);
  if (read != nullptr) look_at(read);
  em_planfile_release(read);
  return 0;
}
