#pragma once

// Level: a current number of bytes and its peak.

#include <algorithm>

#include "base/bytes.hpp"

namespace memlake {

struct Level {
  Bytes now;
  Bytes peak;

  void add(Bytes bytes) {
    now = now + bytes;
    peak = std::max(peak, now);
  }
  void subtract(Bytes bytes) { now = now - bytes; }
};

/// A level that also keeps its lowest value, so that a caller can see that it has risen to a mark again.
struct TidalLevel : Level {
  Bytes low;  ///< since settle()

  void subtract(Bytes bytes) {
    Level::subtract(bytes);
    low = std::min(low, now);
  }
  void settle() { low = now; }
};

}  // namespace memlake
