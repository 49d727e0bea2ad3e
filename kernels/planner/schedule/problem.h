// What a search for an order of operators reads. edgemem/schedule/problem.py says what each field means, with a
// drawing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace edgemem::schedule {

using Id = std::int32_t;  // the number of an operator, or of a class of memory
using Ids = std::span<const Id>;
using Numbers = std::vector<std::int64_t>;

// Lists of numbers, end to end in one array.
class Lists {
 public:
  Lists() = default;
  // Throws std::invalid_argument, with the field's name, unless there are `count` lists of numbers from 0 to
  // limit - 1, and none has a number twice.
  Lists(const char* field, const std::vector<Numbers>& lists, std::size_t count, std::size_t limit);

  Id count() const { return static_cast<Id>(begin_.size()) - 1; }
  Ids operator[](Id list) const {
    const auto at = static_cast<std::size_t>(list);
    return {items_.data() + begin_[at], begin_[at + 1] - begin_[at]};
  }
  // For each number below `limit` the lists that have it, ascending.
  Lists inverse(std::size_t limit) const;

 private:
  std::vector<std::size_t> begin_{0};
  std::vector<Id> items_;
};

// The fields of the Python class, as they come.
struct Fields {
  std::vector<Numbers> before;
  Numbers size;
  std::vector<Numbers> reads;
  std::vector<Numbers> writes;
  std::vector<Numbers> over;
  Numbers start;
  Numbers kept;
  Numbers lingers;
  Numbers guarded;
  Numbers own;
  Numbers inside;
  Numbers early;
  Numbers leaves;
  Numbers entry;
  std::int64_t opening = 0;
};

struct Problem {
  // Throws std::invalid_argument for numbers of operators or classes that there are not; a class that is written twice,
  // or although it is alive before the first operator, or read and neither; memory that an operator may take without
  // reading it or without a result as large; a circle in `before`; negative sizes, and sums that int64 does not hold.
  explicit Problem(const Fields& fields);

  Id count() const { return before.count(); }
  Id classes() const { return static_cast<Id>(size.size()); }

  // For each operator.
  Lists before;
  Lists after;  // those that wait for it
  Lists reads;
  Lists writes;
  Lists over;
  Numbers own;
  Numbers inside;
  Numbers early;
  Numbers leaves;
  Numbers entry;
  Numbers born;     // the size of all of its results
  Numbers staying;  // what is alive after it of its results and bodies

  // For each class.
  Numbers size;
  Lists readers;
  std::vector<Id> writer;     // -1: none
  std::vector<char> present;  // in `start`
  std::vector<char> kept;
  std::vector<char> lingers;
  std::vector<char> guarded;

  std::int64_t at_start = 0;  // the size of all classes in `start`
  std::int64_t opening = 0;
};

}  // namespace edgemem::schedule
