#pragma once

// DriverStreams: the streams of a live pool. Each part uses only the parts before it.

#include <memory>
#include <utility>
#include <vector>

#include "streams/driver_events.hpp"
#include "streams/driver_handles.hpp"
#include "streams/driver_progress.hpp"
#include "streams/driver_waits.hpp"
#include "streams/stream_arrivals.hpp"
#include "streams/stream_places.hpp"
#include "streams/stream_table.hpp"

namespace memlake {

struct DriverStreams {
  explicit DriverStreams(std::vector<std::shared_ptr<Device>> devices) : places(std::move(devices), table) {}

  StreamTable table = {};                                   ///< which streams are known
  StreamPlaces places;                                      ///< where they work
  DriverProgress progress{table, places};                   ///< what they have passed
  DriverWaits waits{table, places, progress};               ///< how the host waits for them
  DriverHandles handles{table, progress, waits};            ///< how driver calls name them
  StreamArrivals arrivals{table, places, progress, waits};  ///< how new ones become known
  DriverEvents events{table, places, handles, progress, waits};
};

}  // namespace memlake
