#pragma once

// PoolState: the allocated blocks of a private pool at one moment, so that cudagraph trees can allocate them again.

#include <memlake.h>

#include <unordered_set>
#include <vector>

#include "blocks.hpp"
#include "routes.hpp"
#include "torch_types.hpp"

namespace memlake_torch {

/// The live blocks of a private pool. pre: it has memory of memlake's.
inline std::vector<memlake_block_t> live_blocks(const Target& target) {
  std::vector<memlake_block_t> live;
  for_each_block(target.memory, [&](const memlake_block_t& block, PoolId id) {
    if (id == target.id && block.state == MEMLAKE_BLOCK_LIVE) live.push_back(block);
  });
  return live;
}

/// Whether exactly these addresses are allocated in the private pool.
inline bool are_live(const Target& target, const std::unordered_set<void*>& expected) {
  const std::vector<memlake_block_t> live = live_blocks(target);
  return live.size() == expected.size() && std::all_of(live.begin(), live.end(), [&](const memlake_block_t& block) {
           return expected.count(reinterpret_cast<void*>(block.address)) != 0;
         });
}

struct PoolState final : AllocatorState {
  PoolState(DeviceIndex on, const Target& of) : device(on), target(of), live(live_blocks(of)) {
    // The addresses are needed again, so nothing there may be released.
    memlake_pool_set_captured(of.memory, of.id.first, of.id.second, 1);
  }

  const DeviceIndex device;
  const Target target;
  const std::vector<memlake_block_t> live;
};

}  // namespace memlake_torch
