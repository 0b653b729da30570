#pragma once

// What may be said about memory that can be shared with other processes.

#include "base/bytes.hpp"
#include "supply/placement.hpp"

namespace memlake {

struct ShareableOptions {
  Placement placement = Placement::fill;
  /// A block of more bytes is made of several chunks. The driver charges by chunk, and so does every process that
  /// imports it; smaller chunks are easier to use again for other sizes.
  Bytes largest_chunk = MiB * 64;
};

}  // namespace memlake
