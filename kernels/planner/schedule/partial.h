// An order in the making: the operators that have run, what is alive, and what each ready operator would change.
//
// The bytes alive between two operators depend on which operators have run, not on their order: a class is alive once
// it is written, until its last reader is done. So running an operator changes them by a figure (`Effect::change`) that
// depends only on which of its inputs have no other reader left, and counts of readers are enough to keep the figures
// of all ready operators up to date. The one exception is a class whose fate depends on whether it took the memory of
// an input (Problem::lingers, guarded): that is remembered.
//
//     operators that have run | ready | waiting for some | waiting for all that they need
//     ########################|+++++++|~~~~~~~~~~~~~~~~~~|...............................
//                              `----- the window -------'
//
// A saved state holds the window alone, with the classes that have been read by some readers and not by all. So it is
// as large as what is in progress, not as the graph.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "planner/schedule/problem.h"

namespace edgemem::schedule {

// What an operator would do if it ran next; effects sort by what is best to run first.
struct Effect {
  std::int64_t change;  // how many more bytes are alive after it than before; may be negative
  std::int64_t rise;    // how many more bytes are alive while it runs than before
  Id op;

  auto operator<=>(const Effect&) const = default;
};

// Stands for the operators that have run and what is remembered. Two states with one key by chance are as good as
// impossible: 2^-128 for each pair.
struct Key {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  Key operator^(const Key& other) const { return {low ^ other.low, high ^ other.high}; }
  auto operator<=>(const Key&) const = default;
};

// What `Partial::load` goes on from. Sets of operators that have run and memories are equal where keys are.
struct Saved {
  std::int64_t live = 0;
  std::int64_t peak = 0;
  Key key;
  Id done = 0;  // how many operators have run
  std::vector<Id> window;
  std::vector<Effect> ready;
};

class Partial {
 public:
  // Nothing has run. The problem must outlive it.
  explicit Partial(const Problem& problem);

  std::int64_t live() const { return live_; }  // bytes alive now
  std::int64_t peak() const { return peak_; }  // the most that were alive so far
  const Key& key() const { return key_; }
  Id done() const { return done_; }
  // The operators that could run next, in no order that means anything.
  const std::vector<Id>& ready() const { return ready_.items; }
  bool is_ready(Id k) const { return ready_.has(k); }
  // Of an operator that is not ready and has not run: how many others it waits for.
  Id waits(Id k) const { return waits_[static_cast<std::size_t>(k)]; }
  // Of a class with readers that have not run: how many.
  Id left(Id c) const { return left_[static_cast<std::size_t>(c)]; }
  // Of such a class: whether its last reader may take its memory.
  bool is_takable(Id c) const {
    return problem_->guarded[static_cast<std::size_t>(c)] == 0 || taken_[static_cast<std::size_t>(c)] != 0;
  }

  // The rest is about ready operators.
  const Effect& effect(Id k) const { return effects_[static_cast<std::size_t>(k)]; }
  std::int64_t peak_after(const Effect& effect) const;
  // The key once it has run.
  Key key_after(Id k) const;
  // Whether it might find better use for its first result's memory if it ran later.
  bool may_regret(Id k) const;
  // Whether running it first may deny another operator the memory of an input: where two inputs could be taken and
  // the one to be met first would end the search for one (Problem::guarded).
  bool may_spoil(Id k) const { return spoils_[static_cast<std::size_t>(k)] != 0; }
  // Whether what it takes is remembered.
  bool is_marked(Id k) const;
  // Runs it. Appends the operators whose effect is new, because they became ready or the last reader of something.
  void run(Id k, std::vector<Id>& renewed);

  Saved save() const;
  void load(const Saved& saved);

 private:
  // A set with its members in an array.
  struct Members {
    std::vector<Id> items;
    std::vector<Id> place;  // of each number in items, or -1

    bool has(Id n) const { return place[static_cast<std::size_t>(n)] >= 0; }
    void insert(Id n);
    void erase(Id n);
    void clear();
  };

  Id overwritten(Id k) const;
  Id remembers(Id k) const;
  Effect effect_of(Id k) const;
  void forget();

  const Problem* problem_;
  std::int64_t live_;
  std::int64_t peak_;
  std::int64_t opening_;
  Key key_;
  Id done_ = 0;
  // Of operators that have not run and classes that have readers left. The others have the figures of the beginning.
  std::vector<Id> left_;      // of each class: readers that have not run
  std::vector<Id> last_;      // of each class: the exclusive or of their numbers, so of one reader its number
  std::vector<Id> every_;     // the same of all of its readers
  std::vector<char> taken_;   // of each guarded class: whether it took the memory of an input
  std::vector<Id> waits_;     // of each operator that is not ready: those it waits for
  std::vector<char> spoils_;  // of each operator
  std::vector<Effect> effects_;
  std::vector<Key> marks_;  // of operators, then of classes: what they add to a key
  Members ready_;
  Members begun_;    // classes that differ from the beginning
  Members waiting_;  // operators that wait for fewer than in the beginning, and for some
};

// The most that is alive at once in an order. Throws std::invalid_argument if an operator runs before those that it
// waits for, twice, or never.
std::int64_t peak(const Problem& problem, std::span<const std::int64_t> order);

// Always the ready operator with the least effect: the fewest bytes alive after it, then while it runs, then the first.
Numbers greedy(const Problem& problem);

}  // namespace edgemem::schedule
