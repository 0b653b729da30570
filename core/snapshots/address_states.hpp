#pragma once

// What a record of events has said so far about each address.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "pickles/seeded_hash.hpp"
#include "pickles/storage.hpp"

namespace memlake::snapshots {

/// Of the allocation at an address. `gone`: an earlier event names the address, and nothing is live or pending there.
enum class AddressState : std::uint8_t { unknown, gone, live, pending };

class AddressStates {
 public:
  struct Entry {
    std::uint64_t address = 0;
    std::uint64_t id = 0;  ///< of the live or pending allocation
    AddressState state = AddressState::unknown;
    bool is_used = false;
  };

  explicit AddressStates(pickles::Allowance& allowance) : allowance_(allowance) {}

  /// The entry of an address; a new one is unknown. Valid until the next call.
  Entry& operator[](std::uint64_t address) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    Entry& entry = slots_[place_of(address)];
    if (!entry.is_used) {
      entry = {.address = address, .is_used = true};
      ++size_;
    }
    return entry;
  }

 private:
  [[nodiscard]] std::size_t place_of(std::uint64_t address) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash_(address) & mask;
    while (slots_[at].is_used && slots_[at].address != address) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    const std::size_t wanted = slots_.empty() ? 256 : 2 * slots_.size();
    allowance_.spend((wanted - slots_.size()) * sizeof(Entry));
    const std::vector<Entry> before = std::exchange(slots_, std::vector<Entry>(wanted));
    for (const Entry& entry : before)
      if (entry.is_used) slots_[place_of(entry.address)] = entry;
  }

  pickles::Allowance& allowance_;
  pickles::SeededHash hash_;
  std::vector<Entry> slots_;
  std::size_t size_ = 0;
};

}  // namespace memlake::snapshots
