#pragma once

// CudaPoolSpace: the space of the policy driver. Every request is an allocation from one of CUDA's own memory pools, in
// the order of the request's stream. Every free is a driver call in the order of the stream that the caller names. Only
// the driver knows which memory is free for which stream.

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

  /// Rounds up to the alignment that memory of all memlake pools has. Only the driver knows how much it really takes.
  [[nodiscard]] Bytes round(Bytes requested) const override;
  Block* take(Bytes, StreamId) override { return nullptr; }
  [[nodiscard]] Ladder ladder(const Attempt& attempt) const override;
  Block* climb(Rung rung, Attempt& attempt) override;
  /// Frees the block in the order of its stream, unless free_in_order() has freed it before.
  void give_back(Block* block) override;
  [[nodiscard]] bool serves(const Block&, Bytes) const override { return false; }

  /// The driver releases only memory for whose frees the host has waited. trim() does so for idle streams, where the
  /// host need not wait.
  void trim(Bytes keep) override;
  /// Waits for the device.
  void release_everything() override;

  void for_each(const std::function<void(const Block&)>& visit) const override;
  [[nodiscard]] std::size_t segment_count() const override { return ledger().held().count > 0 ? 1 : 0; }
  /// 0: the driver does not tell in how many pieces its free memory lies.
  [[nodiscard]] Bytes largest_free() const override { return {0}; }
  [[nodiscard]] Bytes largest_free(StreamId) const override { return {0}; }
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

  /// One allocation and its block.
  struct Slot final : SegmentMemory {
    Slot(AddressRange given, PoolAllocation&& owned) : SegmentMemory(given, {0}), allocation(std::move(owned)) {}
    [[nodiscard]] Bytes mapped() const override { return range.size; }

    PoolAllocation allocation;
    Block block{};
    bool is_freed = false;
  };

  [[nodiscard]] Block* try_to_allocate(Attempt& attempt);
  /// The driver frees it in the order of the stream.
  void close(Slot& slot, StreamId stream, CUstream handle);
  /// Allocates from the driver, with the alignment that memory of all memlake pools has. Throws Error.
  [[nodiscard]] std::unique_ptr<Slot> allocate(Bytes size, CUstream stream);
  /// All held memory that is not used; the driver does not tell in how many pieces.
  [[nodiscard]] Bytes free_in_all() const;
  [[nodiscard]] bool is_over_limit(Bytes size) const { return size > ledger_.most() || live_ > ledger_.most() - size; }
  [[nodiscard]] static Slot& slot_of(const Block& block) { return static_cast<Slot&>(*block.memory); }

  MemoryPool pool_;
  Bytes padding_{0};  // bytes added to a request so that the driver's memory contains an aligned piece of its size
  BlockGroup group_{false};
  std::unordered_map<std::uint64_t, std::unique_ptr<Slot>> slots_;  // by address
  std::vector<PoolAllocation> stuck_;  // could not be freed in order; kept until the host waits for the device
  Bytes live_{0};                      // bytes in slots that are not freed
  std::uint64_t synchronisations_ = 0;
  std::vector<StreamId> freed_on_;  // streams with frees since the host last waited for them
};

}  // namespace memlake
