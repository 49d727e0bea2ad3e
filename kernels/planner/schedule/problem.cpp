#include "planner/schedule/problem.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace edgemem::schedule {

namespace {

// A peak adds up three kinds of sizes at most: what is alive, what an operator adds, what is there at the first step.
constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max() / 4;

[[noreturn]] void refuse(const char* field, const std::string& why) {
  throw std::invalid_argument(std::string(field) + ": " + why);
}

Numbers checked(const char* field, const Numbers& sizes, std::size_t count) {
  if (sizes.size() != count) {
    refuse(field, "has " + std::to_string(sizes.size()) + " numbers, not " + std::to_string(count));
  }
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0) refuse(field, "a size is negative");
    if (size > kMostBytes - sum) refuse(field, "the sizes add up to more than int64 holds");
    sum += size;
  }
  return sizes;
}

std::vector<char> marks(const char* field, const Numbers& classes, std::size_t count) {
  std::vector<char> marked(count, 0);
  for (const std::int64_t c : classes) {
    if (c < 0 || static_cast<std::size_t>(c) >= count) refuse(field, "there is no class " + std::to_string(c));
    char& mark = marked[static_cast<std::size_t>(c)];
    if (mark != 0) refuse(field, "class " + std::to_string(c) + " stands there twice");
    mark = 1;
  }
  return marked;
}

void check_no_circle(const Problem& problem) {
  std::vector<std::size_t> waits;
  std::vector<Id> ready;
  for (Id k = 0; k < problem.count(); ++k) {
    waits.push_back(problem.before[k].size());
    if (waits.back() == 0) ready.push_back(k);
  }
  std::size_t run = 0;
  for (; run < ready.size(); ++run) {
    for (const Id then : problem.after[ready[run]]) {
      if (--waits[static_cast<std::size_t>(then)] == 0) ready.push_back(then);
    }
  }
  if (run != waits.size()) refuse("before", "operators wait for each other in a circle");
}

}  // namespace

Lists::Lists(const char* field, const std::vector<Numbers>& lists, std::size_t count, std::size_t limit) {
  if (lists.size() != count) {
    refuse(field, "has " + std::to_string(lists.size()) + " lists, not " + std::to_string(count));
  }
  if (std::max(count, limit) >= static_cast<std::size_t>(std::numeric_limits<Id>::max())) {
    refuse(field, "there are more than 2^31 - 1 operators or classes");
  }
  std::vector<std::size_t> in(limit, count);  // the last list that a number was in
  for (std::size_t at = 0; at < count; ++at) {
    for (const std::int64_t n : lists[at]) {
      if (n < 0 || static_cast<std::size_t>(n) >= limit) refuse(field, "there is no number " + std::to_string(n));
      if (in[static_cast<std::size_t>(n)] == at) {
        refuse(field, "list " + std::to_string(at) + " has " + std::to_string(n) + " twice");
      }
      in[static_cast<std::size_t>(n)] = at;
      items_.push_back(static_cast<Id>(n));
    }
    begin_.push_back(items_.size());
  }
}

Lists Lists::inverse(std::size_t limit) const {
  Lists made;
  made.begin_.assign(limit + 1, 0);
  for (const Id n : items_) ++made.begin_[static_cast<std::size_t>(n) + 1];
  for (std::size_t n = 0; n < limit; ++n) made.begin_[n + 1] += made.begin_[n];
  made.items_.resize(items_.size());
  std::vector<std::size_t> next(made.begin_.begin(), made.begin_.end() - 1);
  for (Id list = 0; list < count(); ++list) {
    for (const Id n : (*this)[list]) made.items_[next[static_cast<std::size_t>(n)]++] = list;
  }
  return made;
}

Problem::Problem(const Fields& fields) {
  const std::size_t operators = fields.before.size();
  const std::size_t all = fields.size.size();
  before = Lists("before", fields.before, operators, operators);
  after = before.inverse(operators);
  check_no_circle(*this);
  reads = Lists("reads", fields.reads, operators, all);
  writes = Lists("writes", fields.writes, operators, all);
  over = Lists("over", fields.over, operators, all);
  own = checked("own", fields.own, operators);
  inside = checked("inside", fields.inside, operators);
  early = checked("early", fields.early, operators);
  leaves = checked("leaves", fields.leaves, operators);
  entry = checked("entry", fields.entry, operators);
  size = checked("size", fields.size, all);
  opening = checked("opening", {fields.opening}, 1).front();
  readers = reads.inverse(all);
  present = marks("start", fields.start, all);
  kept = marks("kept", fields.kept, all);
  lingers = marks("lingers", fields.lingers, all);
  guarded = marks("guarded", fields.guarded, all);

  std::int64_t sum = 0;
  for (const Numbers* sizes : {&own, &inside, &early, &leaves, &entry, &size}) {
    for (const std::int64_t bytes : *sizes) {
      if (bytes > kMostBytes - sum) refuse("size", "all sizes add up to more than int64 holds");
      sum += bytes;
    }
  }
  writer.assign(all, -1);
  for (std::size_t c = 0; c < all; ++c) at_start += present[c] != 0 ? size[c] : 0;
  for (Id k = 0; k < count(); ++k) {
    const std::string name = "operator " + std::to_string(k);
    born.push_back(0);
    staying.push_back(leaves[static_cast<std::size_t>(k)]);
    for (const Id written : writes[k]) {
      const auto c = static_cast<std::size_t>(written);
      if (writer[c] >= 0 || present[c] != 0) refuse("writes", name + " writes a class that is already alive");
      writer[c] = k;
      born.back() += size[c];
      if (!readers[written].empty() || kept[c] != 0 || lingers[c] != 0) staying.back() += size[c];
    }
    for (const Id taken : over[k]) {
      if (writes[k].empty()) refuse("over", name + " has no result that could take memory");
      const Ids read = reads[k];
      if (std::find(read.begin(), read.end(), taken) == read.end()) {
        refuse("over", name + " may take a class that it does not read");
      }
      if (size[static_cast<std::size_t>(taken)] != size[static_cast<std::size_t>(writes[k].front())]) {
        refuse("over", name + " may take a class that is not as large as its first result");
      }
    }
  }
  for (Id c = 0; c < classes(); ++c) {
    const auto at = static_cast<std::size_t>(c);
    if (!readers[c].empty() && writer[at] < 0 && present[at] == 0) {
      refuse("reads", "class " + std::to_string(c) + " is read and never written");
    }
  }
}

}  // namespace edgemem::schedule
