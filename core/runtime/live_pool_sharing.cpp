// The part of LivePool that provides shareable memory and exports it to other processes.

#include <algorithm>

#include "base/error.hpp"
#include "runtime/live_pool.hpp"

namespace memlake {

void LivePool::add_shareable_space() {
  auto space = std::make_unique<ShareableSpace>(devices_, sharing_.options, events_, pool_->budget());
  space->set_unlocker(unlocker_);
  ShareableSpace* added = space.get();
  pool_->add_space(std::move(space), sharing_.is_default_space);
  shareable_ = added;
}

Space& LivePool::space_for(bool is_shareable) {
  if (!is_shareable) return pool_->policy_space();
  if (shareable_ == nullptr) add_shareable_space();
  return *shareable_;
}

std::vector<ExportedBlock> LivePool::export_blocks(const std::vector<const Block*>& blocks) {
  for (const Block* block : blocks)
    if (&pool_->space_of(*block) != shareable_)
      throw Error(
          ErrorKind::invalid_argument,
          "the memory was not allocated to be shared, so its chunks may hold other buffers, too; allocate it with "
          "shareable=True, or make the pool with handle_type=\"posix_fd\"");
  std::vector<ExportedBlock> exported;
  exported.reserve(blocks.size());
  for (const Block* block : blocks)
    exported.push_back({block->address, block->requested, shareable_->descriptors_of(*block)});
  // From here on nothing fails.
  for (const Block* block : blocks) shareable_->note_export(*block);
  return exported;
}

std::vector<ExportedBlock> LivePool::export_everything() {
  const auto lock = open_lock();
  std::vector<const Block*> live;
  pool_->for_each([&](const Block& block) {
    if (block.state == BlockState::live) live.push_back(&block);
  });
  std::ranges::sort(live, {}, &Block::id);
  return export_blocks(live);
}

ExportedRange LivePool::export_at(Address address) const {
  const auto lock = open_lock();
  const Block& block = *place_of(address).block;
  if (pool_->space_of(block).graph_pool() != nullptr)
    throw Error(ErrorKind::config, "memory of a graph pool cannot be shared with other processes");
  const ChunkExports* exports = pool_->space_of(block).facets().chunk_exports;
  if (exports == nullptr)
    throw Error(ErrorKind::config, "the policy " + policy_text_ + " has no chunks for other processes; lake has");
  return exports->export_chunks(block);
}

}  // namespace memlake
