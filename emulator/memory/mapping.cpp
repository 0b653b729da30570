#include "memory/mapping.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

#include "basics/containing.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::emulator {

namespace {

void check_range(std::uint64_t address, std::uint64_t size) {
  if (address == 0) invalid("the address is 0");
  if (size == 0) invalid("size is 0");
  if (address + size < address) invalid("the range at ", Hex{address}, " wraps around");
}

void check_aligned(const char* what, std::uint64_t value, std::uint64_t granularity) {
  if (value % granularity != 0) invalid(what, " ", value, " is not a multiple of the granularity ", granularity);
}

/// The part of a mapping that `at` would split; end() if `at` is a boundary of parts or outside.
auto part_cut_by(Mapping& mapping, std::uint64_t at) {
  return std::ranges::find_if(
      mapping.parts, [&](const Mapping::Part& part) { return at > part.address && at - part.address < part.size; });
}

}  // namespace

const Rights& Mapping::rights_at(std::uint64_t at) const {
  return std::ranges::find_if(parts, [&](const Part& part) { return at - part.address < part.size; })->rights;
}

std::uint64_t Mappings::reserve(std::uint64_t size, std::uint64_t alignment, std::uint64_t hint, std::uint64_t flags,
                                const Origin& origin) {
  if (flags != 0) invalid("flags must be 0");
  // The next three are OUT_OF_MEMORY on NVIDIA's driver, not INVALID_VALUE (A3.1b-d).
  if (size == 0) refuse(CUDA_ERROR_OUT_OF_MEMORY, "size is 0");
  if (size % host_page() != 0)
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "size ", size, " is not a multiple of the host page size ", host_page());
  if (alignment != 0 && !std::has_single_bit(alignment))
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "alignment ", alignment, " is not a power of two");
  if (hint % host_page() != 0) {
    if (devices_.is_strict()) invalid("the address hint ", Hex{hint}, " is not a multiple of the host page size");
    hint = 0;  // as observed: a hint that cannot be used
  }
  const std::uint64_t aligned_to = std::max(alignment, devices_.address_alignment());
  std::uint64_t address = hint;
  if (hint == 0 || hint % aligned_to != 0 || !arena_.addresses().take_at(hint, size)) {
    const auto found = arena_.addresses().take(size, aligned_to);
    if (!found) refuse(CUDA_ERROR_OUT_OF_MEMORY, "there is no free address range of ", size, " bytes");
    address = *found;
  }
  reservations_.emplace(address, Reservation{address, size, origin});
  return address;
}

void Mappings::free(std::uint64_t address, std::uint64_t size) {
  const auto found = reservations_.find(address);
  if (address == 0 || found == reservations_.end()) invalid("no reservation starts at ", Hex{address});
  if (found->second.size != size)
    invalid("the reservation at ", Hex{address}, " has ", found->second.size, " bytes, not ", size,
            "; it can only be freed whole");
  auto first = containing(mappings_, address);  // a mapping may reach in from the reservation before
  if (first == mappings_.end()) first = mappings_.lower_bound(address);
  auto last = first;
  while (last != mappings_.end() && last->first < address + size) ++last;
  if (first != last) {
    if (!std::all_of(first, last,
                     [](const auto& entry) { return entry.second.chunk().relaxes(Switch::address_free_while_mapped); }))
      invalid("the reservation at ", Hex{address}, " still has ", std::distance(first, last), " mappings; unmap first");
    for (auto mapping = first; mapping != last; ++mapping) check_idle(mapping->second, "freeing");
    remove({first, last});
  } else if (const WorkLabel* user = found->second.uses_before.find_unseen(order_)) {
    violate("freeing the addresses ", Hex{address}, " to ", Hex{address + size}, " that ", user->describe(),
            " uses, which the host has not waited for");
  }
  arena_.addresses().give_back(address, size);
  reservations_.erase(found);
}

void Mappings::check_one_reservation(std::uint64_t address, std::uint64_t size, Switch relaxing, const Chunk& chunk,
                                     const char* verb) const {
  const Reservation* reservation = find_reservation(address);
  if (reservation == nullptr) invalid("the address ", Hex{address}, " is in no reservation");
  std::uint64_t end = reservation->address + reservation->size;
  if (address + size <= end) return;
  const std::uint64_t first_end = end;
  while (end < address + size) {
    const auto next = reservations_.find(end);
    if (next == reservations_.end())
      invalid("the range ", Hex{address}, " to ", Hex{address + size},
              " reaches beyond the reservation, which ends at ", Hex{end});
    end += next->second.size;
  }
  if (!chunk.relaxes(relaxing))
    invalid(verb, " across two reservations (the first ends at ", Hex{first_end}, ") is not portable");
}

void Mappings::check_idle(const Mapping& mapping, const char* verb) const {
  if (mapping.chunk().relaxes(Switch::inflight_unmap)) return;
  if (const WorkLabel* user = mapping.uses.find_unseen(order_))
    violate(verb, " ", Hex{mapping.address}, " to ", Hex{mapping.end()}, ", but the host has not waited for ",
            user->describe(), ", which uses it; wait for the work first (cuEventSynchronize, cuStreamSynchronize)");
}

void Mappings::map(std::uint64_t address, std::uint64_t size, std::uint64_t offset, std::uint64_t handle,
                   std::uint64_t flags, const Origin& origin) {
  check_range(address, size);
  if (flags != 0) invalid("flags must be 0");
  Handle& named = chunks_.find(handle);
  const Chunk& chunk = *named.chunk;
  const std::uint64_t granularity = chunk.granularity();
  check_aligned("address", address, granularity);
  check_aligned("size", size, granularity);
  check_aligned("offset", offset, granularity);
  if (offset != 0 && !chunk.relaxes(Switch::map_offset_nonzero))
    invalid("offset ", offset, " is not 0: CUDA maps handles from their start (choose the size at cuMemCreate)");
  if (offset > chunk.size || size > chunk.size - offset)
    invalid("size ", size, " is larger than the handle's memory, ", chunk.size, " bytes");
  const Aliasing aliasing = chunk.device == nullptr ? Aliasing::prefix : chunk.device->config.aliasing;
  if (aliasing != Aliasing::prefix && size < chunk.size)
    invalid("size ", size, " is less than the handle's memory, ", chunk.size,
            " bytes, and the device is configured to map whole handles only (aliasing=", word_of(aliasing), ")");
  if (aliasing == Aliasing::none && chunk.mappings > 0)
    invalid("the handle is mapped already, and the device is configured to map a handle once (aliasing=none)");
  check_one_reservation(address, size, Switch::map_across_reservations, chunk, "mapping");
  const auto next = mappings_.lower_bound(address);
  const Mapping* taken = find(address);
  if (taken == nullptr && next != mappings_.end() && next->first < address + size) taken = &next->second;
  if (taken != nullptr)
    invalid("part of ", Hex{address}, " to ", Hex{address + size}, " is mapped already (the mapping at ",
            Hex{taken->address}, " of ", taken->size, " bytes); CUDA never replaces a mapping");
  Storage other_bytes;
  if (chunk.has_bytes()) {
    arena_.check_room_to_show(address, size);
    if (chunk.mappings > 0 && chunk.device != nullptr && chunk.device->config.lacks(Lack::shared_bytes)) {
      other_bytes = Storage(chunk.device->heap_file(), size, granularity);
      arena_.show(address, size, other_bytes.fd(), other_bytes.offset());
    } else {
      arena_.show(address, size, chunk.storage.fd(), chunk.storage.offset() + offset);
    }
  }
  mappings_.emplace_hint(next, address,
                         Mapping{.address = address,
                                 .size = size,
                                 .offset = offset,
                                 .handle = &named,
                                 .parts = {Mapping::Part{address, size, {}}},
                                 .made_by = origin,
                                 .other_bytes = std::move(other_bytes)});
  chunks_.add_mapping(named);
}

Mappings::Cover Mappings::cover(std::uint64_t address, std::uint64_t size) {
  auto first = containing(mappings_, address);
  std::uint64_t reached = address;
  auto last = first;
  while (last != mappings_.end() && reached < address + size && (reached == address || last->first == reached)) {
    reached = last->second.end();
    ++last;
  }
  if (reached < address + size)
    invalid("nothing is mapped at ", Hex{reached}, ", inside the range ", Hex{address}, " to ", Hex{address + size});
  return {first, last};
}

void Mappings::unmap(std::uint64_t address, std::uint64_t size) {
  check_range(address, size);
  const Cover range = cover(address, size);
  const Mapping& first = range.first->second;
  const Mapping& last = std::prev(range.last)->second;
  if (first.address != address || last.end() != address + size)
    invalid("only whole mappings can be unmapped: the range ", Hex{address}, " to ", Hex{address + size},
            " cuts the mapping at ", Hex{first.address != address ? first.address : last.address});
  if (&first != &last)  // one whole mapping can always be unmapped, however it was made
    check_one_reservation(address, size, Switch::unmap_across_reservations, first.chunk(), "unmapping");
  for (auto mapping = range.first; mapping != range.last; ++mapping) check_idle(mapping->second, "unmapping");
  remove(range);
}

void Mappings::remove(Cover range) {
  // Runs of shown mappings go with one call to the kernel each.
  for (auto mapping = range.first; mapping != range.last;) {
    if (!mapping->second.chunk().has_bytes()) {
      ++mapping;
      continue;
    }
    const std::uint64_t start = mapping->first;
    std::uint64_t end = start;
    std::size_t pieces = 0;
    for (; mapping != range.last && mapping->first == end && mapping->second.chunk().has_bytes(); ++mapping) {
      end = mapping->second.end();
      pieces += mapping->second.parts.size();
    }
    arena_.hide(start, end - start, pieces);
  }
  for (auto mapping = range.first; mapping != range.last;) {
    const Mapping& gone = mapping->second;
    if (gone.uses.find_unseen(order_) != nullptr && gone.chunk().is_strict())
      if (const auto around = containing(reservations_, gone.address); around != reservations_.end())
        around->second.uses_before.merge(gone.uses, order_);
    Handle& handle = *mapping->second.handle;
    mapping = mappings_.erase(mapping);
    chunks_.remove_mapping(handle);
  }
}

int Mappings::check_descriptor(const CUmemAccessDesc& descriptor, const Cover& range) {
  const auto flags = descriptor.flags;
  if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
      flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    invalid("access flags ", +flags, " are not 0, 1 or 3");
  switch (descriptor.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      for (auto mapping = range.first; mapping != range.last; ++mapping) {
        const Chunk& chunk = mapping->second.chunk();
        if (chunk.device != nullptr) invalid("host access can only be given to host memory");
        if (descriptor.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA &&
            chunk.prop.location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA)
          invalid("HOST_NUMA access can only be given to HOST_NUMA memory");
      }
      return kHost;
    default:
      invalid("location type ", +descriptor.location.type, " cannot be given access");
  }
  const Device& device = devices_.find(descriptor.location.id);
  for (auto mapping = range.first; mapping != range.last; ++mapping) {
    const Chunk& chunk = mapping->second.chunk();
    if (chunk.device != nullptr && chunk.device->config.lacks(Lack::rdma_access) &&
        chunk.prop.allocFlags.gpuDirectRDMACapable != 0)
      refuse(CUDA_ERROR_UNKNOWN, "device ", chunk.device->ordinal,
             " is configured to fail here on memory with the flag of GPUDirect RDMA (lacks=rdma_access)");
  }
  for (auto mapping = range.first; mapping != range.last; ++mapping) {
    const Device* resident = mapping->second.chunk().device;
    if (resident != nullptr && resident != &device && !device.can_access(resident->ordinal))
      refuse(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "device ", device.ordinal, " cannot reach the memory of device ",
             resident->ordinal, ", which is mapped at ", Hex{mapping->first});
  }
  chunks_.check_usable(device);
  return device.ordinal;
}

void Mappings::set_access(std::uint64_t address, std::uint64_t size, std::span<const CUmemAccessDesc> descriptors) {
  check_range(address, size);
  const Cover range = cover(address, size);
  const std::uint64_t end = address + size;
  for (const Mapping* edge : {&range.first->second, &std::prev(range.last)->second}) {
    if (edge->address >= address && edge->end() <= end) continue;
    if (!edge->chunk().relaxes(Switch::set_access_subrange))
      invalid("the range ", Hex{address}, " to ", Hex{end}, " covers only a part of the mapping at ",
              Hex{edge->address}, "; access is set for whole mappings");
    check_aligned("address", address, edge->chunk().granularity());
    check_aligned("size", size, edge->chunk().granularity());
  }
  std::vector<Rights::Entry> grants;
  for (const CUmemAccessDesc& descriptor : descriptors)
    grants.push_back({check_descriptor(descriptor, range), static_cast<unsigned>(descriptor.flags)});
  for (auto mapping = range.first; mapping != range.last; ++mapping)
    for (const auto& part : mapping->second.parts) {
      const std::uint64_t start = std::max(part.address, address);
      const std::uint64_t stop = std::min(part.address + part.size, end);
      const bool is_lowered = std::ranges::any_of(
          grants, [&](const auto& grant) { return (part.rights.of(grant.device) & ~grant.flags) != 0; });
      if (start < stop && is_lowered) check_idle(mapping->second, "lowering the access to");
    }
  apply_access(range, address, end, grants);
}

void Mappings::cut(Mapping& mapping, std::uint64_t at) {
  const auto part = part_cut_by(mapping, at);
  if (part == mapping.parts.end()) return;
  if (mapping.chunk().has_bytes()) arena_.cut();
  Mapping::Part tail{at, part->address + part->size - at, part->rights};
  part->size = at - part->address;
  mapping.parts.insert(std::next(part), std::move(tail));
}

void Mappings::apply_access(const Cover& range, std::uint64_t address, std::uint64_t end,
                            std::span<const Rights::Entry> grants) {
  struct Change {
    const Mapping& mapping;
    Mapping::Part& part;
    Rights rights;
  };
  std::vector<Change> changes;
  for (auto at = range.first; at != range.last; ++at) {
    Mapping& mapping = at->second;
    for (const std::uint64_t edge : {address, end}) cut(mapping, edge);
    for (auto& part : mapping.parts) {
      if (part.address >= end || part.address + part.size <= address) continue;
      Rights rights = part.rights;
      for (const auto& [device, flags] : grants) rights.set(device, flags);
      changes.push_back({mapping, part, std::move(rights)});
    }
  }
  // The kernel's part comes first, because it can fail; then what was done is put back.
  const auto protect = [](const Change& change, const Rights& before, const Rights& after) {
    if (change.mapping.chunk().has_bytes() && change.mapping.cpu_access(before) != change.mapping.cpu_access(after))
      Arena::protect(change.part.address, change.part.size, change.mapping.cpu_access(after));
  };
  for (auto change = changes.begin(); change != changes.end(); ++change) {
    try {
      protect(*change, change->part.rights, change->rights);
    } catch (const Refusal&) {
      while (change != changes.begin()) {
        --change;
        protect(*change, change->rights, change->part.rights);
      }
      throw;
    }
  }
  for (Change& change : changes) change.part.rights = std::move(change.rights);
}

unsigned Mappings::access(const CUmemLocation& location, std::uint64_t address) {
  const Mapping* mapping = find(address);
  if (mapping == nullptr) invalid("nothing is mapped at ", Hex{address});
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return mapping->rights_at(address).of(devices_.find(location.id).ordinal);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return mapping->rights_at(address).of(kHost);
    default:
      invalid("location type ", +location.type, " has no access rights");
  }
}

bool Mappings::is_relaxed_and_running(std::uint64_t address, std::uint64_t size) const {
  if (in_flight_.is_empty() || address + size < address) return false;
  auto mapping = containing(mappings_, address);
  if (mapping == mappings_.end()) mapping = mappings_.lower_bound(address);
  for (; mapping != mappings_.end() && mapping->first < address + size; ++mapping)
    if (mapping->second.chunk().relaxes(Switch::inflight_unmap) &&
        in_flight_.user_of(mapping->first, mapping->second.size, true) != nullptr)
      return true;
  return false;
}

const Mapping* Mappings::find(std::uint64_t address) const {
  const auto found = containing(mappings_, address);
  return found == mappings_.end() ? nullptr : &found->second;
}

const Reservation* Mappings::find_reservation(std::uint64_t address) const {
  const auto found = containing(reservations_, address);
  return found == reservations_.end() ? nullptr : &found->second;
}

void Mappings::drop_device(const Device& device) {
  for (auto mapping = mappings_.begin(); mapping != mappings_.end();) {
    const auto next = std::next(mapping);
    if (mapping->second.chunk().device == &device) remove({mapping, next});
    mapping = next;
  }
  // What other devices' mappings granted to this one is void.
  for (auto& [address, mapping] : mappings_)
    for (auto& part : mapping.parts) part.rights.set(device.ordinal, 0);
}

}  // namespace memlake::emulator
