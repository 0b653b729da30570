#pragma once

// Space: the memory of one pool under one policy. Finds blocks, makes new ones, takes them back. It owns everything
// that the driver gave; the pool above it counts, waits for streams, and knows the callers.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "driver/device.hpp"
#include "policies/attempt.hpp"
#include "policies/invariant_report.hpp"
#include "policies/ladder.hpp"
#include "streams/event_source.hpp"
#include "streams/reuse_rules.hpp"
#include "supply/ledger.hpp"
#include "supply/unlocked_scope.hpp"

namespace memlake {

/// Something that only one policy counts, under its name.
using Counter = std::pair<const char*, std::variant<std::uint64_t, double>>;

class Space {
 public:
  /// `limit`: what may be held; the largest number for no limit.
  Space(std::shared_ptr<Device> device, EventSource& events, Bytes limit)
      : Space({device}, device->total_memory(), events, Ledger(std::make_shared<Budget>(limit))) {}
  /// `total`: of all devices. `ledger`: with the budget of the pool.
  Space(std::vector<std::shared_ptr<Device>> devices, Bytes total, EventSource& events, Ledger ledger)
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

  /// Whether freeing is the driver's own matter, in the order of any stream that the caller names: then nothing needs
  /// to be awaited for a block that is freed on another stream than its own.
  [[nodiscard]] virtual bool frees_in_order() const { return false; }
  /// What may fail of giving a block back, before anything is counted. pre: frees_in_order(). post: give_back() is
  /// next.
  virtual void free_in_order(Block&, StreamId) {}

  /// Whether a block that was taken would serve a request as it is.
  [[nodiscard]] virtual bool serves(const Block& block, Bytes rounded) const = 0;
  /// The streams that may use the block's bytes once it was given back.
  virtual void for_each_owner(const Block& block, const std::function<void(StreamId)>& visit) const {
    visit(block.stream);
  }

  /// Whether so much is in use that pending memory should serve the next request behind a wait on the device, rather
  /// than other memory be taken and split.
  [[nodiscard]] virtual bool is_crowded() const { return false; }

  /// Gives free memory back to the driver as long as at least `keep` bytes stay held. Waits for no stream: memory on
  /// which work may still be running stays.
  virtual void trim(Bytes keep) = 0;
  /// Gives everything that is free back to the driver.
  virtual void release_everything() = 0;
  /// Gives addresses back that nothing was ever mapped to: a request that failed may leave some, as PyTorch's do.
  virtual void release_bare_addresses() {}

  /// Every block, in no order; free ones only if it shows them.
  virtual void for_each(const std::function<void(const Block&)>& visit) const = 0;
  /// Whether what is free is in blocks of its own; if not, only the driver knows where it lies.
  [[nodiscard]] virtual bool shows_free_blocks() const { return true; }
  [[nodiscard]] virtual std::size_t segment_count() const = 0;
  /// The largest free block of any stream, and of one.
  [[nodiscard]] virtual Bytes largest_free() const = 0;
  [[nodiscard]] virtual Bytes largest_free(StreamId stream) const = 0;
  /// What is free where this request could have taken it.
  [[nodiscard]] virtual Bytes free_for(const Attempt& attempt) const = 0;

  /// Under which rules freed memory reaches other streams; nothing where it never does before a wait.
  [[nodiscard]] virtual std::optional<ReuseRules> reuse_rules() const { return std::nullopt; }
  /// pre: reuse_rules() is not empty.
  virtual void set_reuse_rules(const ReuseRules&) {}
  /// How much free memory stays held when the program synchronises, where that is the space's matter.
  virtual void set_release_threshold(Bytes) {}

  /// Makes its memory, what there is and what will be, accessible from these devices and from no others but its own.
  /// Error(config) where access is not a matter of a pool. Devices of the same driver that can reach the memory.
  void set_peers(std::vector<std::shared_ptr<Device>> peers);
  /// The devices beside its own that may read and write the memory.
  [[nodiscard]] std::vector<std::shared_ptr<Device>> peers() const {
    const auto& all = accessors();
    return {all.begin() + static_cast<std::ptrdiff_t>(own_count_), all.end()};
  }

  /// What this policy counts beside what every pool does.
  [[nodiscard]] virtual std::vector<Counter> counters() const { return {}; }

  /// The bytes of a block in order, by the number of the device that they lie on; the number of devices means: the
  /// host.
  virtual void for_each_piece(const Block& block, const std::function<void(std::size_t, Bytes)>& visit) const {
    visit(0, block.size);
  }

  /// What the driver could still give, to anybody.
  [[nodiscard]] virtual Bytes free_outside() { return device_->free_memory(); }

  /// A number that changes when other chunks come to lie behind the block's addresses.
  [[nodiscard]] virtual std::uint64_t generation(const Block& block) const = 0;

  /// I1 to I5, and that free blocks are offered to whom they may be (I6).
  virtual void check(InvariantReport& report) const = 0;

  /// The space gives up its pool's lock during long driver calls. `unlocker` must outlive the space.
  void set_unlocker(Unlocker& unlocker) { unlocker_ = &unlocker; }

  /// What this space holds, and where.
  [[nodiscard]] const Ledger& ledger() const {
    refresh_ledger();
    return ledger_;
  }
  /// Lets the peaks begin again that the space keeps itself, or the driver for it.
  virtual void reset_used_peak() {}
  virtual void reset_held_peak() { ledger_.reset_spilled_peak(); }
  [[nodiscard]] Bytes device_total() const { return device_total_; }

  /// Its number in the pool.
  [[nodiscard]] std::uint8_t number() const { return number_; }
  void set_number(std::uint8_t number) { number_ = number; }

 protected:
  /// Brings ledger_ up to date, where the driver counts.
  virtual void refresh_ledger() const {}
  /// Where its chunks are mapped, in whole mappings; nothing if its memory is not mapped by itself.
  [[nodiscard]] virtual std::optional<std::vector<AddressRange>> mapped_ranges() const { return std::nullopt; }
  /// Lets devices read and write all its memory, and takes the right from others; all of it, or nothing.
  virtual void change_access(const std::vector<std::shared_ptr<Device>>& added,
                             const std::vector<std::shared_ptr<Device>>& removed);
  /// The devices that may read and write the memory.
  [[nodiscard]] const std::vector<std::shared_ptr<Device>>& accessors() const {
    // A peer that was closed needs no access, and its driver would refuse to give it.
    const auto peers = accessors_.begin() + static_cast<std::ptrdiff_t>(own_count_);
    accessors_.erase(std::remove_if(peers, accessors_.end(), [](const auto& peer) { return !peer->is_open(); }),
                     accessors_.end());
    return accessors_;
  }

  std::shared_ptr<Device> device_;
  EventSource& events_;
  const Bytes device_total_;
  mutable Ledger ledger_;
  Unlocker* unlocker_ = nullptr;  ///< null if the pool has no lock

 private:
  mutable std::vector<std::shared_ptr<Device>> accessors_;  // its own, then its peers
  std::size_t own_count_;
  std::uint8_t number_ = 0;
};

/// Makes the space of a pool: of one policy with its options, on devices, with a limit.
using SpaceMaker =
    std::function<std::unique_ptr<Space>(const std::vector<std::shared_ptr<Device>>&, EventSource&, Bytes)>;

}  // namespace memlake
