#pragma once

// The handles that are mapped in a range of addresses, as the driver tells them: for programs that register memory with
// a transport, which wants to know the handles of a buffer.

#include <vector>

#include "base/address.hpp"
#include "driver/device.hpp"

namespace memlake {

struct MappedPart {
  CUmemGenericAllocationHandle handle;
  Bytes offset;  ///< of the part in the range
  Bytes size;    ///< of the part
  Bytes start;   ///< of the part in its handle
  CUmemAllocationProp prop;
};

/// The parts of the range by address, one for each handle; empty if the range has no handles (plain allocations, CUDA's
/// own pools). pre: the range is allocated, and stays so during the call.
std::vector<MappedPart> mapped_parts(Device& device, AddressRange range, Bytes granule);

/// Whether all of the range is one handle, by its ends; also true if it has none.
bool is_one_handle(Device& device, AddressRange range);

}  // namespace memlake
