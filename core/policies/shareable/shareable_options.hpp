#pragma once

// The options of memory that can be shared with other processes.

#include "base/bytes.hpp"
#include "supply/placement.hpp"

namespace memlake {

struct ShareableOptions {
  Placement placement = Placement::fill;
  /// A larger block has several chunks. Each chunk costs driver calls, also in every process that imports it; smaller
  /// chunks are easier to reuse for other sizes.
  Bytes largest_chunk = MiB * 64;
  /// Whether each block is one chunk, which is never divided, joined or mapped elsewhere: for registrations. Its chunks
  /// can be exported where the devices can do that.
  bool is_single = false;
  /// Handle types beside file descriptors, as bits of CUmemAllocationHandleType.
  int more_handle_types = 0;
};

}  // namespace memlake
