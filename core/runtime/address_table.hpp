#pragma once

// AddressTable: which block lies at an address, for callers that come back with nothing but the address. Flat and open:
// a look-up is one multiplication and, as a rule, one cache line; removing leaves no trace.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "blocks/block.hpp"

namespace memlake {

class AddressTable {
 public:
  AddressTable() : AddressTable(kSmallest) {}

  [[nodiscard]] std::size_t size() const { return size_; }

  /// So that the next insert() cannot fail for lack of memory.
  void make_room() {
    if (2 * size_ > mask_) [[unlikely]]
      grow();
  }

  /// pre: make_room() was called, and nothing is at this address.
  void insert(Address address, Block* block) {
    std::size_t at = home_of(address.value);
    while (slots_[at].address != 0) at = next(at);
    slots_[at] = {address.value, block};
    ++size_;
  }

  /// Where a block was found: good until the table changes.
  struct Place {
    std::size_t slot;
    Block* block;  ///< null if there is none
  };

  [[nodiscard]] Place find(Address address) const {
    std::size_t at = home_of(address.value);
    while (slots_[at].address != address.value && slots_[at].address != 0) at = next(at);
    return {at, slots_[at].block};
  }

  /// pre: `place` has a block.
  void remove(Place place) {
    std::size_t hole = place.slot;
    // Whoever was pushed away from home by what is removed moves back, so that every search may stop at an empty slot.
    for (std::size_t at = next(hole); slots_[at].address != 0; at = next(at)) {
      const std::size_t from_home = (at - home_of(slots_[at].address)) & mask_;
      const std::size_t from_hole = (at - hole) & mask_;
      if (from_home < from_hole) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole] = {};
    --size_;
  }

 private:
  struct Slot {
    std::uint64_t address = 0;  // 0: empty; nothing lies at address 0
    Block* block = nullptr;
  };

  static constexpr std::size_t kSmallest = 1024;

  static unsigned shift_for(std::size_t slots) { return 64 - static_cast<unsigned>(std::bit_width(slots) - 1); }
  // Fibonacci hashing: the top bits of a product with the golden ratio. Addresses are multiples of 512 and often
  // neighbours; this spreads both. 0 >> 9 is the home of the empty address, which is never looked for.
  [[nodiscard]] std::size_t home_of(std::uint64_t address) const {
    return static_cast<std::size_t>((address >> 9) * 0x9E3779B97F4A7C15u >> shift_);
  }
  [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & mask_; }

  void grow() {
    AddressTable larger(2 * (mask_ + 1));
    for (const Slot& slot : slots_)
      if (slot.address != 0) larger.insert({slot.address}, slot.block);
    *this = std::move(larger);
  }
  explicit AddressTable(std::size_t slots) : slots_(slots), mask_(slots - 1), shift_(shift_for(slots)) {}

  std::vector<Slot> slots_;  // a power of two of them, at most half of them taken
  std::size_t mask_;         // their number less one
  unsigned shift_;
  std::size_t size_ = 0;
};

}  // namespace memlake
