#include "pool/pending_blocks.hpp"

namespace memlake {

void PendingBlocks::add(StreamId stream, const Awaited& awaited) {
  if (queues_.size() <= stream) queues_.resize(stream + 1);
  if (queues_[stream].empty())
    if (const auto at = std::ranges::lower_bound(waiting_, stream); at == waiting_.end() || *at != stream)
      waiting_.insert(at, stream);
  queues_[stream].push_back(awaited);
  ++count_;
  reusable_count_ += awaited.is_reusable_here ? 1U : 0U;
}

std::vector<std::pair<StreamId, Bytes>> PendingBlocks::bytes_by_stream() const {
  std::vector<std::pair<StreamId, Bytes>> pending;
  for (std::size_t stream = 0; stream < queues_.size(); ++stream) {
    Bytes bytes{0};
    for (const Awaited& awaited : queues_[stream]) bytes = bytes + awaited.block->size;
    if (bytes.count > 0) pending.emplace_back(static_cast<StreamId>(stream), bytes);
  }
  return pending;
}

}  // namespace memlake
