#pragma once

// The options of the policy lake. All have defaults.

#include "supply/placement.hpp"

namespace memlake {

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
