#include "pool/pool.hpp"

#include <algorithm>
#include <utility>

namespace memlake {

Pool::Pool(std::shared_ptr<Device> device, std::unique_ptr<Policy> policy, EventSource& events, Bytes limit)
    : device_(std::move(device)),
      policy_(std::move(policy)),
      events_(events),
      limit_(limit),
      device_total_(device_->total_memory()) {}

Pool::~Pool() = default;

PoolView Pool::view() const {
  return {.blocks = blocks_, .held = stats_.held.now, .device_total = device_total_, .limit = limit_};
}

Block* Pool::allocate(Bytes requested, StreamId stream) {
  if (awaited_count_ > 0) poll_events();
  const Bytes rounded = policy_->round(requested);
  BlockGroup& group = policy_->is_small(rounded) ? blocks_.small : blocks_.large;
  Block* block = policy_->find(rounded, stream, group);
  if (block == nullptr) [[unlikely]] {
    Attempt attempt{.request = {requested, stream}, .rounded = rounded, .group = &group};
    block = climb(attempt);
    stats_.retries += attempt.is_retry ? 1 : 0;
    if (block == nullptr) {
      ++stats_.ooms;
      return nullptr;
    }
  }
  return hand_out(block, requested, rounded);
}

Block* Pool::climb(Attempt& attempt) {
  while (true) {
    const Step step = policy_->next(attempt, view());
    if (step.kind == Step::Kind::take) return step.block;
    if (step.kind == Step::Kind::fail) return nullptr;
    run(step, attempt);
  }
}

Block* Pool::hand_out(Block* block, Bytes requested, Bytes rounded) {
  blocks_.unindex(block);
  if (policy_->splits(*block, rounded)) {
    Block* front = blocks_.cut_front(block, rounded);
    blocks_.index(block);
    block = front;
  }
  block->state = BlockState::live;
  block->requested = requested;
  stats_.requested.add(requested);
  stats_.allocated.add(block->size);
  stats_.active.add(block->size);
  ++stats_.allocations;
  return block;
}

void Pool::free(Block* block) {
  stats_.allocated.subtract(block->size);
  ++stats_.frees;
  if (block->users.empty()) {
    make_free(block);
    return;
  }
  block->state = BlockState::pending;
  for (const StreamId user : std::exchange(block->users, {})) {
    if (awaited_.size() <= user) awaited_.resize(user + 1);
    awaited_[user].push_back({events_.record(user, *block), block});
    ++block->awaited;
    ++awaited_count_;
  }
}

void Pool::make_free(Block* block) {
  stats_.requested.subtract(block->requested);
  stats_.active.subtract(block->size);
  block->state = BlockState::free;
  blocks_.merge(block);
  blocks_.index(block);
  if (!policy_->keeps_freed_memory()) release_segment(block);
}

void Pool::record_use(Block* block, StreamId stream) {
  if (stream == block->stream || std::ranges::find(block->users, stream) != block->users.end()) return;
  block->users.push_back(stream);
}

void Pool::settle(const Awaited& awaited) {
  --awaited_count_;
  if (--awaited.block->awaited == 0) make_free(awaited.block);
}

void Pool::poll_events() {
  for (auto& queue : awaited_)
    while (!queue.empty() && events_.is_done(queue.front().ticket)) {
      settle(queue.front());
      queue.pop_front();
    }
}

void Pool::wait_for_events() {
  for (auto& queue : awaited_) {
    for (const Awaited& awaited : queue) {
      events_.wait(awaited.ticket);
      settle(awaited);
    }
    queue.clear();
  }
}

void Pool::release_cached() {
  wait_for_events();
  std::vector<Block*> victims;
  policy_->choose_everything(blocks_, victims);
  release(victims);
}

}  // namespace memlake
