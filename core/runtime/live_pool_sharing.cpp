// What a live pool does for other processes: memory that can be exported, and its export.

#include <algorithm>

#include "base/error.hpp"
#include "runtime/live_pool.hpp"

namespace memlake {

void LivePool::add_whole() {
  auto whole = std::make_unique<ShareableSpace>(devices_, sharing_.options, events_, pool_->space().pool_budget());
  whole->set_unlocker(unlocker_);
  pool_->add_whole(std::move(whole), sharing_.is_default_space);
}

Space& LivePool::space_for(std::optional<bool> is_shareable) {
  if (!is_shareable.value_or(sharing_.is_default_space)) return pool_->space();
  if (pool_->whole() == nullptr) add_whole();
  return *pool_->whole();
}

std::vector<ExportedBlock> LivePool::export_blocks(const std::vector<const Block*>& blocks) {
  for (const Block* block : blocks)
    if (!block->is_whole)
      throw Error(
          ErrorKind::invalid_argument,
          "the memory was not allocated to be shared, so its chunks may hold other buffers, too; allocate it with "
          "shareable=True, or make the pool with handle_type=\"posix_fd\"");
  std::vector<ExportedBlock> exported;
  exported.reserve(blocks.size());
  for (const Block* block : blocks)
    exported.push_back({block->address, block->requested, pool_->whole()->descriptors_of(*block)});
  // From here on nothing fails.
  for (const Block* block : blocks) pool_->whole()->note_export(*block);
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

}  // namespace memlake
