#pragma once

// The options of the policy `stitch`. Sizes of zero stand for "derived from the device".

#include <cstdint>

#include "base/bytes.hpp"

namespace memlake {

struct StitchOptions {
  /// Requests of at least this size are stitched rather than met with new memory; smaller ones only when there is no
  /// new memory. The value of GMLake's paper; its code had 32 MiB first and 512 MiB later.
  Bytes frag_limit = MiB * 128;
  /// A cached view may serve a request that is smaller by this factor, with its front. GMLake's value.
  double reuse_limit = 10;
  /// What is created, mapped and stitched at once, rounded up to the device's granule. GMLake's value.
  Bytes chunk_size = MiB * 2;

  // Caps on stitched views, those in use and those kept for later.
  std::uint64_t max_views = 1024;
  Bytes max_view_bytes = {0};  ///< 0: four times the device's memory
  std::uint64_t max_mappings = std::uint64_t{1} << 18;
};

}  // namespace memlake
