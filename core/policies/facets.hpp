#pragma once

// Facets: optional interfaces of a space. A space derives from those it has and sets them in its constructor. Code
// above asks for a facet, never for a policy.

#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "blocks/block.hpp"
#include "driver/device.hpp"
#include "streams/reuse_rules.hpp"
#include "vmm/exported_chunk.hpp"

namespace memlake {

/// The driver frees memory in the order of any stream that the caller names. So no event is needed for a block that is
/// freed on another stream than its own.
class OrderedFrees {
 public:
  virtual ~OrderedFrees() = default;
  /// The part of a free that may fail; called before the pool changes its counters. The next call is give_back().
  virtual void free_in_order(Block& block, StreamId stream) = 0;
};

/// Rules decide when other streams may reuse freed memory. A space without them gives it to no other before a wait.
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
  /// The streams that may use the block's bytes after it was freed.
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
  /// Visits the pieces of a block in order, each with the number of its device and its size. The number after the last
  /// device means the host.
  virtual void for_each_piece(const Block& block, const std::function<void(std::size_t, Bytes)>& visit) const = 0;
};

/// As in PyTorch, a failed request may leave addresses at which no memory was ever mapped.
class BareAddresses {
 public:
  virtual ~BareAddresses() = default;
  virtual void release_bare_addresses() = 0;
};

/// Free memory can be taken at addresses that the caller chooses.
class ChosenAddresses {
 public:
  virtual ~ChosenAddresses() = default;
  /// A free block over exactly this range, removed from every index, without a driver call; null if the range is not
  /// free memory that the stream may use.
  virtual Block* take_range(AddressRange range, StreamId stream) = 0;
};

/// Other devices may be given access to the memory.
class PeerAccess {
 public:
  virtual ~PeerAccess() = default;
  /// Gives `added` the right to read and write all memory of the space, and takes it from `removed`; all or nothing.
  virtual void change_access(const Devices& added, const Devices& removed) = 0;
};

/// The chunks under a block can be passed to other processes, with everything else that lies in them.
class ChunkExports {
 public:
  virtual ~ChunkExports() = default;
  /// The chunks under a live block. They stay where they are while the block is live. Error(config) if the space does
  /// not make such chunks, or if a part of the block lies on the host.
  [[nodiscard]] virtual ExportedRange export_chunks(const Block& block) const = 0;
  /// Whether the space makes such chunks.
  [[nodiscard]] virtual bool makes_exportable_chunks() const = 0;
};

class SegmentRules;
struct GraphPool;

/// The policy says how a graph pool keeps its memory. Graph pools of other policies have rules of their own.
class GraphMemory {
 public:
  virtual ~GraphMemory() = default;
  /// Null if the policy says nothing after all.
  [[nodiscard]] virtual std::unique_ptr<SegmentRules> graph_rules(
      std::shared_ptr<const GraphPool> graph_pool) const = 0;
};

/// The space keeps memory or addresses that no block uses, and gives up those first that were not used for longest.
class UseOrder {
 public:
  virtual ~UseOrder() = default;
  struct Idle {
    AddressRange range;
    StreamId stream;  ///< that used it last
  };
  /// What it could give up, least recently used first.
  [[nodiscard]] virtual std::vector<Idle> least_recently_used() const = 0;
};

/// The driver itself counts the memory that is held and in use, and releases free memory when the program synchronises.
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

/// The name and the value of a figure, or of a state in one word, that only one policy has. The texts are static.
using Counter = std::pair<const char*, std::variant<std::uint64_t, double, const char*>>;

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
  ChosenAddresses* chosen_addresses = nullptr;
  PeerAccess* peer_access = nullptr;
  ChunkExports* chunk_exports = nullptr;
  GraphMemory* graph_memory = nullptr;
  UseOrder* use_order = nullptr;
  DriverCounts* driver_counts = nullptr;
  PolicyCounters* counters = nullptr;
};

}  // namespace memlake
