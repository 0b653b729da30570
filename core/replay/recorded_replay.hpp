#pragma once

// Replays the requests of a record and says what the policy did with them, in the record's addresses.

#include <memory>
#include <optional>

#include "replay/record.hpp"
#include "replay/recorded_rules.hpp"
#include "replay/replay.hpp"

namespace memlake {

struct RecordedOutcome {
  std::vector<std::uint64_t> addresses;     ///< for each row that allocates where it is; 0 for the others
  std::vector<RecordedEvent> events;        ///< segments that came and went, in order
  std::vector<RecordedSegment> last;        ///< the segments at the end, by address
  std::optional<std::uint64_t> failed_row;  ///< at which a request found no memory; the rest was not replayed
};

/// When memory is given back is taken from the record, since it depends on the device and on the program; what is given
/// back, and everything else, the policy decides. Where a new segment lies is taken from the record, too. `device` must
/// be large enough for all of it.
RecordedOutcome replay_record(const TraceColumns& trace, const Record& record, TieBreak tie_break,
                              std::shared_ptr<Device> device, std::unique_ptr<SegmentRules> policy);

}  // namespace memlake
