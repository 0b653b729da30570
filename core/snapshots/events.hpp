#pragma once

// The events of one device as the rows of a trace. It finds the allocation of each free, and makes the allocations from
// before the first event the first rows. A request for which there was no memory is a row, too, and the next row frees
// it.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "pickles/document.hpp"
#include "snapshots/labels.hpp"
#include "snapshots/segments.hpp"
#include "snapshots/stacks.hpp"

namespace memlake::snapshots {

/// The events that are no rows, in the order of EventKind.
inline constexpr std::array<std::string_view, 6> kEventKinds = {"segment_alloc", "segment_free", "segment_map",
                                                                "segment_unmap", "oom",          "snapshot"};

/// The rows of a trace. First the allocations from before the first event, by address.
struct RowColumns {
  std::vector<std::uint8_t> op;
  std::vector<std::uint32_t> id;
  std::vector<std::uint64_t> nbytes;
  std::vector<std::uint64_t> stream;  ///< handles
  std::vector<std::int64_t> time;     ///< zeros if not every event has a time
  std::vector<std::uint64_t> address;
  std::vector<std::uint32_t> stack;
};

/// What the allocator did in addition: an event comes before the row that it names.
struct OtherEvents {
  std::vector<std::uint64_t> row;
  std::vector<std::uint8_t> kind;  ///< a place in kEventKinds
  std::vector<std::uint64_t> address;
  std::vector<std::uint64_t> nbytes;
  std::vector<std::uint64_t> stream;
  std::vector<std::int64_t> time;
  std::vector<std::uint64_t> device_free;
  std::vector<std::uint32_t> stack;
};

struct DeviceEvents {
  RowColumns rows;
  OtherEvents others;
  std::array<LabelColumn, kLabels.size()> labels;  ///< a label that no row has is empty
  bool has_times = false;
  bool has_unknown_stream = false;
  std::uint64_t num_carried = 0;
  /// The size of the block of each carried allocation that is still live at the end; -1 for the others.
  std::vector<std::int64_t> carried_block;
  /// The id of the allocation in each block of the device's segments; -1 if there is none.
  std::vector<std::int64_t> block_id;
  std::uint64_t num_allocation_events = 0;
  /// The first event completes a free whose request is missing, and all other frees are completed at once.
  bool begins_within_a_free = false;
  /// A block that is live at the end has a stack, so its allocation was recorded, but no event names it.
  bool has_lost_events = false;
  std::uint64_t implied_frees = 0;
  std::uint64_t unmatched_frees = 0;
  /// Unknown actions in the order of their first events, and how many there were.
  std::vector<std::pair<std::string, std::uint64_t>> ignored;
};

/// The place of an event that is wrong.
struct WrongEvent {
  std::uint64_t event = 0;
};

/// Throws pickles::Refused if the rows take too much memory.
std::variant<DeviceEvents, WrongEvent> read_events(pickles::Document& document, std::span<const pickles::Value> events,
                                                   const SegmentColumns& segments, std::uint32_t device,
                                                   Stacks& stacks);

}  // namespace memlake::snapshots
