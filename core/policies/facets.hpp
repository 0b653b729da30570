#pragma once

// Facets: interfaces that some spaces have. A space derives from those it has and names them in its constructor; code
// above asks for the facet, never for the policy.

#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "blocks/block.hpp"
#include "driver/device.hpp"
#include "streams/reuse_rules.hpp"

namespace memlake {

/// The driver frees in the order of any stream that the caller names: no event is needed for a block that is freed on
/// another stream than its own.
class OrderedFrees {
 public:
  virtual ~OrderedFrees() = default;
  /// The part of giving a block back that may fail, before anything is counted. post: give_back() is next.
  virtual void free_in_order(Block& block, StreamId stream) = 0;
};

/// Rules say when freed memory reaches other streams. A space without them gives it to no other stream before a wait.
class StreamReuse {
 public:
  virtual ~StreamReuse() = default;
  [[nodiscard]] virtual ReuseRules reuse_rules() const = 0;
  virtual void set_reuse_rules(const ReuseRules& rules) = 0;
};

/// The bytes of a block may belong to several streams (GiveBack::to_several).
class SeveralOwners {
 public:
  virtual ~SeveralOwners() = default;
  /// The streams that may use the block's bytes once it was given back.
  virtual void for_each_owner(const Block& block, const std::function<void(StreamId)>& visit) const = 0;
};

/// When much of the budget is in use, pending memory serves the next request behind a wait on the device; otherwise the
/// request would split other memory.
class Crowding {
 public:
  virtual ~Crowding() = default;
  [[nodiscard]] virtual bool is_crowded() const = 0;
};

/// A block may lie on several devices, or on the host.
class SeveralPlaces {
 public:
  virtual ~SeveralPlaces() = default;
  /// The bytes of a block in order, by the number of the device that they lie on; the number of devices means: the
  /// host.
  virtual void for_each_piece(const Block& block, const std::function<void(std::size_t, Bytes)>& visit) const = 0;
};

/// A request that failed may leave addresses that nothing was ever mapped to, as PyTorch's do.
class BareAddresses {
 public:
  virtual ~BareAddresses() = default;
  virtual void release_bare_addresses() = 0;
};

/// Other devices may be given access to the memory.
class PeerAccess {
 public:
  virtual ~PeerAccess() = default;
  /// Lets devices read and write all memory of the space, and takes the right from others; all of it, or nothing.
  virtual void change_access(const Devices& added, const Devices& removed) = 0;
};

/// The driver itself counts what is held and in use, and releases free memory when the program synchronises.
class DriverCounts {
 public:
  virtual ~DriverCounts() = default;
  /// Brings the ledger of the space up to date.
  virtual void refresh_ledger() const = 0;
  /// How much free memory stays held when the program synchronises.
  virtual void set_release_threshold(Bytes threshold) = 0;
  virtual void reset_used_peak() = 0;
  virtual void reset_held_peak() = 0;
};

/// A figure that only one policy counts, under its name.
using Counter = std::pair<const char*, std::variant<std::uint64_t, double>>;

class PolicyCounters {
 public:
  virtual ~PolicyCounters() = default;
  [[nodiscard]] virtual std::vector<Counter> counters() const = 0;
};

/// Null for each facet that the space lacks.
struct Facets {
  OrderedFrees* ordered_frees = nullptr;
  StreamReuse* reuse = nullptr;
  SeveralOwners* several_owners = nullptr;
  Crowding* crowding = nullptr;
  SeveralPlaces* several_places = nullptr;
  BareAddresses* bare_addresses = nullptr;
  PeerAccess* peer_access = nullptr;
  DriverCounts* driver_counts = nullptr;
  PolicyCounters* counters = nullptr;
};

}  // namespace memlake
