#pragma once

// Space: the memory of one pool under one policy. Finds blocks, makes new ones, takes them back. It owns everything
// that the driver gave; the pool above it counts, waits for streams, and knows the callers.

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
#include "policies/invariant_report.hpp"
#include "policies/ladder.hpp"
#include "policies/outlook.hpp"
#include "streams/event_source.hpp"
#include "supply/ledger.hpp"
#include "supply/placement.hpp"
#include "supply/unlocked_scope.hpp"

namespace memlake {

class Space {
 public:
  /// `limit`: what may be held; the largest number for no limit.
  Space(std::shared_ptr<Device> device, EventSource& events, std::shared_ptr<Budget> budget)
      : Space({device}, device->total_memory(), events, Ledger(std::move(budget))) {}
  /// `total`: of all devices. `ledger`: with the budget of the pool.
  Space(Devices devices, Bytes total, EventSource& events, Ledger ledger)
      : device_(devices.front()),
        events_(events),
        device_total_(total),
        ledger_(std::move(ledger)),
        accessors_(std::move(devices)),
        own_count_(accessors_.size()) {}
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;
  virtual ~Space() = default;

  [[nodiscard]] virtual Bytes round(Bytes requested) const = 0;

  /// A free block cut to size and out of every index, without a driver call; null if there is none.
  virtual Block* take(Bytes rounded, StreamId stream) = 0;
  /// What to try for a request, in order, when take() has found nothing.
  [[nodiscard]] virtual Ladder ladder(const Attempt& attempt) const = 0;
  /// Tries one of the rungs that are the space's; null if it gave no block. A driver call that fails for lack of memory
  /// is noted in the attempt; other errors pass, and leave everything that is live or pending as it was.
  virtual Block* climb(Rung rung, Attempt& attempt) = 0;
  /// A block that was taken is free again.
  virtual void give_back(Block* block) = 0;

  /// Whether a block that was taken would serve a request as it is.
  [[nodiscard]] virtual bool serves(const Block& block, Bytes rounded) const = 0;
  /// Gives free memory back to the driver as long as at least `keep` bytes stay held. Waits for no stream: memory on
  /// which work may still be running stays.
  virtual void trim(Bytes keep) = 0;
  /// Gives everything that is free back to the driver.
  virtual void release_everything() = 0;
  /// Every block, in no order; no free ones if the driver counts them.
  virtual void for_each(const std::function<void(const Block&)>& visit) const = 0;
  [[nodiscard]] virtual std::size_t segment_count() const = 0;
  /// The largest free block of any stream, and of one.
  [[nodiscard]] virtual Bytes largest_free() const = 0;
  [[nodiscard]] virtual Bytes largest_free(StreamId stream) const = 0;
  /// What it could have done for a request that it has just refused. `device_free`: what the driver can still give.
  [[nodiscard]] virtual Outlook outlook(const Attempt& attempt, Bytes device_free) const = 0;

  /// Makes its memory, what there is and what will be, accessible from these devices and from no others but its own.
  /// Error(config) where access is not a matter of a pool. Devices of the same driver that can reach the memory.
  void set_peers(Devices peers);
  /// The devices beside its own that may read and write the memory.
  [[nodiscard]] Devices peers() const {
    const auto& all = accessors();
    return {all.begin() + static_cast<std::ptrdiff_t>(own_count_), all.end()};
  }

  /// What the driver could still give, to any program.
  [[nodiscard]] Bytes free_outside() const;

  /// A number that changes when other chunks come to lie behind the block's addresses.
  [[nodiscard]] virtual std::uint64_t generation(const Block& block) const = 0;

  /// I1 to I5, and that free blocks are offered to whom they may be (I6).
  virtual void check(InvariantReport& report) const = 0;

  /// The space gives up its pool's lock during long driver calls. `unlocker` must outlive the space.
  void set_unlocker(Unlocker& unlocker) { unlocker_ = &unlocker; }

  /// What this space holds, and where.
  [[nodiscard]] const Ledger& ledger() const {
    if (facets_.driver_counts != nullptr) facets_.driver_counts->refresh_ledger();
    return ledger_;
  }
  /// Lets the peak of spilled memory, and those that the driver keeps, begin again.
  void reset_peaks() {
    ledger_.reset_spilled_peak();
    if (facets_.driver_counts != nullptr) facets_.driver_counts->reset_held_peak();
  }
  [[nodiscard]] Bytes device_total() const { return device_total_; }

  [[nodiscard]] const Facets& facets() const { return facets_; }
  [[nodiscard]] Location location() const { return location_; }

  /// The name of its policy, for messages; "" if the registry did not make it. `name` must stay as it is.
  [[nodiscard]] const char* policy_name() const { return policy_name_; }
  virtual void set_policy_name(const char* name) { policy_name_ = name; }

  /// Its number in the pool.
  [[nodiscard]] std::uint8_t number() const { return number_; }
  void set_number(std::uint8_t number) { number_ = number; }

 protected:
  /// New memory that the limit and the driver leave to it.
  [[nodiscard]] Bytes room_within(Bytes device_free) const {
    const Bytes most = std::min(ledger_.most(), device_total_);
    return most > ledger_.held() ? std::min(most - ledger_.held(), device_free) : Bytes{0};
  }
  /// Changes the rights of devices over these mappings; all of them, or none.
  void change_rights_of(const std::vector<AddressRange>& mappings, const Devices& added, const Devices& removed);
  /// The devices that may read and write the memory.
  [[nodiscard]] const Devices& accessors() const {
    // A peer that was closed needs no access, and its driver would refuse to give it.
    const auto peers = accessors_.begin() + static_cast<std::ptrdiff_t>(own_count_);
    accessors_.erase(std::remove_if(peers, accessors_.end(), [](const auto& peer) { return !peer->is_open(); }),
                     accessors_.end());
    return accessors_;
  }

  std::shared_ptr<Device> device_;
  EventSource& events_;
  const Bytes device_total_;
  mutable Ledger ledger_;  // a space whose memory the driver counts asks it when the ledger is read
  Facets facets_;          // set by the constructor of the space
  Location location_ = Location::device;
  Unlocker* unlocker_ = nullptr;  ///< null if the pool has no lock

 private:
  mutable Devices accessors_;  // its own, then its peers
  std::size_t own_count_;
  std::uint8_t number_ = 0;
  const char* policy_name_ = "";
};

/// Makes a space of one policy with its options, on devices, over the budget of a pool. A pool calls it for its first
/// space, and again for another space of the same kind, as for the memory of a graph.
using SpaceMaker = std::function<std::unique_ptr<Space>(const Devices&, EventSource&, std::shared_ptr<Budget>)>;

}  // namespace memlake
