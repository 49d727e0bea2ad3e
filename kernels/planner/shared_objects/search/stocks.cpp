#include "planner/shared_objects/search/stocks.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/common/splitmix64.h"

namespace edgemem::object_search {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kMostPool = std::size_t{1} << 23;  // boxes of all stocks together: 32 MiB

}  // namespace

std::size_t Boxes::Hash::operator()(const Box& box) const {
  std::uint64_t hash = 0;
  for (const std::int64_t side : box) hash = splitmix64(hash + static_cast<std::uint64_t>(side));
  return hash;
}

std::int32_t Boxes::number(const Box& box) {
  const auto [at, made] = number_.try_emplace(box, static_cast<std::int32_t>(box_.size()));
  if (made) {
    box_.push_back(box);
    content_.push_back(content(box));
  }
  return at->second;
}

Stocks::Stocks(const Items& items, const std::vector<Box>& start, Budget& budget)
    : items_(items),
      budget_(budget),
      fitting_(items, budget),
      steps_per_question_(10'000 + 10 * items.count()),
      seen_(0, SameBoxes{&pool_}, SameBoxes{&pool_}) {
  std::vector<std::int32_t> stock;
  for (const Box& box : start) stock.push_back(boxes_.number(box));
  push(std::move(stock), 0);
  bound_ = open_.top().bound;
}

std::vector<Box> Stocks::boxes_of(const Node& node) const {
  std::vector<Box> boxes;
  for (std::size_t i = 0; i < node.count; ++i) boxes.push_back(boxes_.box(pool_[node.from + i]));
  return boxes;
}

std::int64_t Stocks::content_of(const Node& node) const {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < node.count; ++i) total += boxes_.content_of(pool_[node.from + i]);
  return total;
}

void Stocks::push(std::vector<std::int32_t> stock, std::int64_t bound) {
  std::sort(stock.begin(), stock.end());
  Node node{0, pool_.size(), static_cast<std::uint32_t>(stock.size())};
  pool_.insert(pool_.end(), stock.begin(), stock.end());
  if (!seen_.insert({node.from, node.count}).second) {
    pool_.resize(node.from);
    return;
  }
  node.bound = std::max(bound, content_of(node));
  open_.push(node);
}

std::size_t Stocks::SameBoxes::operator()(const Stretch& stretch) const {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < stretch.count; ++i) {
    hash = splitmix64(hash + static_cast<std::uint64_t>((*pool)[stretch.from + i]));
  }
  return hash;
}

bool Stocks::SameBoxes::operator()(const Stretch& a, const Stretch& b) const {
  const auto at = [this](std::size_t i) { return pool->begin() + static_cast<std::ptrdiff_t>(i); };
  return std::equal(at(a.from), at(a.from + a.count), at(b.from), at(b.from + b.count));
}

std::int64_t Stocks::least_growth(const Node& node, const Core& core) const {
  std::int64_t least = kNoLimit;
  for (const std::int32_t t : core.types) {
    const Box& item = items_.box[static_cast<std::size_t>(t)];
    least = std::min(least, content(item));
    for (std::size_t i = 0; i < node.count; ++i) {
      const Box& box = boxes_.box(pool_[node.from + i]);
      if (!holds(box, item)) least = std::min(least, content(cover(box, item)) - content(box));
    }
  }
  return least;
}

std::optional<std::size_t> Stocks::worst_core(const Node& node, std::span<const Box> stock, std::int64_t& growth) {
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (std::size_t c = 0; c < cores_.size(); ++c) {
    if (!budget_.spend(1)) return std::nullopt;
    order.emplace_back(-least_growth(node, cores_[c]), c);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [growth_down, c] : order) {
    const Fitting::Answer answer = fitting_.run(stock, cores_[c].items, steps_per_question_);
    if (answer == Fitting::Answer::kUnknown) return std::nullopt;
    if (answer == Fitting::Answer::kFits) continue;
    growth = -growth_down;
    return c;
  }
  return cores_.size();
}

// Leaves out items that the core does not need: the earliest, the latest, then item by item, the smallest first.
std::optional<std::vector<std::int32_t>> Stocks::shrink_core(std::span<const Box> stock,
                                                             std::vector<std::int32_t> core) {
  const auto fails = [&](std::span<const std::int32_t> some) {
    return fitting_.run(stock, some, steps_per_question_) == Fitting::Answer::kDoesNot;
  };
  // Short ones ending where it failed are cheap to refute, so they come first.
  const auto tail = [&](std::size_t count) { return std::span(core).last(count); };
  std::size_t few = 0;
  std::size_t enough = core.size();
  for (std::size_t count = 8; count < enough; count *= 2) {
    if (fails(tail(count))) {
      enough = count;
    } else {
      few = count;
    }
  }
  while (few + 1 < enough) {
    const std::size_t middle = (few + enough) / 2;
    (fails(tail(middle)) ? enough : few) = middle;
  }
  core.erase(core.begin(), core.end() - static_cast<std::ptrdiff_t>(enough));
  enough = core.size();
  for (few = 0; few + 1 < enough;) {
    const std::size_t middle = (few + enough) / 2;
    (fails(std::span(core).first(middle)) ? enough : few) = middle;
  }
  core.resize(enough);
  std::vector<std::int32_t> smallest = core;
  std::stable_sort(smallest.begin(), smallest.end(), [&](std::int32_t a, std::int32_t b) {
    return items_.type[static_cast<std::size_t>(a)] < items_.type[static_cast<std::size_t>(b)];
  });
  std::vector<bool> left_out(static_cast<std::size_t>(items_.count()), false);
  for (std::size_t chunk = std::max<std::size_t>(smallest.size() / 2, 1);; chunk = (chunk + 1) / 2) {
    for (std::size_t from = 0; from < smallest.size();) {
      const std::size_t to = std::min(from + chunk, smallest.size());
      for (std::size_t i = from; i < to; ++i) left_out[static_cast<std::size_t>(smallest[i])] = true;
      std::vector<std::int32_t> rest;
      std::copy_if(core.begin(), core.end(), std::back_inserter(rest),
                   [&](std::int32_t item) { return !left_out[static_cast<std::size_t>(item)]; });
      for (std::size_t i = from; i < to; ++i) left_out[static_cast<std::size_t>(smallest[i])] = false;
      if (!rest.empty() && fails(rest)) {
        core = fitting_.misfits();
        std::erase_if(smallest, [&](std::int32_t item) { return !std::binary_search(core.begin(), core.end(), item); });
      } else {
        from = to;
      }
    }
    if (chunk == 1) break;
  }
  if (budget_.out_of_work() || budget_.out_of_time()) return std::nullopt;
  return core;
}

void Stocks::branch(const Node& node, const Core& core, std::int64_t ceiling) {
  const std::int64_t own = content_of(node);
  const auto minimal = [](const std::vector<Box>& boxes, std::size_t a) {
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      if (a != b && holds(boxes[a], boxes[b]) && (boxes[a] != boxes[b] || b < a)) return false;
    }
    return true;
  };
  std::vector<Box> wider;
  for (std::size_t i = 0; i <= node.count; ++i) {  // the last is a box more
    if (i > 0 && i < node.count && pool_[node.from + i] == pool_[node.from + i - 1]) continue;
    const Box box = i < node.count ? boxes_.box(pool_[node.from + i]) : Box{0, 0, 0};
    wider.clear();
    for (const std::int32_t t : core.types) {
      const Box& item = items_.box[static_cast<std::size_t>(t)];
      if (!holds(box, item)) wider.push_back(cover(box, item));
    }
    for (std::size_t a = 0; a < wider.size(); ++a) {
      if (content(wider[a]) - content(box) >= ceiling - own || !minimal(wider, a)) continue;
      budget_.spend(1);
      const auto from = pool_.begin() + static_cast<std::ptrdiff_t>(node.from);
      std::vector<std::int32_t> stock(from, from + node.count);
      if (i == node.count) stock.push_back(0);
      stock[i] = boxes_.number(wider[a]);
      push(std::move(stock), node.bound);
    }
  }
}

// Asks for the large items first, then for more and more of the smaller ones: a core of large items refutes more
// stocks.
Fitting::Answer Stocks::fit_all(std::span<const Box> stock) {
  std::vector<std::int32_t> members;
  std::size_t before = 0;
  for (std::int64_t least = content(items_.box.back()) / 2;; least /= 2) {
    members.clear();
    for (std::int32_t item = 0; item < items_.count(); ++item) {
      if (content(items_.box_of(item)) > least) members.push_back(item);
    }
    if (members.size() > before) {
      before = members.size();
      const Fitting::Answer answer = fitting_.run(stock, members, steps_per_question_);
      if (answer != Fitting::Answer::kFits) return answer;
    }
    if (least == 0) return Fitting::Answer::kFits;
  }
}

Stocks::Turn Stocks::give_up() {
  steps_per_question_ *= 2;
  return budget_.out_of_work() || budget_.out_of_time() ? Turn::kSpent : Turn::kGoesOn;
}

Stocks::Turn Stocks::step(std::int64_t ceiling) {
  if (open_.empty() || open_.top().bound >= ceiling) {
    bound_ = ceiling;
    return Turn::kExhausted;
  }
  if (pool_.size() >= kMostPool) return Turn::kFull;
  Node node = open_.top();
  bound_ = node.bound;
  const std::vector<Box> stock = boxes_of(node);
  std::int64_t growth = 0;
  std::optional<std::size_t> worst = worst_core(node, stock, growth);
  if (!worst) return give_up();
  if (*worst == cores_.size()) {
    const Fitting::Answer answer = fit_all(stock);
    if (answer == Fitting::Answer::kUnknown) return give_up();
    if (answer == Fitting::Answer::kFits) {
      places_ = fitting_.places();
      return Turn::kFits;
    }
    std::optional<std::vector<std::int32_t>> found = shrink_core(stock, fitting_.misfits());
    if (!found) return give_up();
    Core core{std::move(*found), {}};
    for (const std::int32_t item : core.items) core.types.push_back(items_.type[static_cast<std::size_t>(item)]);
    std::sort(core.types.begin(), core.types.end());
    core.types.erase(std::unique(core.types.begin(), core.types.end()), core.types.end());
    growth = least_growth(node, core);
    cores_.push_back(std::move(core));
  }
  open_.pop();
  // No plan from here is smaller than the cheapest successor; its turn may be later.
  const std::int64_t ahead = content_of(node) + growth;
  if (ahead > node.bound && !open_.empty() && ahead > open_.top().bound) {
    node.bound = ahead;
    open_.push(node);
    return Turn::kGoesOn;
  }
  branch(node, cores_[*worst], ceiling);
  return Turn::kGoesOn;
}

}  // namespace edgemem::object_search
