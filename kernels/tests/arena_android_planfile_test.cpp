// The reader of plan files, through its C ABI: what it reads, and what it refuses.
#include <cstring>
#include <string>

#include "android/edgemem_android.h"
#include "fuzz/plan_files.h"
#include "tests/check.h"
#include "tests/registry.h"

namespace {

using plan_files::Octets;
using plan_files::Plan;
using plan_files::Table;

struct File {
  em_planfile* held;
  explicit File(const Octets& bytes, int32_t form = EM_FORM_PLANFILE)
      : held(em_planfile_read(bytes.data(), static_cast<int64_t>(bytes.size()), form)) {}
  ~File() { em_planfile_release(held); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  em_planset set(int64_t number = 0) const {
    em_planset out;
    CHECK(em_planfile_set(held, number, &out) == EM_OK);
    return out;
  }
};

Plan graph() { return {{"a", "b", "c"}, {0, 1, 2}, {1, 2, 2}, {100, 60, 30}, {0, 128, 0}, {1, 0, 4}, 188}; }

bool refuses(const Octets& bytes, const char* why, int32_t form = EM_FORM_PLANFILE) {
  const File file(bytes, form);
  return file.held == nullptr && std::strstr(em_last_error(), why) != nullptr;
}

bool is_usable(const Table& set) { return File(plan_files::graph_file(set)).set().is_usable == 1; }

Octets octets(const std::string& text) { return {text.begin(), text.end()}; }

// A length-delimited field of a protobuf message; of up to 127 bytes.
std::string field(char number, const std::string& body) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(body.size())} + body;
}

std::string base64(const Octets& bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t k = 0; k < bytes.size(); k += 3) {
    std::uint32_t held = 0;
    for (std::size_t i = 0; i < 3; ++i) held = held << 8 | (k + i < bytes.size() ? bytes[k + i] : 0u);
    for (std::size_t i = 0; i < 4; ++i) {
      text += k + i <= bytes.size() ? kDigits[held >> (18 - 6 * i) & 63] : '=';
    }
  }
  return text;
}

}  // namespace

TEST(planfile_of_a_graph) {
  const File file(plan_files::graph_file(plan_files::plan_set(graph())));
  CHECK(em_planfile_sets(file.held) == 1);
  const em_planset set = file.set();
  CHECK(set.kind == EM_PLAN_OF_GRAPH && set.is_usable == 1 && set.is_optimal == 1);
  CHECK(std::string(set.digest) == "abcd" && std::string(set.strategy) == "by hand" && *set.target == 0);
  CHECK(set.arena == 188 && set.naive == 1000 && set.alignment == 64 && set.records == 3 && set.steps == 3);
  em_record record;
  CHECK(em_planfile_record(file.held, 0, 1, &record) == EM_OK);
  CHECK(std::string(record.name) == "b" && record.first == 1 && record.last == 2 && record.size == 60);
  CHECK(record.offset == 128 && record.kind == 0);
  CHECK(em_planfile_record(file.held, 0, 3, &record) == EM_REFUSED);
  CHECK(em_planfile_record(file.held, 0, -1, &record) == EM_REFUSED);
  CHECK(em_planfile_plan(file.held, 0) == nullptr);
}

TEST(planfile_of_a_recording_makes_a_plan) {
  const File file(
      plan_files::file_of({plan_files::plan_set(graph()), plan_files::recording(plan_files::small_recording(), 6)}));
  CHECK(em_planfile_sets(file.held) == 2);
  const em_planset set = file.set(1);
  CHECK(set.kind == EM_PLAN_OF_RECORDING && set.is_usable == 1 && set.steps == 6 && set.arena == 328);
  CHECK(std::string(set.runtime) == "onnxruntime" && std::string(set.model) == "cdef");
  em_plan* plan = em_planfile_plan(file.held, 1);
  CHECK(plan != nullptr);
  em_plan_release(plan);
}

TEST(planfile_recordings_whose_stream_does_not_fit_are_refused) {
  const auto refused = [](const Plan& plan, int64_t events, const plan_files::Numbers& heap = {},
                          const plan_files::Numbers& sizes = {}) {
    return File(plan_files::file_of({plan_files::recording(plan, events, heap, sizes)})).held == nullptr;
  };
  const Plan right = plan_files::small_recording();
  CHECK(!refused(right, 6));
  CHECK(!refused(right, 5));  // the last one is alive to the end
  CHECK(refused(right, 4) && refused(right, 7) && refused(right, -1) && refused(right, INT64_MAX));
  CHECK(!refused(right, 7, {6}, {10}));
  CHECK(refused(right, 7, {5}, {10}) && refused(right, 7, {6}, {0}) && refused(right, 7, {6}, {}));
  CHECK(refused(right, 7, {-1}, {10}) && refused(right, 8, {7, 6}, {1, 1}));
  Plan wrong = right;
  wrong.first = {0, 0, 3};
  CHECK(refused(wrong, 6));
  wrong = right;
  wrong.size[2] = 0;
  CHECK(refused(wrong, 6));
}

TEST(planfile_that_is_not_usable) {
  CHECK(is_usable(plan_files::plan_set(graph())));
  for (const int64_t offset : {64, 1, 192, -64}) {
    Plan moved = graph();
    moved.offsets[1] = offset;
    const File file(plan_files::graph_file(plan_files::plan_set(moved)));
    CHECK(offset < 0 ? file.held == nullptr : file.set().is_usable == 0);
  }
  for (const int slot : {10, 11, 13}) {  // reserved bytes, overlaps, regions
    Table set = plan_files::plan_set(graph());
    std::get<Table>(set[0].held)[slot] = {plan_files::Numbers{0, 1, 64}};
    CHECK(!is_usable(set));
  }
  Table ordered = plan_files::plan_set(graph());
  ordered[12] = {plan_files::Numbers{0, 1, 2}};
  CHECK(is_usable(ordered));
  ordered[12] = {plan_files::Numbers{0, 2, 1}};
  CHECK(!is_usable(ordered));
  ordered[12] = {plan_files::Numbers{0, 2, 2}};
  CHECK(File(plan_files::graph_file(ordered)).held == nullptr);
  Table bare = plan_files::plan_set(graph());
  bare.erase(4);
  const File file(plan_files::graph_file(bare));
  em_record record;
  CHECK(em_planfile_record(file.held, 0, 0, &record) == EM_OK);
  CHECK(file.set().is_usable == 0 && file.set().arena == 0 && record.offset == -1);
}

TEST(planfile_header_and_length) {
  const Octets right = plan_files::graph_file(plan_files::plan_set(graph()));
  for (std::size_t count = 0; count < right.size(); ++count) {
    CHECK(File({right.begin(), right.begin() + static_cast<std::ptrdiff_t>(count)}).held == nullptr);
  }
  for (std::size_t at = 0; at < right.size(); ++at) {  // the checksum sees each byte
    Octets wrong = right;
    wrong[at] ^= 0x10;
    CHECK(File(wrong).held == nullptr);
  }
  Octets newer = right;
  newer[4] = 5;
  CHECK(refuses(newer, "version 5"));
  CHECK(refuses({}, "too short"));
  CHECK(em_planfile_read(nullptr, 10, EM_FORM_PLANFILE) == nullptr);
  CHECK(em_planfile_read(right.data(), -1, EM_FORM_PLANFILE) == nullptr);
  CHECK(refuses(right, "form", 3));
  em_planfile_release(nullptr);
  CHECK(em_planfile_sets(nullptr) == 0 && em_planfile_set(nullptr, 0, nullptr) == EM_REFUSED);
}

TEST(planfile_in_an_onnx_model) {
  const Octets plan = plan_files::graph_file(plan_files::plan_set({{}, {}, {}, {}, {}, {}, 0}));
  const std::string value = base64(plan);
  std::string entry = field(1, "edgemem.plan");
  entry +=
      std::string{2 << 3 | 2} + static_cast<char>(0x80 | (value.size() & 127)) + static_cast<char>(value.size() >> 7);
  entry += value;
  std::string model = field(2, "producer") + std::string{14 << 3 | 2};
  model += static_cast<char>(0x80 | (entry.size() & 127));
  model += static_cast<char>(entry.size() >> 7);
  model += entry;
  CHECK(File(octets(model), EM_FORM_ONNX).held != nullptr);
  CHECK(refuses(octets(field(2, "producer")), "carries no plan", EM_FORM_ONNX));
  CHECK(refuses(octets(model.substr(0, model.size() - 1)), "damaged", EM_FORM_ONNX));
  CHECK(refuses(octets(model.substr(0, model.size() - 1) + "*"), "base64", EM_FORM_ONNX));
  CHECK(refuses(octets(std::string(12, '\xFF')), "no end", EM_FORM_ONNX));
  CHECK(refuses(octets("\x0B"), "group", EM_FORM_ONNX));
  CHECK(refuses({}, "empty", EM_FORM_ONNX));
}

TEST(planfile_in_a_tflite_model) {
  const Octets plan = plan_files::graph_file(plan_files::plan_set(graph()));
  const Table metadata{{0, {std::string("edgemem.plan")}}};  // its buffer is number 0
  const Table model{{4, {std::vector<Table>{Table{{0, {plan}}}}}}, {6, {std::vector<Table>{metadata}}}};
  const Octets right = plan_files::Writer::write(model, "TFL3");
  CHECK(File(right, EM_FORM_TFLITE).set().arena == 188);
  for (std::size_t count = 0; count < right.size(); ++count) {
    const File cut({right.begin(), right.begin() + static_cast<std::ptrdiff_t>(count)}, EM_FORM_TFLITE);
    CHECK(cut.held == nullptr || count + 8 > right.size());  // padding may be missing
  }
  Table behind = model;
  behind[4] = {std::vector<Table>{Table{{1, {static_cast<int64_t>(right.size())}}, {2, {int64_t{50}}}}}};
  CHECK(refuses(plan_files::Writer::write(behind, "TFL3"), "beyond its end", EM_FORM_TFLITE));
  CHECK(refuses(plan_files::Writer::write({}, "TFL3"), "carries no plan", EM_FORM_TFLITE));
  CHECK(refuses(plan, "no TFLite model", EM_FORM_TFLITE));
}
