#pragma once

// LakeHomes: where the memory of a lake lies, on devices or on the host. It creates chunks and reserves addresses, and
// it knows how much each place can give.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "driver/device.hpp"
#include "policies/lake/lake_options.hpp"
#include "policies/lake/range.hpp"
#include "streams/event_source.hpp"
#include "supply/ledger.hpp"

namespace memlake {

/// One chunk that will be created, and on which home.
struct Making {
  Bytes size;
  std::size_t on;  ///< number of the home
};

class LakeHomes {
 public:
  /// Error(config) if memory of the host is wanted and a device cannot map it. `events` and `ledger` must outlive it.
  LakeHomes(Devices devices, const LakeOptions& options, EventSource& events, Ledger& ledger, Bytes total);

  /// Chunks of all homes can be mapped side by side in multiples of this.
  [[nodiscard]] Bytes granule() const { return granule_; }
  [[nodiscard]] std::size_t count() const { return homes_.size(); }
  /// The memory of all homes.
  [[nodiscard]] Bytes total() const { return total_; }
  /// The most that the lake can hold: by the limit of the pool, and by what the homes are known to have.
  [[nodiscard]] Bytes budget() const;
  /// The new memory that the budget allows now.
  [[nodiscard]] Bytes room() const { return budget().excess_over(ledger_.held() + ledger_.promised()); }

  /// The home of each chunk that will be created. A chunk lies on one home, so the last one of a home may be smaller.
  /// `only`: the home of all of them; empty: as the placement says.
  [[nodiscard]] std::vector<Making> assign(const std::vector<Bytes>& sizes, StreamId stream,
                                           std::optional<std::size_t> only) const;
  /// Whether a block lies on one home if one can give it alone.
  [[nodiscard]] bool keeps_blocks_whole() const {
    return options_.placement == Placement::balance && homes_.size() > 1;
  }
  /// Of the homes that have room for `total` bytes, the one of which the lake holds the smallest share.
  [[nodiscard]] std::optional<std::size_t> home_for(Bytes total) const;
  [[nodiscard]] bool has_room_on(std::size_t home, Bytes total) const { return total <= room_on(home); }
  /// The new memory that the home is known to have.
  [[nodiscard]] Bytes room_on(std::size_t home) const { return homes_[home].most.excess_over(taken_on(home)); }
  /// The homes, the one of which the lake holds the smallest share first.
  [[nodiscard]] std::vector<std::size_t> by_share() const;
  /// Creates a chunk. Reads nothing that the pool's lock guards.
  [[nodiscard]] std::unique_ptr<LakeChunk> create(const Making& making) const;
  /// Creates a chunk on the host for a request that the devices have no room for.
  [[nodiscard]] std::unique_ptr<LakeChunk> create_spilled(Bytes size) const;
  /// Creates chunks, all or none. A driver without memory is noted, and its error passes.
  [[nodiscard]] std::vector<std::unique_ptr<LakeChunk>> create(const std::vector<Bytes>& sizes, StreamId stream,
                                                               std::optional<std::size_t> only);
  /// The driver had no memory, although the home should have had some. Until memory is released, it has no more.
  void note_shortage(std::size_t home) { homes_[home].most = taken_on(home); }
  /// Asks drivers that once had less than they should have; true if one has more now.
  bool has_more_than_known();

  /// The account of a chunk that the lake keeps, or has released.
  void add(const LakeChunk& chunk);
  void subtract(const LakeChunk& chunk);
  [[nodiscard]] Ledger& ledger() const { return ledger_; }
  /// pre: it was not spilled.
  [[nodiscard]] std::size_t home_of(const LakeChunk& chunk) const { return std::min(chunk.device, homes_.size() - 1); }

  [[nodiscard]] std::shared_ptr<Reservation> reserve(Bytes size) const;
  /// Gives `users` access to the range, and the CPU access to its highest `on_host` bytes, which lie on the host.
  void grant(AddressRange range, std::span<const std::shared_ptr<Device>> users, Bytes on_host) const;
  /// Tries again to undo what could not be undone before.
  void retry_leftovers() const { devices_.front()->retry_leftovers(); }
  /// The driver refused a feature in use: new pools on these devices do without it from the start.
  void note_refusal(Feature feature, const Error& error) const;
  /// Whether chunks of devices can be passed to other processes. False also after the driver has refused such a chunk.
  [[nodiscard]] bool is_exportable() const;
  /// Whether all memory of the lake lies on the host.
  [[nodiscard]] bool is_on_host() const { return options_.location != Location::device; }

 private:
  /// One device, or the host if all memory lies there.
  struct Home {
    Bytes total;
    Bytes most;  ///< what can be held there, as far as is known: the driver may have less than `total` to give
  };

  /// The memory that is held on a home or being created on it.
  [[nodiscard]] Bytes taken_on(std::size_t home) const { return ledger_.held_on(home) + ledger_.promised_on(home); }
  /// The share of the home that is held, with `made` on it.
  [[nodiscard]] double share_on(std::size_t home, Bytes made) const;
  /// The home of the next chunk; `made` is what this request has on each already.
  [[nodiscard]] std::size_t next_home(const std::vector<Bytes>& made, StreamId stream) const;
  [[nodiscard]] std::unique_ptr<LakeChunk> create_on_host(Bytes size) const;

  Devices devices_;
  LakeOptions options_;
  EventSource& events_;
  Ledger& ledger_;
  Bytes total_;
  std::vector<Home> homes_;
  CUmemLocation host_{};  // where memory of the host is created, if any is
  Bytes granule_;
  bool is_exportable_ = false;
};

}  // namespace memlake
