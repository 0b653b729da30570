#pragma once

// CudaPoolSpace: the space of the policy driver. Every request is an allocation from one of CUDA's own memory pools, in
// the order of the request's stream, and every free is the driver's, in the order of the stream it is given. What is
// free, and for whom, only the driver knows.

#include <memory>
#include <unordered_map>
#include <vector>

#include "blocks/block_map.hpp"
#include "policies/cuda_pool/cuda_pool_options.hpp"
#include "policies/space.hpp"
#include "vmm/pool_allocation.hpp"

namespace memlake {

namespace test {
struct CudaPoolSabotage;
}

class CudaPoolSpace final : public Space, OrderedFrees, StreamReuse, PeerAccess, DriverCounts, PolicyCounters {
  friend struct test::CudaPoolSabotage;  // breaks it, so that tests see what check() reports

 public:
  CudaPoolSpace(std::shared_ptr<Device> device, const CudaPoolOptions& options, EventSource& events,
                std::shared_ptr<Budget> budget);

  /// To whole steps of the alignment of all pools' memory; how much more the driver takes, only it knows.
  [[nodiscard]] Bytes round(Bytes requested) const override;
  Block* take(Bytes, StreamId) override { return nullptr; }
  [[nodiscard]] Ladder ladder(const Attempt& attempt) const override;
  Block* climb(Rung rung, Attempt& attempt) override;
  /// Of a block that was not freed in order before, frees it in the order of its stream.
  void give_back(Block* block) override;
  [[nodiscard]] bool serves(const Block&, Bytes) const override { return false; }

  /// The driver gives back only what the host has waited for; for streams that are idle that is no waiting.
  void trim(Bytes keep) override;
  /// Waits for the device.
  void release_everything() override;

  void for_each(const std::function<void(const Block&)>& visit) const override;
  [[nodiscard]] std::size_t segment_count() const override { return ledger().held().count > 0 ? 1 : 0; }
  /// All that is not used: in how many pieces it lies, only the driver knows.
  [[nodiscard]] Bytes largest_free() const override;
  [[nodiscard]] Bytes largest_free(StreamId) const override { return largest_free(); }
  [[nodiscard]] Outlook outlook(const Attempt& attempt, Bytes device_free) const override;

  [[nodiscard]] std::uint64_t generation(const Block&) const override { return 0; }
  void check(InvariantReport& report) const override;

 private:
  // Facets.
  void free_in_order(Block& block, StreamId stream) override;
  [[nodiscard]] ReuseRules reuse_rules() const override;
  void set_reuse_rules(const ReuseRules& rules) override;
  void change_access(const Devices& added, const Devices& removed) override;
  void refresh_ledger() const override;
  void set_release_threshold(Bytes threshold) override;
  void reset_used_peak() override { pool_.set(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0); }
  void reset_held_peak() override { pool_.set(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0); }
  [[nodiscard]] std::vector<Counter> counters() const override;

  /// One allocation and the block that stands for it.
  struct Slot final : SegmentMemory {
    Slot(AddressRange given, PoolAllocation&& owned) : SegmentMemory(given, {0}), allocation(std::move(owned)) {}
    [[nodiscard]] Bytes mapped() const override { return range.size; }

    PoolAllocation allocation;
    Block block{};
    bool is_freed = false;
  };

  [[nodiscard]] Block* try_to_allocate(Attempt& attempt);
  /// From the driver, aligned as the memory of every pool is. Throws Error.
  [[nodiscard]] std::unique_ptr<Slot> allocate(Bytes size, CUstream stream);
  [[nodiscard]] bool is_over_limit(Bytes size) const { return size > ledger_.most() || live_ > ledger_.most() - size; }
  [[nodiscard]] static Slot& slot_of(const Block& block) { return static_cast<Slot&>(*block.memory); }

  MemoryPool pool_;
  Bytes padding_{0};  // what a request needs beside its size so that an aligned piece of it is in what the driver gives
  BlockGroup group_{false};
  std::unordered_map<std::uint64_t, std::unique_ptr<Slot>> slots_;  // by address
  std::vector<PoolAllocation> stuck_;  // what could not be freed in order, until nothing can be using it
  Bytes live_{0};                      // in slots that are not freed
  std::uint64_t synchronisations_ = 0;
  std::vector<StreamId> freed_on_;  // since the host last waited for them
};

}  // namespace memlake
