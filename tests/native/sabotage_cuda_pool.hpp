#pragma once

// CudaPoolSabotage: opens a space over CUDA's own pools to tests that break it.

#include <utility>

#include "guards.hpp"
#include "policies/cuda_pool/cuda_pool_space.hpp"

namespace memlake::test {

struct CudaPoolSabotage {
  CudaPoolSpace& space;

  [[nodiscard]] Bytes& live() const { return space.live_; }
  [[nodiscard]] static bool& is_freed(const Block& block) { return CudaPoolSpace::slot_of(block).is_freed; }

  /// The block, and the space's note of it, lie elsewhere.
  [[nodiscard]] Mend move_to(Block& block, Address address) const {
    const auto move = [slots = &space.slots_, &block](Address to) {
      auto node = slots->extract(block.address.value);
      node.key() = to.value;
      slots->insert(std::move(node));
      block.address = to;
    };
    const Address before = block.address;
    move(address);
    return [move, before] { move(before); };
  }
  /// The driver takes a block's memory back, and the space does not notice. Mended by what should have come with it.
  [[nodiscard]] Mend free_behind_its_back(Block& block) const {
    auto& slot = CudaPoolSpace::slot_of(block);
    slot.allocation.close(space.events_.handles().handle_of(block.stream));
    space.device_->synchronize();
    return [space = &space, &slot] {
      space->live_ = space->live_ - slot.range.size;
      space->slots_.erase(slot.range.begin.value);
    };
  }
  /// The space believes that it holds nothing, until it asks the driver again.
  void forget_held() const { space.ledger_.subtract(space.ledger_.held()); }
};

}  // namespace memlake::test
