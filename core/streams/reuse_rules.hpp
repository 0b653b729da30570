#pragma once

// ReuseRules: when memory that was freed on one stream may serve a request of another. CUDA's three switches.

namespace memlake {

struct ReuseRules {
  bool follow_event_dependencies = true;    ///< the program ordered the streams so
  bool allow_opportunistic = true;          ///< the stream that freed it has passed
  bool allow_internal_dependencies = true;  ///< a wait on the device is inserted, when there is no other memory

  bool operator==(const ReuseRules&) const = default;
};

}  // namespace memlake
