// Plain memory between processes (cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcCloseMemHandle). The handle names a small
// file of the exporter. That file says where the bytes are: in a file that the exporter has open, at an offset.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "basics/refusal.hpp"
#include "basics/rounding.hpp"
#include "memory/plain_memory.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::emulator {

namespace {

/// The content of the file that a handle names, after the header.
struct Exported {
  IpcHeader header;
  std::int32_t fd;  ///< of the file with the bytes, in the exporter
  std::uint64_t inode;
  std::uint64_t offset;
  std::uint64_t size;
};

std::uint64_t inode_of(int fd) {
  struct stat status{};
  return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

std::pair<int, std::uint64_t> PlainMemory::place_in_file(const Allocation& allocation) const {
  if (allocation.storage.has_bytes()) return {allocation.storage.fd(), allocation.storage.offset()};
  const auto& [base, slab] = *std::prev(slabs_.upper_bound(allocation.address));
  return {slab.storage.fd(), slab.storage.offset() + (allocation.address - base)};
}

void PlainMemory::export_handle(std::uint64_t address, void* handle) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second.is_leaving) invalid("no allocation starts at ", Hex{address});
  Allocation& allocation = found->second;
  if (allocation.imported != nullptr) invalid("the memory is another process's, which gives handles to it");
  if (!allocation.device->is_host_backed())
    refuse(CUDA_ERROR_NOT_SUPPORTED, "device ", allocation.device->ordinal,
           " has backing=none: there are no bytes to share");
  if (allocation.exported == nullptr) {
    Exported content{};
    OwnedFile file = make_ipc_file(IpcKind::memory, allocation.device->ordinal, sizeof content, content.header);
    const auto [fd, offset] = place_in_file(allocation);
    content.fd = fd;
    content.inode = inode_of(fd);
    content.offset = offset;
    content.size = allocation.size;
    if (pwrite(file.fd(), &content, sizeof content, 0) != sizeof content)
      refuse(CUDA_ERROR_OUT_OF_MEMORY, "the system cannot write the file of an IPC handle");
    allocation.exported = std::make_unique<IpcExport>(IpcExport{std::move(file), content.header});
  }
  write_ipc_handle(handle, allocation.exported->file, allocation.exported->header);
}

bool PlainMemory::is_open_elsewhere(const Allocation& allocation) const {
  if (allocation.exported == nullptr) return false;
  const auto [fd, offset] = place_in_file(allocation);
  return is_used_elsewhere(fd, offset, allocation.size);
}

void PlainMemory::reclaim() {
  std::erase_if(kept_, [this](Allocation& gone) {
    const auto [fd, offset] = place_in_file(gone);
    if (is_used_elsewhere(fd, offset, gone.size)) return false;
    give_back(gone);
    return true;
  });
}

std::uint64_t PlainMemory::open(Context& context, Devices& devices, const void* handle, const Origin& origin) {
  OpenedIpc opened = open_ipc_handle(handle, IpcKind::memory);
  for (auto& [address, allocation] : allocations_) {
    const IpcImport* other = allocation.imported.get();
    if (other == nullptr || other->process != opened.process || other->header.device != opened.header.device) continue;
    if (allocation.context != context.handle && context.device->is_strict()) {
      if (const bool is_same_device = allocation.opened_on == context.device; is_same_device)
        refuse(CUDA_ERROR_INVALID_CONTEXT, "another context of device ", context.device->ordinal,
               " has memory of that process open; one context per device may");
    }
    if (other->header.identity != opened.header.identity || allocation.context != context.handle) continue;
    ++allocation.imported->opens;
    return address;
  }
  Device* device = devices.find_open(opened.header.device);
  if (device == nullptr)
    refuse(CUDA_ERROR_INVALID_HANDLE, "the memory is on device ", opened.header.device,
           ", which this process does not have");
  if (device != context.device && !context.device->can_access(device->ordinal))
    refuse(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "device ", context.device->ordinal, " cannot reach device ",
           device->ordinal, ", where the memory is");
  if (!device->is_host_backed())
    refuse(CUDA_ERROR_NOT_SUPPORTED, "device ", device->ordinal, " has backing=none: it cannot show shared bytes");
  Exported content{};
  if (pread(opened.file.fd(), &content, sizeof content, 0) != sizeof content || content.size == 0 ||
      content.size > device->config.memory)
    refuse(CUDA_ERROR_INVALID_HANDLE, "the handle's file is damaged");
  OwnedFile bytes = open_of_process(opened.process, content.fd);
  struct stat status{};
  if (fstat(bytes.fd(), &status) != 0 || status.st_ino != content.inode ||
      content.offset + content.size < content.offset ||
      content.offset + content.size > static_cast<std::uint64_t>(status.st_size))
    refuse(CUDA_ERROR_INVALID_HANDLE, "process ", opened.process, " has freed the memory of the handle");
  auto import = std::make_unique<IpcImport>(IpcImport{
      .bytes = std::move(bytes), .header = opened.header, .process = opened.process, .block = 0, .block_size = 0});
  const std::uint64_t address = map_opened(*device, *import, content.offset, content.size);
  device->used += import->block_size;
  Allocation made{.address = address,
                  .size = content.size,
                  .charged = import->block_size,
                  .device = device,
                  .context = context.handle,
                  .id = next_id_++,
                  .storage = {},
                  .made_by = origin};
  made.opened_on = context.device;
  made.imported = std::move(import);
  allocations_.emplace(address, std::move(made));
  return address;
}

std::uint64_t PlainMemory::map_opened(const Device& device, IpcImport& import, std::uint64_t offset,
                                      std::uint64_t size) {
  const std::uint64_t skipped = offset % host_page();
  const std::uint64_t length = round_up(skipped + size, host_page());
  if (length > device.free())
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "device ", device.ordinal, " has ", device.free(), " bytes left, ", length,
           " are needed");
  // The lock first: from here on the exporter does not free the bytes.
  note_use(import.bytes.fd(), offset, size, true);
  const std::uint64_t block = take_addresses(length, host_page());
  bool is_shown = false;
  try {
    arena_.check_room_to_show(block, length);
    arena_.show(block, length, import.bytes.fd(), offset - skipped);
    is_shown = true;
    Arena::protect(block, length, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  } catch (...) {
    if (is_shown) arena_.hide(block, length, 1);
    arena_.addresses().give_back(block, length);
    throw;
  }
  import.block = block;
  import.block_size = length;
  return block + skipped;
}

void PlainMemory::close(std::uint64_t address) {
  Allocation& allocation = allocations_.at(address);
  if (--allocation.imported->opens == 0) free(address);
}

}  // namespace memlake::emulator
