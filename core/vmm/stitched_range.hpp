#pragma once

// StitchedRange: several chunks that are mapped as one contiguous range.

#include <memory>
#include <span>
#include <vector>

#include "vmm/mapping.hpp"

namespace memlake {

struct StitchedRange {
  std::shared_ptr<Reservation> reservation;
  std::vector<Mapping> mappings;  ///< in the order of the chunks; they tile the reservation
};

/// Reserves addresses, maps every chunk whole and in order, and gives the devices in `access` the rights with one call
/// over the whole range (no call if there are none). If a step fails, all earlier steps are undone.
StitchedRange stitch(const std::shared_ptr<Device>& device, std::span<const std::shared_ptr<PhysicalChunk>> chunks,
                     std::span<const std::shared_ptr<Device>> access,
                     CUmemAccess_flags rights = CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

}  // namespace memlake
