#include "pickles/sequences.hpp"

#include <algorithm>

namespace memlake::pickles {

std::uint64_t Sequences::add_tuple(Allowance& allowance, std::span<const Value> items) {
  return tuples_.add(allowance, {values_.keep(allowance, items), items.size()});
}

std::span<const Value> Sequences::share(Allowance& allowance, std::span<const Value> items) {
  if (items.size() > kLongestShared) return {values_.keep(allowance, items), items.size()};
  const std::uint64_t hashed = hash(items);
  const std::uint32_t known =
      index_.find(hashed, [&](std::uint32_t place) { return std::ranges::equal(shared_[place], items); });
  if (known != InternIndex::kNone) return shared_[known];
  const std::span<const Value> kept(values_.keep(allowance, items), items.size());
  if (shared_.size() < InternIndex::kNone) {
    const auto place = static_cast<std::uint32_t>(shared_.add(allowance, kept));
    index_.add(allowance, hashed, place, [this](std::uint32_t other) { return hash(shared_[other]); });
  }
  return kept;
}

void Sequences::append(Allowance& allowance, std::uint64_t list, std::span<const Value> items) {
  if (items.empty()) return;
  std::span<const Value>& there = lists_[list];
  if (there.empty()) {
    there = share(allowance, items);
    return;
  }
  const auto [found, is_new] = grown_.try_emplace(list);
  if (is_new) allowance.spend(kGrownBytes);
  std::vector<Value>& grown = found->second;
  const std::uint64_t before = grown.capacity();
  const std::uint64_t size = there.size() + items.size();
  if (size > before) {
    const std::uint64_t wanted = std::max<std::uint64_t>(size, 2 * before);
    allowance.spend((wanted - before) * sizeof(Value));
    grown.reserve(wanted);
  }
  if (is_new) grown.assign(there.begin(), there.end());
  grown.insert(grown.end(), items.begin(), items.end());
  there = grown;
}

}  // namespace memlake::pickles
