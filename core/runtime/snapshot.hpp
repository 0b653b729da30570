#pragma once

// Snapshot: all blocks of a pool at one moment, as plain numbers that are copied to Python as tables.

#include <cstdint>
#include <vector>

namespace memlake {

/// One block of a snapshot.
struct BlockRecord {
  std::uint64_t segment;  ///< address of its segment
  std::uint64_t segment_size;
  std::uint64_t page;  ///< of an expandable segment, else 0
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t requested;
  std::uint64_t stream;  ///< handle
  std::uint64_t state;   ///< BlockState
  std::uint64_t is_small;
  std::uint64_t id;
  std::uint64_t on_host;           ///< bytes that lie on the host because the devices had no room
  std::uint64_t graph_pool_first;  ///< GraphPoolId
  std::uint64_t graph_pool_second;
  std::uint64_t first_piece;  ///< in Snapshot::pieces; 0 if it has none
  std::uint64_t piece_count;  ///< 0: it has no memory of its own
};

/// A part of a block that lies in one place.
struct PieceRecord {
  std::uint64_t device;  ///< its number in the pool; the number of devices means the host
  std::uint64_t size;
};

/// Addresses that the policy keeps for later; see UseOrder.
struct IdleRecord {
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t stream;  ///< handle
};

/// A pool at one moment.
struct Snapshot {
  std::vector<BlockRecord> blocks;  ///< by address
  std::vector<PieceRecord> pieces;
  std::vector<IdleRecord> idle;  ///< least recently used first
};

}  // namespace memlake
