#pragma once

// ExportedChunk: a chunk in the form that another process can import.

#include <cstddef>
#include <vector>

#include "base/bytes.hpp"
#include "vmm/descriptor.hpp"

namespace memlake {

/// One chunk of an exported block.
struct ExportedChunk {
  Descriptor descriptor;
  Bytes size;
  std::size_t device;  ///< by number in the pool
};

/// The chunks under a block that shares them with others, by address without a gap.
struct ExportedRange {
  std::vector<ExportedChunk> chunks;
  Bytes offset;  ///< of the block in the first chunk
};

}  // namespace memlake
