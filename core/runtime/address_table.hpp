#pragma once

// AddressTable: finds the block at an address, for callers that know only the address. It is a flat hash table with
// open addressing: a look-up is one multiplication and usually one cache line. A removal leaves no marker behind.

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

  /// Grows the table if necessary, so that the next insert() cannot fail for lack of memory.
  void make_room() {
    if (2 * size_ > mask_) [[unlikely]]
      grow();
  }
  /// Makes room for as many insert()s.
  void make_room(std::size_t count) {
    while (2 * (size_ + count) > mask_) grow();
  }

  /// pre: make_room() was called, and the table has no block at this address.
  void insert(Address address, Block* block) {
    std::size_t at = home_of(address.value);
    while (slots_[at].address != 0) at = next(at);
    slots_[at] = {address.value, block};
    ++size_;
  }

  /// The place of a block in the table; valid until the table changes.
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
    // Entries that the removed one kept from their home slot move back, so that every search can stop at an empty slot.
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
    std::uint64_t address = 0;  // 0: empty; no block is at address 0
    Block* block = nullptr;
  };

  static constexpr std::size_t kSmallest = 1024;

  static unsigned shift_for(std::size_t slots) { return 64 - static_cast<unsigned>(std::bit_width(slots) - 1); }
  // Fibonacci hashing: the top bits of a product with the golden ratio. Addresses are multiples of 512 and often
  // neighbours; the product spreads them.
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

  std::vector<Slot> slots_;  // their number is a power of two; about half of them are taken at most
  std::size_t mask_;         // number of slots minus one
  unsigned shift_;
  std::size_t size_ = 0;
};

}  // namespace memlake
