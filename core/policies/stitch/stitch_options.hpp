#pragma once

// The options of the policy `stitch`. A size of 0 means: derived from the device.

#include <cstdint>

#include "base/bytes.hpp"

namespace memlake {

struct StitchOptions {
  /// Requests of at least this size are stitched before new memory is created; smaller ones only if there is no new
  /// memory. The value of GMLake's paper; its code had 32 MiB first and 512 MiB later.
  Bytes frag_limit = MiB * 128;
  /// A cached view may serve a request that is smaller by this factor, with its front. GMLake's value.
  double reuse_limit = 10;
  /// The size of a chunk, rounded up to the device's granule. GMLake's value.
  Bytes chunk_size = MiB * 2;

  // Limits for all stitched views, in use and cached.
  std::uint64_t max_views = 1024;
  Bytes max_view_bytes = {0};  ///< 0: four times the device's memory
  std::uint64_t max_mappings = std::uint64_t{1} << 18;
};

}  // namespace memlake
