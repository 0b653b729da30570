#pragma once

// StreamArrivals: gives streams their numbers in the table of a live pool, and forgets streams of other libraries when
// the table has grown.

#include <cstddef>
#include <functional>
#include <vector>

#include "streams/driver_waits.hpp"
#include "streams/forgotten_streams.hpp"
#include "streams/stream_table.hpp"

namespace memlake {

class StreamArrivals {
 public:
  StreamArrivals(StreamTable& streams, const StreamPlaces& places, const DriverProgress& progress, DriverWaits& waits)
      : streams_(streams), places_(places), progress_(progress), waits_(waits) {}

  /// The stream's number in the pool; see StreamTable. Asks the driver about streams that are new.
  StreamId number_of(StreamName stream);
  /// To be called before a stream of another library gets a number: forgets others if the table has grown. `in_use`
  /// returns for each number whether memory of the pool depends on its stream.
  void make_room_for(const StreamName& arriving, const std::function<std::vector<bool>()>& in_use);

 private:
  /// Whether all work of a stream that has ended is complete.
  bool is_complete(StreamId ended);
  /// Forgets the streams that no call has named for a while, if their work is complete. `may_wait`: the host waits for
  /// it.
  void forget_unused(const std::vector<bool>& in_use, bool may_wait);

  StreamTable& streams_;
  const StreamPlaces& places_;
  const DriverProgress& progress_;
  DriverWaits& waits_;
  ForgottenStreams forgotten_;
  std::size_t unknown_ends_ = 0;  // streams that were seen to have ended without a last event
};

}  // namespace memlake
