#include "memory/plain_memory.hpp"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <vector>

#include "basics/containing.hpp"
#include "basics/refusal.hpp"
#include "basics/rounding.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::emulator {

namespace {

// The rounding of cuMemAlloc, as observed on real devices: to multiples of 512 bytes, from 1 MiB on of 2 MiB.
constexpr std::uint64_t kSmallStep = 512;
constexpr std::uint64_t kLargeFrom = std::uint64_t{1} << 20;
constexpr std::uint64_t kLargeStep = std::uint64_t{2} << 20;
constexpr unsigned kHostAllocFlags = 0x07;     // PORTABLE, DEVICEMAP, WRITECOMBINED
constexpr unsigned kHostRegisterFlags = 0x0F;  // PORTABLE, DEVICEMAP, IOMEMORY, READ_ONLY

template <class Ranges>
auto pointer_to_containing(Ranges& ranges, std::uint64_t address) -> decltype(&ranges.begin()->second) {
  const auto found = containing(ranges, address);
  return found == ranges.end() ? nullptr : &found->second;
}

}  // namespace

std::uint64_t PlainMemory::allocate(Context& context, std::uint64_t bytes, const Origin& origin) {
  if (bytes == 0) invalid("cuMemAlloc of 0 bytes");
  Device& device = *context.device;
  const bool is_small = bytes < kLargeFrom;
  if (bytes > device.config.memory)
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "device ", device.ordinal, " has ", device.config.memory, " bytes in all, ", bytes,
           " were asked for");
  const std::uint64_t charged = round_up(bytes, is_small ? kSmallStep : kLargeStep);
  if (charged > device.free())
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "device ", device.ordinal, " has ", device.free(), " bytes left, ", charged,
           " are needed");
  const std::uint64_t address = add({.address = 0,
                                     .size = bytes,
                                     .charged = charged,
                                     .device = &device,
                                     .context = context.handle,
                                     .id = next_id_,
                                     .storage = {},
                                     .made_by = origin});
  device.charge(charged);
  return address;
}

std::uint64_t PlainMemory::allocate_managed(Context& context, std::uint64_t bytes, const Origin& origin) {
  if (bytes == 0) invalid("cuMemAllocManaged of 0 bytes");
  if (bytes > managed_.free())
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "all devices and the host have ", managed_.total, " bytes together, ",
           managed_.used, " of them are managed memory already, and ", bytes, " were asked for");
  // Advice and location belong to whole pages, so no two allocations share a page.
  const std::uint64_t charged = round_up(bytes, bytes < kLargeFrom ? host_page() : kLargeStep);
  const std::uint64_t address = add({.address = 0,
                                     .size = bytes,
                                     .charged = charged,
                                     .device = context.device,
                                     .context = context.handle,
                                     .id = next_id_,
                                     .storage = {},
                                     .made_by = origin,
                                     .is_managed = true});
  managed_.used += charged;
  return address;
}

/// Gives the allocation its address and its bytes.
std::uint64_t PlainMemory::add(Allocation made) {
  if (made.size < kLargeFrom) {
    made.address = take_small(*made.device, made.charged);
  } else {
    made.address = take_addresses(made.charged, kLargeStep);
    made.storage = show(*made.device, made.address, made.charged);
  }
  ++next_id_;
  const std::uint64_t address = made.address;
  allocations_.emplace(address, std::move(made));
  return address;
}

std::uint64_t PlainMemory::allocate_variable(Context& context, std::uint64_t bytes, bool is_managed,
                                             const Origin& origin) {
  const std::uint64_t address =
      is_managed ? allocate_managed(context, bytes, origin) : allocate(context, bytes, origin);
  allocations_.at(address).is_variable = true;
  return address;
}

std::uint64_t PlainMemory::take_addresses(std::uint64_t size, std::uint64_t alignment) {
  const auto address = arena_.addresses().take(size, alignment);
  if (!address) refuse(CUDA_ERROR_OUT_OF_MEMORY, "there is no free address range of ", size, " bytes");
  return *address;
}

Storage PlainMemory::show(Device& device, std::uint64_t address, std::uint64_t size) {
  if (!device.is_host_backed()) return {};
  bool is_shown = false;
  try {
    arena_.check_room_to_show(address, size);
    Storage storage(device.heap_file(), size, kLargeStep);
    arena_.show(address, size, storage.fd(), storage.offset());
    is_shown = true;
    Arena::protect(address, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (device.config.poison) storage.poison(size);
    return storage;
  } catch (...) {
    if (is_shown) arena_.hide(address, size, 1);
    arena_.addresses().give_back(address, size);
    throw;
  }
}

void PlainMemory::hide(std::uint64_t address, std::uint64_t size, const Storage& storage) {
  if (storage.has_bytes()) arena_.hide(address, size, 1);
  arena_.addresses().give_back(address, size);
}

std::uint64_t PlainMemory::take_small(Device& device, std::uint64_t size) {
  const std::uint64_t slot = std::bit_ceil(size);
  auto& with_room = with_room_[{device.ordinal, slot}];
  if (with_room.empty()) {
    const std::uint64_t base = take_addresses(kLargeStep, kLargeStep);
    slabs_.emplace(base, Slab{&device, slot, AddressSpace(base, kLargeStep), show(device, base, kLargeStep), 0});
    with_room.insert(base);
  }
  const std::uint64_t base = *with_room.begin();
  Slab& slab = slabs_.at(base);
  slab.used += slot;
  if (slab.used == kLargeStep) with_room.erase(base);
  return *slab.space.take(slot, kSmallStep);
}

void PlainMemory::give_back_small(std::uint64_t address) {
  const auto found = std::prev(slabs_.upper_bound(address));
  auto& [base, slab] = *found;
  auto& with_room = with_room_[{slab.device->ordinal, slab.slot}];
  slab.space.give_back(address, slab.slot);
  slab.used -= slab.slot;
  with_room.insert(base);
  if (slab.used > 0) return;
  with_room.erase(base);
  if (with_room.empty()) with_room_.erase({slab.device->ordinal, slab.slot});
  hide(base, kLargeStep, slab.storage);
  slabs_.erase(found);
}

void PlainMemory::free(std::uint64_t address) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) invalid("no allocation of cuMemAlloc starts at ", Hex{address});
  Allocation gone = std::move(found->second);
  allocations_.erase(found);
  const bool is_kept = is_open_elsewhere(gone);
  gone.exported.reset();  // no other process can open it from here on
  if (is_kept) {
    kept_.push_back(std::move(gone));
  } else {
    give_back(gone);
  }
}

void PlainMemory::give_back(Allocation& gone) {
  if (gone.is_managed) {
    managed_.used -= gone.charged;
    pages_.forget(gone.address, gone.charged);
  } else {
    gone.device->used -= gone.charged;
  }
  if (gone.imported != nullptr) {
    arena_.hide(gone.imported->block, gone.imported->block_size, 1);
    arena_.addresses().give_back(gone.imported->block, gone.imported->block_size);
  } else if (gone.size < kLargeFrom) {
    give_back_small(gone.address);
  } else {
    hide(gone.address, gone.charged, gone.storage);
  }
}

void* PlainMemory::allocate_host(const Context& context, std::uint64_t bytes, unsigned flags, const Origin& origin) {
  if ((flags & ~kHostAllocFlags) != 0) invalid("flags ", flags, " are unknown to cuMemHostAlloc");
  if (bytes == 0) return nullptr;
  const std::uint64_t size = round_up(bytes, host_page());
  errno = ENOMEM;
  void* pointer =
      size < bytes ? MAP_FAILED : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pointer == MAP_FAILED)
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "the system gives no ", bytes, " bytes of host memory: ", std::strerror(errno));
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  host_.emplace(address, HostAllocation{address, bytes, flags, false, context.handle, next_id_++, origin});
  return pointer;
}

void PlainMemory::free_host(void* pointer) {
  if (pointer == nullptr) return;
  const auto found = host_.find(reinterpret_cast<std::uint64_t>(pointer));
  if (found == host_.end() || found->second.is_registered)
    invalid("no allocation of cuMemHostAlloc starts at ", pointer);
  munmap(pointer, round_up(found->second.size, host_page()));
  host_.erase(found);
}

void PlainMemory::register_host(const Context& context, void* pointer, std::uint64_t bytes, unsigned flags,
                                const Origin& origin) {
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  if (pointer == nullptr || bytes == 0 || address + bytes < address) invalid("there is nothing to register");
  if ((flags & ~kHostRegisterFlags) != 0) invalid("flags ", flags, " are unknown to cuMemHostRegister");
  if (arena_.contains(address)) invalid(pointer, " is device memory; only host memory can be registered");
  const auto next = host_.lower_bound(address);
  if (find_host(address) != nullptr || (next != host_.end() && next->first < address + bytes))
    refuse(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part of this host memory is registered already");
  host_.emplace(address, HostAllocation{address, bytes, flags, true, context.handle, next_id_++, origin});
}

void PlainMemory::unregister_host(void* pointer) {
  if (pointer == nullptr) invalid("the pointer is NULL");
  const auto found = host_.find(reinterpret_cast<std::uint64_t>(pointer));
  if (found == host_.end()) refuse(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "nothing was registered at ", pointer);
  if (!found->second.is_registered) invalid(pointer, " was made by cuMemHostAlloc; free it with cuMemFreeHost");
  host_.erase(found);
}

void PlainMemory::begin_leaving(std::uint64_t address) { allocations_.at(address).is_leaving = true; }

void PlainMemory::finish_leaving(std::uint64_t address, std::uint64_t id) {
  const auto found = allocations_.find(address);
  if (found != allocations_.end() && found->second.id == id) free(address);
}

const Allocation* PlainMemory::find(std::uint64_t address) const {
  const Allocation* found = find_for_work(address);
  return found == nullptr || found->is_leaving ? nullptr : found;
}

const Allocation* PlainMemory::find_for_work(std::uint64_t address) const {
  return pointer_to_containing(allocations_, address);
}

const HostAllocation* PlainMemory::find_host(std::uint64_t address) const {
  return pointer_to_containing(host_, address);
}

void PlainMemory::drop_context(const Context& context) {
  std::vector<std::uint64_t> gone;
  for (const auto& [address, allocation] : allocations_)
    if (allocation.context == context.handle) gone.push_back(address);
  for (const std::uint64_t address : gone) free(address);
  std::erase_if(host_, [&](const auto& entry) {
    const bool is_ours = entry.second.context == context.handle;
    if (is_ours && !entry.second.is_registered)
      munmap(reinterpret_cast<void*>(entry.first), round_up(entry.second.size, host_page()));
    return is_ours;
  });
}

}  // namespace memlake::emulator
