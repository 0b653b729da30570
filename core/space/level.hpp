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

}  // namespace memlake
