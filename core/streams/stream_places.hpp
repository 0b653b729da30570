#pragma once

// StreamPlaces: the contexts that the streams of a pool work in. An event belongs to a context and is recorded in the
// streams of that context; any stream may wait for it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "driver/event.hpp"
#include "driver/library.hpp"
#include "streams/stream_table.hpp"

namespace memlake {

class StreamPlaces {
 public:
  StreamPlaces(std::vector<std::shared_ptr<Device>> devices, const StreamTable& streams)
      : devices_(std::move(devices)), streams_(streams) {}

  [[nodiscard]] const std::vector<std::shared_ptr<Device>>& devices() const noexcept { return devices_; }
  [[nodiscard]] Driver& unwrapped() const { return devices_.front()->library().unwrapped(); }
  [[nodiscard]] StreamOrder& order() const { return devices_.front()->library().order(); }

  /// Where the events of a stream are made: the primary contexts of the devices come first, then the other contexts.
  [[nodiscard]] std::size_t place_of(StreamId stream) const {
    const std::size_t context = streams_.context_of(stream);
    return context == 0 ? streams_.device_of(stream) : devices_.size() + context - 1;
  }
  /// Whether the place is the primary context of a device of the pool, which exists as long as the pool.
  [[nodiscard]] bool is_own(std::size_t place) const { return place < devices_.size(); }
  [[nodiscard]] const std::shared_ptr<Device>& device_at(std::size_t place) const {
    return is_own(place) ? devices_[place] : others_[place - devices_.size()].device;
  }
  /// Null: the primary context of the device.
  [[nodiscard]] CUcontext context_at(std::size_t place) const {
    return is_own(place) ? nullptr : others_[place - devices_.size()].context;
  }
  [[nodiscard]] Device& device_for(StreamId stream) const { return *device_at(place_of(stream)); }
  [[nodiscard]] std::shared_ptr<EventOwner> make_event(std::size_t place) const;
  /// Whether the event is complete; an event of a context that was destroyed is.
  [[nodiscard]] bool is_event_done(std::size_t place, const EventOwner& event) const;

  /// The name of a created stream of another library: with the context and the device that the driver tells. A device
  /// that is not one of the pool has the number of devices.
  StreamName locate(CUstream created, std::uint64_t identity);

 private:
  /// A context that is not the primary one of a device of the pool.
  struct OtherContext {
    CUcontext context;
    std::shared_ptr<Device> device;
  };

  std::vector<std::shared_ptr<Device>> devices_;
  const StreamTable& streams_;
  std::vector<OtherContext> others_;  // a stream has their numbers plus one
};

}  // namespace memlake
