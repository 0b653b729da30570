#pragma once

// The blocks of a memlake pool with the pool of PyTorch's that each belongs to.

#include <memlake.h>

#include <optional>

#include "torch_types.hpp"

namespace memlake_torch {

/// Calls `visit(block, pool of PyTorch's)` for every block that has memory, by address.
template <class Visit>
void for_each_block(memlake_pool* pool, Visit visit) {
  memlake_pool_visit_graph_blocks(
      pool,
      [](const memlake_block_t* block, uint64_t first, uint64_t second, void* visit) {
        (*static_cast<Visit*>(visit))(*block, PoolId{first, second});
        return 0;
      },
      &visit);
}

/// The pool of PyTorch's that live memory belongs to; nothing if the memory is not memlake's. `block` may be null.
inline std::optional<PoolId> find_with_pool(const void* address, int hint, memlake_block_t* block) {
  uint64_t first = 0;
  uint64_t second = 0;
  if (memlake_torch_find_in_graph(address, hint, block, &first, &second) != 1) return std::nullopt;
  return PoolId{first, second};
}

}  // namespace memlake_torch
