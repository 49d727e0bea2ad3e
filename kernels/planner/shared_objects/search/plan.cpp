#include "planner/shared_objects/search/plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/shared_objects/assignment.h"
#include "planner/shared_objects/object_table.h"
#include "planner/shared_objects/positional_maxima.h"

namespace edgemem::object_search {
namespace {

constexpr std::size_t kMostNearest = 2'000;  // records for which rules of O(n^2) are still quick

template <std::size_t Rank>
void add_empty(const ObjectRecords& records, std::vector<std::int64_t>& assignment) {
  ObjectTable<Rank> table(records);
  std::int64_t objects = 0;
  for (std::size_t i = 0; i < records.count(); ++i) {
    if (assignment[i] < 0) continue;
    if (assignment[i] == objects) {
      table.open(i);
      ++objects;
    } else {
      table.join(static_cast<std::size_t>(assignment[i]), i);
    }
  }
  for (std::size_t i = 0; i < records.count(); ++i) {
    if (assignment[i] >= 0) continue;
    std::size_t object = 0;
    while (object < table.count() && (table.growth(object, i) > 0 || !table.is_free(object, i))) ++object;
    assignment[i] = static_cast<std::int64_t>(object);
    if (object == table.count()) {
      table.open(i);
    } else {
      table.join(object, i);
    }
  }
}

void renumber(std::vector<std::int64_t>& assignment) {
  std::vector<std::int64_t> number(assignment.size(), -1);
  std::int64_t next = 0;
  for (std::int64_t& object : assignment) {
    if (object < 0) continue;
    std::int64_t& name = number[static_cast<std::size_t>(object)];
    if (name < 0) name = next++;
    object = name;
  }
}

// Each item takes the object that was freed last, or a new one.
Plan reuse_objects(const Items& items) {
  std::vector<std::int32_t> by_end(static_cast<std::size_t>(items.count()));
  std::iota(by_end.begin(), by_end.end(), 0);
  std::stable_sort(by_end.begin(), by_end.end(), [&](std::int32_t a, std::int32_t b) {
    return items.end[static_cast<std::size_t>(a)] < items.end[static_cast<std::size_t>(b)];
  });
  std::vector<std::int32_t> places(by_end.size());
  std::vector<std::int32_t> free;
  std::int32_t objects = 0;
  auto ended = by_end.begin();
  for (std::size_t item = 0; item < places.size(); ++item) {  // ascending in begin
    for (; items.end[static_cast<std::size_t>(*ended)] <= items.begin[item]; ++ended) {
      free.push_back(places[static_cast<std::size_t>(*ended)]);
    }
    if (free.empty()) free.push_back(objects++);
    places[item] = free.back();
    free.pop_back();
  }
  return plan_of(items, places);
}

}  // namespace

Plan plan_of(const Items& items, std::span<const std::int32_t> places) {
  Plan plan;
  plan.object.reserve(places.size());
  std::vector<std::int32_t> number(
      places.empty() ? 0 : std::size_t(*std::max_element(places.begin(), places.end())) + 1, -1);
  for (std::int32_t item = 0; item < items.count(); ++item) {
    std::int32_t& name = number[static_cast<std::size_t>(places[static_cast<std::size_t>(item)])];
    const Box& box = items.box_of(item);
    if (name < 0) {
      name = static_cast<std::int32_t>(plan.boxes.size());
      plan.boxes.push_back(box);
    } else {
      Box& object = plan.boxes[static_cast<std::size_t>(name)];
      object = cover(object, box);
    }
    plan.object.push_back(name);
  }
  for (const Box& box : plan.boxes) plan.total += content(box);
  return plan;
}

Plan first_plan(const ObjectRecords& records, const Items& items, First rules) {
  if (rules == First::kReuse) return reuse_objects(items);
  const std::size_t n = records.count();
  std::vector<std::int64_t> size(n, 0);
  for (std::int32_t p = 0; p < items.count(); ++p) {
    size[items.record[static_cast<std::size_t>(p)]] = content(items.box_of(p));
  }
  std::vector<std::int64_t> by_size(n);
  std::iota(by_size.begin(), by_size.end(), 0);
  std::vector<std::int64_t> by_time = by_size;
  const auto at = [](Column column, std::int64_t i) { return column[static_cast<std::size_t>(i)]; };
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::int64_t a, std::int64_t b) { return at(size, a) > at(size, b); });
  std::stable_sort(by_time.begin(), by_time.end(),
                   [&](std::int64_t a, std::int64_t b) { return at(records.first, a) < at(records.first, b); });
  std::vector<std::vector<std::int64_t>> found{assign_in_order(records, by_size, Pick::kFirst)};
  if (rules == First::kAll) {
    found.push_back(assign_in_order(records, by_size, Pick::kClosest));
    found.push_back(assign_in_order(records, by_time, Pick::kClosest));
  }
  if (rules == First::kAll && n <= kMostNearest) {
    const std::vector<std::int64_t> maxima = positional_maxima({records.first, records.last, size});
    std::vector<std::int64_t> stage;
    for (const std::int64_t s : size) {
      stage.push_back(std::partition_point(maxima.begin(), maxima.end(), [s](std::int64_t m) { return m >= s; }) -
                      maxima.begin());
    }
    found.push_back(assign_nearest(records, stage, false));
    found.push_back(assign_nearest(records, stage, true));
  }
  Plan best;
  for (const std::vector<std::int64_t>& assignment : found) {
    std::vector<std::int32_t> places;
    for (const std::size_t record : items.record) places.push_back(static_cast<std::int32_t>(assignment[record]));
    Plan plan = plan_of(items, places);
    if (best.object.empty() || plan.total < best.total) best = std::move(plan);
  }
  return best;
}

std::vector<std::int64_t> assignment_of(const ObjectRecords& records, const Items& items, const Plan& plan) {
  std::vector<std::int64_t> assignment(records.count(), -1);
  for (std::size_t p = 0; p < plan.object.size(); ++p) assignment[items.record[p]] = plan.object[p];
  renumber(assignment);
  if (plan.object.size() < assignment.size()) {
    switch (records.rank) {
      case 1:
        add_empty<1>(records, assignment);
        break;
      case 2:
        add_empty<2>(records, assignment);
        break;
      default:
        add_empty<3>(records, assignment);
    }
    renumber(assignment);
  }
  return assignment;
}

}  // namespace edgemem::object_search
