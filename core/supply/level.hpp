#pragma once

// Level: a number of bytes now, and the most it ever was.

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

/// A level that remembers how low it was, too: for whoever wants to know when it rises over a mark again.
struct TidalLevel : Level {
  Bytes low;  ///< since settle()

  void subtract(Bytes bytes) {
    Level::subtract(bytes);
    low = std::min(low, now);
  }
  void settle() { low = now; }
};

}  // namespace memlake
