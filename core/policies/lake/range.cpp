#include "policies/lake/range.hpp"

#include "blocks/block_map.hpp"

namespace memlake {

Range::Range(Lane& of, AddressRange addresses, std::shared_ptr<Reservation> reserved, Bytes granule)
    : SegmentMemory(addresses, granule), lane(of), reservation(std::move(reserved)) {}

void Range::set_chunk(AddressRange pages, LakeChunk* chunk) {
  const std::size_t deepest = page_of(pages.begin);
  if (chunks_.size() <= deepest) chunks_.resize(deepest + 1);
  for (std::size_t i = page_of({pages.end().value - 1}); i <= deepest; ++i) chunks_[i] = chunk;
  while (!chunks_.empty() && chunks_.back() == nullptr) chunks_.pop_back();
}

bool Lane::is_small() const { return group.is_small; }

}  // namespace memlake
