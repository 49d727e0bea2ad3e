// The stream of a recording, and the proof of places.
#include <algorithm>
#include <map>
#include <numeric>

#include "android/plan_sets.h"

namespace edgemem {

namespace {

struct Request {
  std::int64_t start;
  std::int64_t end;  // the number of events if nothing frees it
  std::int64_t size;
  std::int64_t offset;
};

bool ascends(const std::vector<std::int64_t>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
}

std::vector<Request> requests_of(const std::vector<PlacedRecord>& records, const HeapRequests& heap,
                                 std::int64_t count) {
  std::vector<Request> all;
  all.reserve(records.size() + heap.events.size());
  for (const PlacedRecord& record : records) {
    if (!all.empty() && record.first <= all.back().start) {
      throw Refusal("the requests are not in the order of their events");
    }
    if (record.last >= count) throw Refusal("a request ends after the last of the events");
    all.push_back({record.first, record.last + 1, record.size, record.offset});
  }
  for (std::size_t k = 0; k < heap.events.size(); ++k) {
    const std::int64_t end = heap.ends[k] < 0 ? count : heap.ends[k];
    if (heap.events[k] < 0 || heap.ends[k] < -1 || heap.ends[k] >= count || end <= heap.events[k]) {
      throw Refusal("a request on the heap has an event that is none, or ends before it begins");
    }
    all.push_back({heap.events[k], end, heap.sizes[k], -1});
  }
  if (std::any_of(all.begin(), all.end(), [](const Request& r) { return r.size <= 0; })) {
    throw Refusal("a request asks for no bytes");
  }
  double total = 0;
  for (const Request& r : all) total += static_cast<double>(r.size);
  if (total >= 0x1p62) throw Refusal("the sizes add up to more than int64 holds");
  return all;
}

}  // namespace

Stream stream_of(const std::vector<PlacedRecord>& records, const HeapRequests& heap, std::int64_t count) {
  if (heap.sizes.size() != heap.events.size() || heap.ends.size() != heap.events.size()) {
    throw Refusal("the columns of requests on the heap differ in length");
  }
  if (!ascends(heap.events)) throw Refusal("the requests are not in the order of their events");
  std::vector<Request> requests = requests_of(records, heap, count);
  const auto freed = std::count_if(requests.begin(), requests.end(), [=](const Request& r) { return r.end < count; });
  if (count != static_cast<std::int64_t>(requests.size()) + static_cast<std::int64_t>(freed)) {
    throw Refusal("%lld events for %zu requests, of which %lld are freed", static_cast<long long>(count),
                  requests.size(), static_cast<long long>(freed));
  }
  std::sort(requests.begin(), requests.end(), [](const Request& a, const Request& b) { return a.start < b.start; });
  Stream stream;
  stream.events.assign(static_cast<std::size_t>(count), 0);
  stream.offsets.reserve(requests.size());
  const auto set = [&](std::int64_t event, std::int64_t code) {
    std::int64_t& at = stream.events[static_cast<std::size_t>(event)];
    if (at != 0) throw Refusal("events are missing, or one belongs to two requests");
    at = code;
  };
  for (std::size_t k = 0; k < requests.size(); ++k) {  // as many as there are events: none is left out
    set(requests[k].start, requests[k].size);
    if (requests[k].end < count) set(requests[k].end, -static_cast<std::int64_t>(k) - 1);
    stream.offsets.push_back(requests[k].offset);
  }
  return stream;
}

std::string about_record(std::size_t record, const char* text) {
  std::string all = "record ";
  all += std::to_string(record);
  return all += text;
}

std::string fault_of(const PlanSet& set) {
  const std::vector<PlacedRecord>& records = set.records;
  std::vector<std::size_t> births;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const PlacedRecord& r = records[i];
    if (r.offset < 0 || r.offset % set.alignment != 0 || r.size > set.arena || r.offset > set.arena - r.size) {
      return about_record(i, " is outside of the arena or misaligned");
    }
    if (r.size > 0) births.push_back(i);
  }
  std::vector<std::size_t> deaths = births;
  std::sort(births.begin(), births.end(),
            [&](std::size_t a, std::size_t b) { return records[a].first < records[b].first; });
  std::sort(deaths.begin(), deaths.end(),
            [&](std::size_t a, std::size_t b) { return records[a].last < records[b].last; });
  std::map<std::int64_t, std::int64_t> alive;  // offset -> end
  auto death = deaths.begin();
  for (const std::size_t i : births) {
    const PlacedRecord& r = records[i];
    for (; records[*death].last < r.first; ++death) alive.erase(records[*death].offset);
    const auto after = alive.lower_bound(r.offset);
    if ((after != alive.end() && after->first < r.offset + r.size) ||
        (after != alive.begin() && std::prev(after)->second > r.offset)) {
      return about_record(i, " overlaps another one that is in use at the same time");
    }
    alive.emplace_hint(after, r.offset, r.offset + r.size);
  }
  return {};
}

}  // namespace edgemem
