#pragma once

// Where new memory is made.

namespace memlake {

/// On which of several devices new memory is made.
enum class Placement {
  fill,     ///< the first that has room
  balance,  ///< the one of which the smallest share is held
  near,     ///< the one that the request's stream works on, then as fill
};

/// Where the memory of a space lies.
enum class Location {
  device,
  host,       ///< the machine's own memory, anywhere
  host_numa,  ///< the same, on the NUMA node that is nearest to the first device
};

}  // namespace memlake
