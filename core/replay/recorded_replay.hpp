#pragma once

// Replays the requests of a record and reports the policy's actions, in the record's addresses.

#include <memory>
#include <optional>

#include "replay/record.hpp"
#include "replay/recorded_rules.hpp"
#include "replay/replay.hpp"

namespace memlake {

struct RecordedOutcome {
  std::vector<std::uint64_t> addresses;     ///< the address for each row that allocates; 0 for the others
  std::vector<RecordedEvent> events;        ///< segments that were created and released, in order
  std::vector<RecordedSegment> last;        ///< the segments at the end, by address
  std::optional<std::uint64_t> failed_row;  ///< at which a request found no memory; the rest was not replayed
};

/// The record determines when memory is released, because that depends on the device and on the program. The record
/// also determines the addresses of new segments. The policy decides which memory is released, and everything else.
/// `device` must be large enough for all memory.
RecordedOutcome replay_record(const TraceColumns& trace, const Record& record, TieBreak tie_break,
                              std::shared_ptr<Device> device, std::unique_ptr<SegmentRules> policy);

}  // namespace memlake
