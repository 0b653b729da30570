#pragma once

// Finds an element of a table by the hash of its content, so that equal elements are stored once.

#include <cstdint>
#include <utility>
#include <vector>

#include "pickles/storage.hpp"

namespace memlake::pickles {

class InternIndex {
 public:
  /// The place of an element with this hash for which `is_equal(place)` holds; kNone if there is none.
  template <class IsEqual>
  [[nodiscard]] std::uint32_t find(std::uint64_t hash, IsEqual is_equal) const {
    if (slots_.empty()) return kNone;
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    for (std::uint64_t at = hash & mask();; at = (at + 1) & mask()) {
      const Slot slot = slots_[at];
      if (slot.place == kNone) return kNone;
      if (slot.tag == tag && is_equal(slot.place)) return slot.place;
    }
  }

  /// pre: find() has found no equal element. `hash_of(place)` is the hash of an earlier element.
  template <class HashOf>
  void add(Allowance& allowance, std::uint64_t hash, std::uint32_t place, HashOf hash_of) {
    if (3 * (size_ + 1) > 2 * slots_.size()) grow(allowance, hash_of);
    insert(hash, place);
    ++size_;
  }

  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

 private:
  struct Slot {
    std::uint32_t tag = 0;
    std::uint32_t place = kNone;
  };

  [[nodiscard]] std::uint64_t mask() const { return slots_.size() - 1; }

  void insert(std::uint64_t hash, std::uint32_t place) {
    std::uint64_t at = hash & mask();
    while (slots_[at].place != kNone) at = (at + 1) & mask();
    slots_[at] = {static_cast<std::uint32_t>(hash >> 32), place};
  }

  template <class HashOf>
  void grow(Allowance& allowance, HashOf hash_of) {
    const std::uint64_t wanted = slots_.empty() ? 64 : 2 * slots_.size();
    allowance.spend((wanted - slots_.size()) * sizeof(Slot));
    const std::vector<Slot> before = std::exchange(slots_, std::vector<Slot>(wanted));
    for (const Slot& slot : before)
      if (slot.place != kNone) insert(hash_of(slot.place), slot.place);
  }

  std::vector<Slot> slots_;
  std::uint64_t size_ = 0;
};

}  // namespace memlake::pickles
