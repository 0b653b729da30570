#pragma once

// The options of the policy lake. All have defaults.

#include <string>

#include "supply/placement.hpp"

namespace memlake {

struct LakeOptions {
  /// The highest level of aliasing that the pool uses: a word of kAliasingWords, or "auto" for the highest level that
  /// is proven on all its devices.
  std::string aliasing = "auto";
  Placement placement = Placement::fill;
  Location location = Location::device;
  /// What the devices have no room for lies on the host (as host_numa). pre: location is device.
  bool may_spill = false;
  /// Chunks can be passed to other processes, if all devices can do that.
  bool is_exportable = false;
};

}  // namespace memlake
