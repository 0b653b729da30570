#pragma once

// Space: the memory of one policy inside a pool. It owns chunks and addresses and finds, creates and takes back blocks.
// The pool above it counts, waits for streams, and knows the callers.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "driver/device.hpp"
#include "policies/attempt.hpp"
#include "policies/facets.hpp"
#include "policies/graph_pool.hpp"
#include "policies/invariant_report.hpp"
#include "policies/ladder.hpp"
#include "policies/outlook.hpp"
#include "policies/space_devices.hpp"
#include "policies/watch.hpp"
#include "streams/event_source.hpp"
#include "supply/ledger.hpp"
#include "supply/placement.hpp"
#include "supply/unlocked_scope.hpp"

namespace memlake {

class Space {
 public:
  Space(std::shared_ptr<Device> device, EventSource& events, std::shared_ptr<Budget> budget)
      : Space({device}, device->total_memory(), events, Ledger(std::move(budget))) {}
  /// `total`: the memory of all devices. `ledger`: has the budget of the pool.
  Space(Devices devices, Bytes total, EventSource& events, Ledger ledger)
      : device_(devices.front()), events_(events), ledger_(std::move(ledger)), reach_(std::move(devices), total) {}
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;
  virtual ~Space() = default;

  [[nodiscard]] virtual Bytes round(Bytes requested) const = 0;

  /// A free block, cut to size and removed from every index, without a driver call; null if there is none.
  virtual Block* take(Bytes rounded, StreamId stream) = 0;
  /// The rungs to try, in order, when take() has found no block.
  [[nodiscard]] virtual Ladder ladder(const Attempt& attempt) const = 0;
  /// Tries one rung of the space; null if it gave no block. The attempt records a driver call that fails for lack of
  /// memory. Other errors are thrown; they leave live and pending blocks unchanged.
  virtual Block* climb(Rung rung, Attempt& attempt) = 0;
  /// Takes back a block that take() or climb() gave.
  virtual void give_back(Block* block) = 0;

  /// Whether a block that was taken would serve a request without being cut.
  [[nodiscard]] virtual bool serves(const Block& block, Bytes rounded) const = 0;
  /// Releases free memory to the driver as long as at least `keep` bytes stay held. Waits for no stream: memory that
  /// running work may still use stays held.
  virtual void trim(Bytes keep) = 0;
  /// Releases all free memory to the driver.
  virtual void release_everything() = 0;
  /// Visits every block, in no particular order; no free blocks if the driver keeps the free memory.
  virtual void for_each(const std::function<void(const Block&)>& visit) const = 0;
  [[nodiscard]] virtual std::size_t segment_count() const = 0;
  /// The size of the largest free block of all streams, and of one stream; 0 if only the driver knows it.
  [[nodiscard]] virtual Bytes largest_free() const = 0;
  [[nodiscard]] virtual Bytes largest_free(StreamId stream) const = 0;
  /// The memory that it could have provided for a request that it has just refused. `device_free`: the memory that the
  /// driver has left.
  [[nodiscard]] virtual Outlook outlook(const Attempt& attempt, Bytes device_free) const = 0;

  /// Gives these devices, and no others except its own, access to its present and future memory. Error(config) if the
  /// policy's memory has no access rights per pool. pre: devices of the same driver that can reach the memory.
  void set_peers(const Devices& peers);

  /// A number that changes when other chunks are mapped at the block's addresses.
  [[nodiscard]] virtual std::uint64_t generation(const Block& block) const = 0;

  /// Checks I1 to I5, and that free blocks are in the right free index (I6).
  virtual void check(InvariantReport& report) const = 0;

  /// Allows the space to unlock its pool during long driver calls. `unlocker` must outlive the space.
  void set_unlocker(Unlocker& unlocker) { unlocker_ = &unlocker; }

  /// From now on the space reports changes of its memory; null: it reports nothing.
  virtual void set_observer(SupplyObserver* observer) { watch_.set(observer); }
  /// Its memory in segments for small requests; nothing if it makes no difference.
  [[nodiscard]] virtual SmallPart small_part() const { return {}; }

  /// The account of this space, up to date.
  [[nodiscard]] const Ledger& ledger() const {
    if (facets_.driver_counts != nullptr) facets_.driver_counts->refresh_ledger();
    return ledger_;
  }
  /// Resets the peak of spilled memory, and the driver's peak of held memory.
  void reset_peaks() {
    ledger_.reset_spilled_peak();
    if (facets_.driver_counts != nullptr) facets_.driver_counts->reset_held_peak();
  }
  /// The devices that its memory lies on, and those that may reach it.
  [[nodiscard]] const SpaceDevices& devices() const { return reach_; }

  [[nodiscard]] const Facets& facets() const { return facets_; }

  /// The name of its policy, for messages; "" if the registry did not make it. `name` must stay valid.
  [[nodiscard]] const char* policy_name() const { return policy_name_; }
  virtual void set_policy_name(const char* name) { policy_name_ = name; }

  /// Its number in the pool.
  [[nodiscard]] std::uint16_t number() const { return number_; }
  void set_number(std::uint16_t number) { number_ = number; }

  /// The number of the device of the pool that its memory lies on, if it lies on one. A space on several has the facet
  /// SeveralPlaces.
  [[nodiscard]] std::size_t device_number() const { return device_number_; }
  /// The graph pool that its memory belongs to; null: it is no memory of graphs.
  [[nodiscard]] const std::shared_ptr<GraphPool>& graph_pool() const { return graph_pool_; }
  void set_graph_pool(std::shared_ptr<GraphPool> graph_pool, std::size_t device_number) {
    watch_.set_owner(graph_pool->id);
    graph_pool_ = std::move(graph_pool);
    device_number_ = device_number;
  }

 protected:
  /// The new memory that the limit and the driver still allow.
  [[nodiscard]] Bytes room_within(Bytes device_free) const {
    const Bytes most = std::min(ledger_.most(), reach_.total());
    return std::min(most.excess_over(ledger_.held()), device_free);
  }
  /// The need of a policy that adds `more` to all that the pool holds.
  [[nodiscard]] Outlook::Need need_of(Bytes alone, Bytes more, Bytes from_driver) const {
    const Bytes held = ledger_.elsewhere() + ledger_.held() + ledger_.promised();
    return {alone, more, checked_add(held, more).value_or(Budget::kUnlimited), from_driver};
  }
  std::shared_ptr<Device> device_;
  EventSource& events_;
  mutable Ledger ledger_;  // mutable: ledger() updates it if the driver counts the memory
  SpaceDevices reach_;
  Facets facets_;                 // set by the constructor of the space
  Unlocker* unlocker_ = nullptr;  ///< null if the pool has no lock
  Watch watch_;

 private:
  std::uint16_t number_ = 0;
  std::size_t device_number_ = 0;
  std::shared_ptr<GraphPool> graph_pool_;
  const char* policy_name_ = "";
};

/// Makes a space of one policy with its options, on these devices, over the budget of a pool.
using SpaceMaker = std::function<std::unique_ptr<Space>(const Devices&, EventSource&, std::shared_ptr<Budget>)>;

}  // namespace memlake
