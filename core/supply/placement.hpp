#pragma once

// Where new memory is created.

namespace memlake {

/// On which of several devices new memory is created.
enum class Placement {
  fill,     ///< the first that has room
  balance,  ///< the one of which the pool holds the smallest share; a block that fits on one device lies on one
  near,     ///< the device of the request's stream, then as fill
};

/// Where the memory of a space lies.
enum class Location {
  device,
  host,       ///< the machine's own memory, anywhere
  host_numa,  ///< the same, on the NUMA node that is nearest to the first device
};

}  // namespace memlake
