#include "blocks/free_index.hpp"

#include <algorithm>
#include <bit>

namespace memlake {

const FreeIndex::Bins FreeIndex::kNoBins{};

std::size_t FreeIndex::bin_of(std::uint64_t size) {
  const std::uint64_t units = size >> kUnitBits;
  if (units < (1U << kStepBits)) return units;
  const auto exponent = static_cast<unsigned>(std::bit_width(units)) - 1;
  const std::uint64_t step = (units >> (exponent - kStepBits)) & ((1U << kStepBits) - 1);
  return ((exponent - kStepBits + 1) << kStepBits) + step;
}

void FreeIndex::mark(std::size_t bin) {
  bitmap_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  summary_ |= std::uint64_t{1} << (bin / 64);
}

void FreeIndex::unmark(std::size_t bin) {
  bitmap_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  if (bitmap_[bin / 64] == 0) summary_ &= ~(std::uint64_t{1} << (bin / 64));
}

std::size_t FreeIndex::next_bin(std::size_t from) const {
  if (from >= kBins) return kBins;
  const std::size_t word = from / 64;
  if (const std::uint64_t bits = bitmap_[word] & (~std::uint64_t{0} << (from % 64)); bits != 0)
    return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
  const std::uint64_t words = word == 63 ? 0 : summary_ & (~std::uint64_t{0} << (word + 1));
  if (words == 0) return kBins;
  const auto next = static_cast<std::size_t>(std::countr_zero(words));
  return next * 64 + static_cast<std::size_t>(std::countr_zero(bitmap_[next]));
}

std::size_t FreeIndex::previous_bin(std::size_t before) const {
  if (before == 0) return kBins;
  const std::size_t last = before - 1;
  const std::size_t word = last / 64;
  if (const std::uint64_t bits = bitmap_[word] & (~std::uint64_t{0} >> (63 - last % 64)); bits != 0)
    return word * 64 + 63 - static_cast<std::size_t>(std::countl_zero(bits));
  const std::uint64_t words = word == 0 ? 0 : summary_ & (~std::uint64_t{0} >> (64 - word));
  if (words == 0) return kBins;
  const auto previous = 63 - static_cast<std::size_t>(std::countl_zero(words));
  return previous * 64 + 63 - static_cast<std::size_t>(std::countl_zero(bitmap_[previous]));
}

void FreeIndex::insert(Block* block) {
  const std::size_t where = bin_of(block->size.count);
  if (own_bins_ == nullptr) [[unlikely]] {
    own_bins_ = std::make_unique<Bins>();
    bins_ = own_bins_.get();
  }
  Bin& bin = (*own_bins_)[where];
  const Entry entry{block->size.count, block->memory->serial, place_of(*block), block};
  if (bin.empty()) mark(where);
  if (bin.empty() || bin.back() < entry) {
    bin.push_back(entry);
  } else {
    bin.insert(std::lower_bound(bin.begin(), bin.end(), entry), entry);
  }
}

void FreeIndex::erase(const Block* block) {
  const std::size_t where = bin_of(block->size.count);
  Bin& bin = (*own_bins_)[where];
  bin.erase(std::lower_bound(bin.begin(), bin.end(),
                             Entry{block->size.count, block->memory->serial, place_of(*block), nullptr}));
  if (bin.empty()) unmark(where);
}

Block* FreeIndex::best_fit(Bytes size) const {
  const std::size_t where = bin_of(size.count);
  const Bin& bin = (*bins_)[where];
  const auto found = std::lower_bound(bin.begin(), bin.end(), Entry{size.count, 0, 0, nullptr});
  if (found != bin.end()) return found->block;
  const std::size_t next = next_bin(where + 1);
  return next == kBins ? nullptr : (*bins_)[next].front().block;
}

Block* FreeIndex::after(const Block* block) const {
  const std::size_t where = bin_of(block->size.count);
  const Bin& bin = (*bins_)[where];
  const auto found = std::upper_bound(bin.begin(), bin.end(),
                                      Entry{block->size.count, block->memory->serial, place_of(*block), nullptr});
  if (found != bin.end()) return found->block;
  const std::size_t next = next_bin(where + 1);
  return next == kBins ? nullptr : (*bins_)[next].front().block;
}

Block* FreeIndex::last_below(Bytes size) const {
  const std::size_t where = bin_of(size.count);
  const Bin& bin = (*bins_)[where];
  const auto found = std::lower_bound(bin.begin(), bin.end(), Entry{size.count, 0, 0, nullptr});
  if (found != bin.begin()) return std::prev(found)->block;
  const std::size_t previous = previous_bin(where);
  return previous == kBins ? nullptr : (*bins_)[previous].back().block;
}

Block* FreeIndex::before(const Block* block) const {
  const std::size_t where = bin_of(block->size.count);
  const Bin& bin = (*bins_)[where];
  const auto found = std::lower_bound(bin.begin(), bin.end(),
                                      Entry{block->size.count, block->memory->serial, place_of(*block), nullptr});
  if (found != bin.begin()) return std::prev(found)->block;
  const std::size_t previous = previous_bin(where);
  return previous == kBins ? nullptr : (*bins_)[previous].back().block;
}

Block* FreeIndex::first() const { return is_empty() ? nullptr : (*bins_)[next_bin(0)].front().block; }

Block* FreeIndex::last() const { return is_empty() ? nullptr : (*bins_)[previous_bin(kBins)].back().block; }

}  // namespace memlake
