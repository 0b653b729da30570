#include "policies/stitch/primitive_segment.hpp"

#include <bit>
#include <utility>

namespace memlake {

PrimitiveSegment::PrimitiveSegment(std::shared_ptr<Device> device, Bytes size, Bytes chunk)
    : ExpandableSegment(std::move(device), size, chunk),
      beginning_(size.count / chunk.count),
      is_begin_((beginning_.size() + 63) / 64) {}

Block* PrimitiveSegment::block_at(Address address) const {
  const std::size_t chunk = page_of(address);
  std::size_t word = chunk / 64;
  std::uint64_t bits = is_begin_[word] & (~std::uint64_t{0} >> (63 - chunk % 64));
  while (bits == 0) bits = is_begin_[--word];  // a block begins at the first chunk
  return beginning_[word * 64 + 63 - static_cast<std::size_t>(std::countl_zero(bits))];
}

const Block* PrimitiveSegment::find_block_at(Address address) const {
  if (!range.contains(address)) return nullptr;
  for (std::size_t chunk = page_of(address) + 1; chunk-- > 0;)
    if ((is_begin_[chunk / 64] >> (chunk % 64) & 1) != 0) return beginning_[chunk];
  return nullptr;
}

void PrimitiveSegment::begins(Block* block) {
  const std::size_t chunk = page_of(block->address);
  beginning_[chunk] = block;
  is_begin_[chunk / 64] |= std::uint64_t{1} << (chunk % 64);
}

void PrimitiveSegment::begins_no_more(Address at) {
  const std::size_t chunk = page_of(at);
  is_begin_[chunk / 64] &= ~(std::uint64_t{1} << (chunk % 64));
}

}  // namespace memlake
