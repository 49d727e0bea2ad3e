#include "planner/object_savings.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace edgemem::objects {

Savings::Savings(const Pieces& pieces, search::Budget& budget, std::uint64_t seed)
    : pieces_(pieces),
      budget_(budget),
      fitting_(pieces, budget),
      all_(static_cast<std::size_t>(pieces.count())),
      random_(seed) {
  std::iota(all_.begin(), all_.end(), 0);
  for (std::size_t d = 0; d < sizes_.size(); ++d) {
    for (const Box& box : pieces.box) sizes_[d].push_back(box[d]);
    std::sort(sizes_[d].begin(), sizes_[d].end());
    sizes_[d].erase(std::unique(sizes_[d].begin(), sizes_[d].end()), sizes_[d].end());
    if (sizes_[d].size() > 1) sides_.push_back(d);
  }
  if (sides_.empty()) sides_.push_back(0);
}

bool Savings::lower(Box& box, std::size_t side, std::size_t by) const {
  const auto& sizes = sizes_[side];
  const auto at = static_cast<std::size_t>(std::lower_bound(sizes.begin(), sizes.end(), box[side]) - sizes.begin());
  if (at < by) return false;
  box[side] = sizes[at - by];
  return true;
}

bool Savings::raise(Box& box, std::size_t side, std::size_t by) const {
  const auto& sizes = sizes_[side];
  const auto at = static_cast<std::size_t>(std::lower_bound(sizes.begin(), sizes.end(), box[side]) - sizes.begin());
  if (at + by >= sizes.size()) return false;
  box[side] = sizes[at + by];
  return true;
}

bool Savings::step(Plan& plan) {
  std::vector<Box> stock = plan.boxes;
  budget_.spend(static_cast<std::int64_t>(stock.size()));
  const bool in_turn = next_ < stock.size() * sides_.size();
  const std::size_t less = in_turn ? next_ / sides_.size() : pick(stock.size());
  const std::size_t side = sides_[in_turn ? next_ % sides_.size() : pick(sides_.size())];
  ++next_;
  const std::int64_t before = content(stock[less]);
  const bool gone = !lower(stock[less], side, in_turn ? 1 : 1 + pick(3));
  std::int64_t saved = gone ? before : before - content(stock[less]);
  if (!in_turn && stock.size() > 1 && pick(4) > 0) {
    const std::size_t more = (less + 1 + pick(stock.size() - 1)) % stock.size();
    const std::int64_t small = content(stock[more]);
    if (!raise(stock[more], sides_[pick(sides_.size())], 1 + pick(3))) return false;
    saved -= content(stock[more]) - small;
  }
  if (saved <= 0) return false;
  if (gone) stock.erase(stock.begin() + static_cast<std::ptrdiff_t>(less));
  const std::int64_t most = 1'000 + 4 * pieces_.count();
  if (fitting_.run(stock, all_, most) != Fitting::Answer::kFits) return false;
  plan = plan_of(pieces_, fitting_.places());
  next_ = 0;
  return true;
}

}  // namespace edgemem::objects
