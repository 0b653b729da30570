#pragma once

// FreeIndex: the free blocks of one stream, in the order (size, serial number of the segment, address), for best fit.
// The lowest address comes first, or the highest where memory grows downwards (Ties).
//
// Blocks are in bins by size, 32 bins to a power of two, with a bitmap of the bins that are not empty. A bin is a small
// sorted array. An index that never had a block has no arrays: a pool may have thousands of streams. So a search reads
// a few words of the bitmap and one or two arrays; insertion and removal move a few entries in one or two cache lines.
// Sizes are multiples of 512 bytes, and each size below 16 KiB has its own bin.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "blocks/block.hpp"

namespace memlake {

class FreeIndex {
 public:
  /// Which address comes first among blocks of one size in one segment.
  enum class Ties { low, high };

  FreeIndex() = default;
  explicit FreeIndex(Ties ties) : flip_(ties == Ties::high ? ~std::uint64_t{0} : 0) {}

  void insert(Block* block);
  /// pre: it was inserted, and neither its size nor its address changed since.
  void erase(const Block* block);

  /// The first block of at least `size` bytes in order; null if there is none.
  [[nodiscard]] Block* best_fit(Bytes size) const;

  /// The block behind `block` in order; null at the end.
  [[nodiscard]] Block* after(const Block* block) const;
  /// The last block of less than `size` bytes in order; null if there is none.
  [[nodiscard]] Block* last_below(Bytes size) const;
  [[nodiscard]] Block* before(const Block* block) const;

  /// Visits every entry, for checks: visit(block, is_current). An entry is current if its block still has the size and
  /// the place that it was inserted with; the other functions rely on that.
  template <class Visit>
  void for_each_entry(Visit&& visit) const {
    for (std::size_t bin = next_bin(0); bin != kBins; bin = next_bin(bin + 1))
      for (const Entry& entry : (*bins_)[bin]) visit(*entry.block, is_current(entry));
  }

  [[nodiscard]] bool is_empty() const { return summary_ == 0; }
  /// Gives the memory of its bins back if it is empty.
  void shrink() {
    if (!is_empty()) return;
    own_bins_.reset();
    bins_ = &kNoBins;
  }
  [[nodiscard]] Block* first() const;
  [[nodiscard]] Block* last() const;

 private:
  // The key is stored beside the pointer, so that comparisons do not access the blocks themselves.
  struct Entry {
    std::uint64_t size;
    std::uint64_t serial;
    std::uint64_t address;
    Block* block;
    friend bool operator<(const Entry& a, const Entry& b) {
      return std::tie(a.size, a.serial, a.address) < std::tie(b.size, b.serial, b.address);
    }
  };
  using Bin = std::vector<Entry>;

  static constexpr unsigned kUnitBits = 9;       // sizes are multiples of 512
  static constexpr unsigned kStepBits = 5;       // 32 bins to a power of two
  static constexpr std::size_t kBins = 64 * 32;  // more than any 64-bit size needs
  using Bins = std::array<Bin, kBins>;
  static const Bins kNoBins;

  static std::size_t bin_of(std::uint64_t size);
  [[nodiscard]] std::size_t next_bin(std::size_t from) const;        // first non-empty bin at or behind; kBins if none
  [[nodiscard]] std::size_t previous_bin(std::size_t before) const;  // last non-empty bin before; kBins if none
  void mark(std::size_t bin);
  void unmark(std::size_t bin);

  [[nodiscard]] bool is_current(const Entry& entry) const {
    const Block& block = *entry.block;
    return block.memory != nullptr && entry.size == block.size.count && entry.serial == block.memory->serial &&
           entry.address == place_of(block);
  }
  /// The key that orders blocks of one size in one segment.
  [[nodiscard]] std::uint64_t place_of(const Block& block) const { return block.address.value ^ flip_; }

  std::uint64_t flip_ = 0;
  std::unique_ptr<Bins> own_bins_;  // null until the first block comes
  const Bins* bins_ = &kNoBins;     // the same, or empty bins of all indices
  std::array<std::uint64_t, kBins / 64> bitmap_{};
  std::uint64_t summary_ = 0;  // one bit per word of the bitmap
};

}  // namespace memlake
