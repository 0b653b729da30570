// memlake_pool_..._graph and memlake_torch_..._graph: graph pools.

#include <span>
#include <string>
#include <vector>

#include "abi/fill.hpp"
#include "abi/last_error.hpp"
#include "abi/pool_handle.hpp"
#include "abi/torch_pools.hpp"

namespace memlake::abi {
namespace {

void begin_graph(LivePool& pool, GraphPoolId id, int (*takes)(void* stream, void* user), void* user) {
  if (takes == nullptr) {
    pool.graphs().begin_requests(id, [](CUstream) { return true; });
  } else {
    pool.graphs().begin_requests(id, [takes, user](CUstream stream) { return takes(stream, user) != 0; });
  }
}

/// The pool of the device that has the graph pool: the present one, or one that served the device before.
LivePool& torch_pool_with(int device, GraphPoolId id) {
  TorchPools& pools = TorchPools::of_this_process();
  pools.require_this_process();
  LivePool* with = nullptr;
  pools.any_of(device, [&](LivePool& pool, int of) {
    if (of != device || !pool.is_open() || pool.graphs().stats(id).uses == 0) return false;
    with = &pool;
    return true;
  });
  return with == nullptr ? pools.pool(device) : *with;
}

}  // namespace
}  // namespace memlake::abi

using namespace memlake;
using namespace memlake::abi;

extern "C" {

int memlake_pool_use_graph(memlake_pool* pool, uint64_t first, uint64_t second) {
  return code_from([&] { pool_of(pool).graphs().use({first, second}); });
}

int memlake_pool_begin_graph(memlake_pool* pool, uint64_t first, uint64_t second,
                             int (*takes)(void* stream, void* user), void* user) {
  return code_from([&] { begin_graph(pool_of(pool), {first, second}, takes, user); });
}

int memlake_pool_end_graph(memlake_pool* pool, uint64_t first, uint64_t second) {
  return code_from([&] { pool_of(pool).graphs().end_requests(GraphPoolId{first, second}); });
}

int memlake_pool_release_graph(memlake_pool* pool, uint64_t first, uint64_t second, int may_wait) {
  return code_from([&] { pool_of(pool).graphs().release({first, second}, may_wait != 0); });
}

int memlake_pool_graph_stats(memlake_pool* pool, uint64_t first, uint64_t second, memlake_graph_stats_t* stats) {
  return code_from([&] {
    const GraphPoolStats now = pool_of(pool).graphs().stats({first, second});
    memlake_graph_stats_t filled{};
    filled.uses = now.uses;
    filled.held = now.held.count;
    filled.live = now.live.now.count;
    filled.live_peak = now.live.peak.count;
    fill(stats, filled, "memlake_graph_stats_t");
  });
}

int memlake_pool_visit_graph_blocks(memlake_pool* pool,
                                    int (*visit)(const memlake_block_t* block, uint64_t first, uint64_t second,
                                                 void* user),
                                    void* user) {
  int answer = 0;
  const int code = code_from([&] {
    if (visit == nullptr) throw Error(ErrorKind::invalid_argument, "the function to call is NULL");
    for (const FoundBlock& found : pool_of(pool).figures().blocks()) {
      const memlake_block_t block = to_c(found, pool->device);
      answer = visit(&block, found.graph_pool.first, found.graph_pool.second, user);
      if (answer != 0) return;
    }
  });
  return code != MEMLAKE_OK ? code : answer;
}

void* memlake_pool_try_allocate_in_graph(memlake_pool* pool, uint64_t first, uint64_t second, size_t size,
                                         void* stream) {
  try {
    LivePool& live = pool_of(pool);
    if (size == 0) return nullptr;
    require_size(size);
    const Address address =
        live.by_address().allocate_from_graph_pool({first, second}, Bytes{size}, static_cast<CUstream>(stream), false);
    return reinterpret_cast<void*>(address.value);
  } catch (...) {
    remember_current();
    return nullptr;
  }
}

int memlake_pool_restore_graph(memlake_pool* pool, uint64_t first, uint64_t second, const memlake_block_t* blocks,
                               size_t count, void (*before_free)(const memlake_block_t* block, void* user),
                               void* user) {
  return code_from([&] {
    LivePool& live = pool_of(pool);
    if (blocks == nullptr && count > 0) throw Error(ErrorKind::invalid_argument, "the blocks are NULL");
    std::vector<EarlierAllocation> earlier;
    for (const memlake_block_t& block : std::span(blocks, count)) {
      require_size(block.size);
      if (block.requested == 0 || block.requested > block.size)
        throw Error(ErrorKind::invalid_argument, "a request of " + std::to_string(block.requested) +
                                                     " bytes needs a block of at least so many bytes, and " +
                                                     std::to_string(block.size) + " are given");
      earlier.push_back({{{block.address}, {block.size}}, {block.requested}, static_cast<CUstream>(block.stream)});
    }
    live.by_address().restore({first, second}, earlier, [&](const FoundBlock& found) {
      if (before_free == nullptr) return;
      const memlake_block_t block = to_c(found, pool->device);
      before_free(&block, user);
    });
  });
}

int memlake_pool_set_captured(memlake_pool* pool, uint64_t first, uint64_t second, int is_captured) {
  return code_from([&] { pool_of(pool).graphs().set_captured({first, second}, is_captured != 0); });
}

int memlake_pool_empty_graph(memlake_pool* pool, uint64_t first, uint64_t second) {
  return code_from([&] { pool_of(pool).graphs().empty({first, second}); });
}

int memlake_torch_use_graph(int device, uint64_t first, uint64_t second) {
  return code_from([&] { torch_pool_with(device, {first, second}).graphs().use({first, second}); });
}

int memlake_torch_begin_graph(int device, uint64_t first, uint64_t second, int (*takes)(void* stream, void* user),
                              void* user) {
  return code_from([&] { begin_graph(torch_pool_with(device, {first, second}), {first, second}, takes, user); });
}

int memlake_torch_end_graph(int device, uint64_t first, uint64_t second) {
  return code_from([&] { torch_pool_with(device, {first, second}).graphs().end_requests(GraphPoolId{first, second}); });
}

int memlake_torch_release_graph(int device, uint64_t first, uint64_t second, int may_wait) {
  return code_from([&] { torch_pool_with(device, {first, second}).graphs().release({first, second}, may_wait != 0); });
}

int64_t memlake_torch_graph_uses(int device, uint64_t first, uint64_t second) {
  std::uint64_t uses = 0;
  const int code =
      code_from([&] { uses = torch_pool_with(device, {first, second}).graphs().stats({first, second}).uses; });
  return code != MEMLAKE_OK ? code : static_cast<int64_t>(uses);
}
}
