#pragma once

// What may be said about a lake. Nothing has to be.

namespace memlake {

/// On which of several devices new memory is made.
enum class Placement {
  fill,     ///< the first that has room
  balance,  ///< the one of which the smallest share is held
  near,     ///< the one that the request's stream works on, then as fill
};

/// Where the memory of a lake lies.
enum class Location {
  device,
  host,       ///< the machine's own memory, anywhere
  host_numa,  ///< the same, on the NUMA node that is nearest to the first device
};

struct LakeOptions {
  /// May one chunk be mapped at two places at once? Where a device cannot, a lake moves whole chunks only, and waits in
  /// the host before it does.
  bool may_alias = true;
  Placement placement = Placement::fill;
  Location location = Location::device;
  /// What the devices have no room for lies on the host (as host_numa). pre: location is device.
  bool may_spill = false;
};

}  // namespace memlake
