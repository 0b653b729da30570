#pragma once

// PoolWatch: what a pool counts and tells on request, beside its own figures: PyTorch's statistics by size, and events
// for an observer. A pool that no program watches has none.

#include <functional>
#include <memory>

#include "blocks/block.hpp"
#include "policies/space.hpp"
#include "policies/watch.hpp"
#include "pool/size_counts.hpp"

namespace memlake {

/// One change of a pool's memory.
struct MemoryEvent {
  enum class Kind {
    allocated,       ///< one allocation of the driver
    released,        ///< its end
    mapped,          ///< memory can be used at these addresses
    unmapped,        ///< it cannot any more
    free_completed,  ///< a freed block can be used again; the range has the requested size
  };
  Kind kind;
  AddressRange range;
  StreamId stream;
  GraphPoolId graph_pool;  ///< whose memory it is
};

class PoolWatch final : public SupplyObserver {
 public:
  std::unique_ptr<SizeCounts> counts;            ///< null: not counted
  std::function<void(const MemoryEvent&)> tell;  ///< empty: no observer

  void on_hand_out(const Block& block) {
    if (counts == nullptr) return;
    const bool is_small = SizeCounts::is_small(block.requested);
    counts->allocations.add(1, is_small);
    counts->active.add(1, is_small);
    counts->allocated_bytes.add(block.size.count, is_small);
    counts->active_bytes.add(block.size.count, is_small);
    counts->requested_bytes.add(block.requested.count, is_small);
  }
  void on_free(const Block& block) {
    if (counts == nullptr) return;
    const bool is_small = SizeCounts::is_small(block.requested);
    counts->allocations.subtract(1, is_small);
    counts->allocated_bytes.subtract(block.size.count, is_small);
  }
  /// `space`: of the block.
  void on_free_again(const Block& block, const Space& space) {
    if (counts != nullptr) {
      const bool is_small = SizeCounts::is_small(block.requested);
      counts->active.subtract(1, is_small);
      counts->active_bytes.subtract(block.size.count, is_small);
      counts->requested_bytes.subtract(block.requested.count, is_small);
    }
    if (!tell) return;
    const GraphPool* graph_pool = space.graph_pool().get();
    tell({MemoryEvent::Kind::free_completed,
          {block.address, block.requested},
          block.user,
          graph_pool == nullptr ? GraphPoolId{} : graph_pool->id});
  }

  void on_allocate(AddressRange range, StreamId stream, GraphPoolId owner) override {
    tell_of({MemoryEvent::Kind::allocated, range, stream, owner});
  }
  void on_release(AddressRange range, StreamId stream, GraphPoolId owner) override {
    tell_of({MemoryEvent::Kind::released, range, stream, owner});
  }
  void on_map(AddressRange range, StreamId stream, GraphPoolId owner) override {
    tell_of({MemoryEvent::Kind::mapped, range, stream, owner});
  }
  void on_unmap(AddressRange range, StreamId stream, GraphPoolId owner) override {
    tell_of({MemoryEvent::Kind::unmapped, range, stream, owner});
  }
  void on_hold(Bytes more, Bytes less, bool is_small) override {
    if (counts == nullptr) return;
    if (more.count > 0) counts->held_bytes.add(more.count, is_small);
    if (less.count > 0) counts->held_bytes.subtract(less.count, is_small);
  }
  void on_segment(bool is_new, bool is_small) override {
    if (counts != nullptr) is_new ? counts->segments.add(1, is_small) : counts->segments.subtract(1, is_small);
  }

 private:
  void tell_of(const MemoryEvent& event) const {
    if (tell && event.range.size.count > 0) tell(event);
  }
};

}  // namespace memlake
