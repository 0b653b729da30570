#include "replay/moment.hpp"

#include <algorithm>

namespace memlake {

void Moments::add(std::uint64_t row, const Pool& pool) {
  rows.push_back(row);
  starts.push_back(blocks.size());
  const auto first = static_cast<std::ptrdiff_t>(blocks.size());
  pool.spaces().for_each([&](const Block& block) {
    if (block.state == BlockState::unmapped || block.state == BlockState::dead) return;
    const bool is_used = block.state == BlockState::live || block.state == BlockState::pending;
    blocks.push_back({.segment = block.memory->range.begin.value,
                      .segment_size = block.memory->range.size.count,
                      .page = block.memory->page.count,
                      .address = block.address.value,
                      .size = block.size.count,
                      .requested = is_used ? block.requested.count : 0,
                      .stream = is_used ? block.user : block.stream,
                      .state = static_cast<std::uint64_t>(block.state),
                      .is_small = block.group->is_small ? 1u : 0u,
                      .id = is_used ? block.id : 0});
  });
  std::ranges::sort(blocks.begin() + first, blocks.end(), {}, &MomentBlock::address);
}

}  // namespace memlake
