#pragma once

// ReuseRules: when memory that was freed on one stream may serve a request of another stream. They are the three
// switches of CUDA's memory pools.

namespace memlake {

struct ReuseRules {
  bool follow_event_dependencies = true;    ///< if the program ordered that stream behind the free
  bool allow_opportunistic = true;          ///< if the stream that freed it has passed the free
  bool allow_internal_dependencies = true;  ///< behind a wait on the device, if there is no other memory

  bool operator==(const ReuseRules&) const = default;
};

}  // namespace memlake
