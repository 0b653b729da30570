#include "vmm/stitched_range.hpp"

#include <algorithm>

#include "vmm/access.hpp"

namespace memlake {
namespace {

struct Layout {
  Bytes size;
  Bytes alignment;  ///< of the device with the largest granule: its chunks must start on its own multiples
};

/// Decides before anything is made. Throws what the driver would refuse at step k, or never notice.
Layout plan_layout(const Device& device, std::span<const std::shared_ptr<PhysicalChunk>> chunks,
                   std::span<const std::shared_ptr<Device>> access) {
  if (chunks.empty()) throw Error(ErrorKind::invalid_argument, "there are no chunks to stitch");
  Layout layout{{0}, device.granularity(CU_MEM_ALLOC_GRANULARITY_MINIMUM)};
  for (const auto& chunk : chunks) {
    static_cast<void>(chunk->handle());  // throws if closed
    if (&chunk->device()->driver() != &device.driver()) {
      throw Error(ErrorKind::invalid_argument, "chunks of different drivers cannot be stitched");
    }
    const Bytes granule = chunk->device()->granularity(CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (!layout.size.is_multiple_of(granule)) {
      throw Error(ErrorKind::invalid_argument,
                  "a chunk would start between two granules of its device; put chunks of larger granules first");
    }
    const auto sum = checked_add(layout.size, chunk->size());
    if (!sum) throw Error(ErrorKind::invalid_argument, "the chunks are larger than the address space");
    layout = {*sum, std::max(layout.alignment, granule)};
  }
  for (const auto& reader : access) {
    if (&reader->driver() != &device.driver()) {
      throw Error(ErrorKind::invalid_argument, "a device of another driver cannot have access to this memory");
    }
  }
  return layout;
}

}  // namespace

StitchedRange stitch(const std::shared_ptr<Device>& device, std::span<const std::shared_ptr<PhysicalChunk>> chunks,
                     std::span<const std::shared_ptr<Device>> access, CUmemAccess_flags rights) {
  const Layout layout = plan_layout(*device, chunks, access);
  StitchedRange stitched;
  stitched.reservation = std::make_shared<Reservation>(device, layout.size, layout.alignment, Address{0});
  stitched.mappings.reserve(chunks.size());
  Bytes offset{0};
  for (const auto& chunk : chunks) {
    stitched.mappings.emplace_back(stitched.reservation, offset, chunk, chunk->size());
    offset = offset + chunk->size();
  }
  if (!access.empty()) {
    set_access(device->driver(), stitched.reservation->range(), access, rights);
  }
  return stitched;
}

}  // namespace memlake
