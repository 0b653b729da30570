#pragma once

// The segments of a snapshot and their blocks as columns: the state when the snapshot was taken.

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "pickles/document.hpp"
#include "snapshots/stacks.hpp"

namespace memlake::snapshots {

enum class BlockState : std::uint8_t { live, pending, free };

struct BlockColumns {
  std::vector<std::uint64_t> address;
  std::vector<std::uint64_t> nbytes;
  std::vector<std::uint64_t> requested;
  std::vector<std::uint8_t> state;  ///< BlockState
  std::vector<std::uint32_t> stack;
};

struct SegmentColumns {
  std::vector<std::uint32_t> device;
  std::vector<std::uint64_t> address;
  std::vector<std::uint64_t> nbytes;
  std::vector<std::uint64_t> stream;  ///< handles
  std::vector<std::uint8_t> is_small;
  std::vector<std::uint8_t> is_expandable;
  std::vector<std::int64_t> pool_first;
  std::vector<std::int64_t> pool_second;
  std::vector<std::uint64_t> first_block = {0};  ///< one more than segments
  BlockColumns blocks;
};

/// The place of a segment, or of a block in it, that is wrong.
struct WrongSegment {
  std::uint64_t segment = 0;
  std::optional<std::uint64_t> block = std::nullopt;
};

/// Throws pickles::Refused if the segments take too much memory.
std::variant<SegmentColumns, WrongSegment> read_segments(pickles::Document& document,
                                                         std::span<const pickles::Value> segments, Stacks& stacks);

}  // namespace memlake::snapshots
