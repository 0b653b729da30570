#include "pool/pool_spaces.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace memlake {

PoolSpaces::PoolSpaces(std::unique_ptr<Space> policy) : default_(policy.get()) {
  by_number_.push_back(policy.get());
  spaces_.push_back(std::move(policy));
}

Space& PoolSpaces::add(std::unique_ptr<Space> space, bool is_default) {
  constexpr std::size_t most = std::size_t{std::numeric_limits<decltype(Block::space)>::max()} + 1;
  const bool has_unused = spaces_.size() < by_number_.size();
  auto number = has_unused ? std::ranges::find(by_number_, nullptr) : by_number_.end();
  if (number == by_number_.end() && by_number_.size() == most)
    throw Error(ErrorKind::config,
                "a pool has at most " + std::to_string(most) + " spaces, and this one has them all; make another pool");
  const StreamReuse* policys = policy().facets().reuse;
  if (StreamReuse* reuse = space->facets().reuse)
    reuse->set_reuse_rules(policys == nullptr ? ReuseRules{false, false, false} : policys->reuse_rules());
  space->set_peers(policy().devices().peers());
  spaces_.reserve(spaces_.size() + 1);
  if (number == by_number_.end()) number = by_number_.insert(number, nullptr);
  *number = space.get();
  space->set_number(static_cast<std::uint16_t>(number - by_number_.begin()));
  space->set_observer(observer_);
  spaces_.push_back(std::move(space));
  if (is_default) default_ = spaces_.back().get();
  return *spaces_.back();
}

void PoolSpaces::remove_if(const std::function<bool(const Space&)>& is_over) {
  std::erase_if(spaces_, [&](const std::unique_ptr<Space>& space) {
    if (!is_over(*space)) return false;
    by_number_[space->number()] = nullptr;
    return true;
  });
}

void PoolSpaces::for_each(const std::function<void(const Block&)>& visit) const {
  for (const auto& space : spaces_) space->for_each(visit);
}

const Level& PoolSpaces::held() const {
  // A space whose memory the driver counts asks it now.
  for (const auto& space : spaces_) static_cast<void>(space->ledger());
  return budget()->held;
}

bool PoolSpaces::has_risen_to(Bytes mark) {
  static_cast<void>(held());
  return budget()->has_risen_to(mark);
}

Level PoolSpaces::spilled() const {
  Level sum;
  for (const auto& space : spaces_) {
    const Level& spilled = space->ledger().spilled();
    sum.now = sum.now + spilled.now;
    sum.peak = sum.peak + spilled.peak;
  }
  return sum;
}

std::size_t PoolSpaces::segment_count() const {
  std::size_t count = 0;
  for (const auto& space : spaces_) count += space->segment_count();
  return count;
}

Bytes PoolSpaces::largest_free() const {
  Bytes largest{0};
  for (const auto& space : spaces_) {
    const GraphPool* graph_pool = space->graph_pool().get();
    if (graph_pool == nullptr || !graph_pool->keeps_memory()) largest = std::max(largest, space->largest_free());
  }
  return largest;
}

void PoolSpaces::reset_held_peak() {
  for (const auto& space : spaces_) space->reset_peaks();
  budget()->held.peak = held().now;
}

void PoolSpaces::set_reuse_rules(const ReuseRules& rules) {
  for (const auto& space : spaces_)
    if (StreamReuse* reuse = space->facets().reuse) reuse->set_reuse_rules(rules);
}

void PoolSpaces::set_peers(const Devices& peers) {
  const auto before = policy().devices().peers();
  std::size_t changed = 0;
  try {
    for (; changed < spaces_.size(); ++changed) spaces_[changed]->set_peers(peers);
  } catch (...) {
    for (std::size_t i = 0; i < changed; ++i) spaces_[i]->set_peers(before);
    throw;
  }
}

void PoolSpaces::set_observer(SupplyObserver* observer) {
  observer_ = observer;
  for (const auto& space : spaces_) space->set_observer(observer);
}

}  // namespace memlake
