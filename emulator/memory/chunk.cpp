#include "memory/chunk.hpp"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "basics/handles.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kChunkHandleBase = 0xE000'0000'0000'0000;  // a distinct range; values are never reused
constexpr std::uint64_t kHostGranularity = std::uint64_t{2} << 20;
constexpr unsigned kUsageTilePool = 1;

// The first versions of CUDA with memory of the host at these locations. cuMemCreate of older ones refuses them.
constexpr int kHostNumaSince = 12020;
constexpr int kHostSince = 13000;

void check_handle_types(const CUmemAllocationProp& prop, const Device* device, bool is_host) {
  const int types = prop.requestedHandleTypes;
  if ((types & ~kKnownHandleTypes) != 0) invalid("requestedHandleTypes ", types, " names no handle type");
  if (is_host && types != 0) invalid("HOST memory cannot be exported: requestedHandleTypes must be 0");
  const bool has_fabric = device != nullptr && device->config.fabric != Fabric::none;
  if ((types & CU_MEM_HANDLE_TYPE_FABRIC) != 0 && !has_fabric)
    refuse(CUDA_ERROR_NOT_PERMITTED, "fabric handles need an IMEX channel, and there is none");
  if ((types & kPosix) != 0 && device != nullptr && device->config.lacks(Lack::export_handles))
    refuse(CUDA_ERROR_NOT_SUPPORTED, "device ", device->ordinal,
           " is configured without file descriptors of memory (lacks=export)");
  if ((types & ~(kPosix | CU_MEM_HANDLE_TYPE_FABRIC)) != 0)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "Windows handle types are not supported on Linux");
}

void check_flags(const CUmemAllocationProp& prop, const Device* device) {
  if (prop.win32HandleMetaData != nullptr) invalid("win32HandleMetaData must be NULL on Linux (zero the whole struct)");
  if (prop.allocFlags.compressionType > 1) invalid("compressionType ", +prop.allocFlags.compressionType, " is unknown");
  if (prop.allocFlags.gpuDirectRDMACapable > 1) invalid("gpuDirectRDMACapable must be 0 or 1");
  if (prop.allocFlags.gpuDirectRDMACapable != 0 && device != nullptr && device->config.lacks(Lack::rdma))
    refuse(CUDA_ERROR_NOT_SUPPORTED, "device ", device->ordinal, " is configured without GPUDirect RDMA (lacks=rdma)");
  if ((prop.allocFlags.usage & ~(kUsageTilePool | kUsageHwDecompress)) != 0)
    invalid("usage ", prop.allocFlags.usage, " is unknown (zero the whole struct)");
  if ((prop.allocFlags.usage & kUsageTilePool) != 0)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "tile pool memory is only for sparse arrays, which the emulator does not have");
  for (const unsigned char byte : prop.allocFlags.reserved)
    if (byte != 0) invalid("a reserved byte of the allocation properties is not 0 (zero the whole struct)");
}

}  // namespace

std::uint64_t Chunk::granularity() const { return device == nullptr ? kHostGranularity : device->config.granularity; }

void Chunks::check_usable(const Device& device) {
  if (device.live_contexts == 0 && device.is_strict())
    violate("device ", device.ordinal, " is used before its primary context was retained (cuDevicePrimaryCtxRetain); ",
            "some drivers fail without a live context");
  if (const Context* primary = contexts_.find(device.primary_context);
      primary != nullptr && primary->sticky != CUDA_SUCCESS)
    refuse(primary->sticky, "earlier work on device ", device.ordinal, " failed; its context is lost");
}

void Chunks::check_virtual_memory(const Device* device) const {
  if (device != nullptr ? !device->config.lacks(Lack::vmm) : devices_.has_virtual_memory()) return;
  refuse(CUDA_ERROR_NOT_SUPPORTED, device != nullptr ? text("device ", device->ordinal, " is") : "all devices are",
         " configured without virtual memory management (lacks=vmm)");
}

std::uint64_t Chunks::create(std::uint64_t size, const CUmemAllocationProp& prop, std::uint64_t flags,
                             int driver_version, const Origin& origin) {
  if (size == 0) invalid("size is 0");
  if (flags != 0) invalid("flags must be 0");
  if (prop.type != CU_MEM_ALLOCATION_TYPE_PINNED) invalid("allocation type ", +prop.type, " is not PINNED (1)");
  Device* device = nullptr;
  bool is_host = false;
  switch (prop.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      device = devices_.find_open(prop.location.id);
      if (device == nullptr) invalid("device ", prop.location.id, " does not exist or was closed");
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
      if (driver_version < kHostSince)
        invalid("memory at the location HOST exists since CUDA 13.0; this driver is ", driver_version);
      is_host = true;
      break;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      if (driver_version < kHostNumaSince)
        invalid("memory at the location HOST_NUMA exists since CUDA 12.2; this driver is ", driver_version);
      if (prop.location.id != 0) invalid("NUMA node ", prop.location.id, " does not exist");
      break;
    default:
      invalid("location type ", +prop.location.type, " is not one that memory can be created at");
  }
  check_virtual_memory(device);
  check_handle_types(prop, device, is_host);
  check_flags(prop, device);
  auto chunk = std::make_unique<Chunk>(Chunk{
      .id = next_id_, .size = size, .device = device, .prop = prop, .storage = {}, .view = {}, .made_by = origin});
  if (device != nullptr && device->config.lacks(Lack::rdma_grant)) chunk->prop.allocFlags.gpuDirectRDMACapable = 0;
  chunk->prop.allocFlags.compressionType = 0;  // a request only; these devices have no compressible memory
  if (size % chunk->granularity() != 0)
    invalid("size ", size, " is not a multiple of the granularity ", chunk->granularity());
  if (device != nullptr) check_usable(*device);
  reclaim();
  const std::uint64_t room = device != nullptr ? device->free() : devices_.host().free();
  if (size > room)
    refuse(CUDA_ERROR_OUT_OF_MEMORY, device != nullptr ? text("device ", device->ordinal) : "the host", " has ", room,
           " bytes left, ", size, " were asked for");

  const bool has_bytes = device == nullptr || device->is_host_backed();
  if (prop.requestedHandleTypes != 0) {
    chunk->storage =
        Storage(make_shareable_file(Shared::chunk, chunk->device_or_host(), size, chunk->prop, chunk->identity));
  } else if (device != nullptr && has_bytes) {
    chunk->storage = Storage(device->heap_file(), size, device->config.granularity);
  } else if (has_bytes) {
    chunk->storage = Storage(make_shareable_file(Shared::chunk, kHost, size, chunk->prop, chunk->identity));
  }
  if (device == nullptr) chunk->view = arena_.view(size, chunk->storage.fd());
  if (device != nullptr && device->config.poison && has_bytes) chunk->storage.poison(size);
  charge(*chunk);
  ++next_id_;
  Chunk& made = *chunks_.emplace(chunk->id, std::move(chunk)).first->second;
  return add_handle(made).value;
}

void Chunks::charge(Chunk& chunk) {
  if (chunk.device != nullptr) return chunk.device->charge(chunk.size);
  devices_.host().used += chunk.size;
}

Handle& Chunks::add_handle(Chunk& chunk) {
  const std::uint64_t value = kChunkHandleBase + next_handle_++;
  ++chunk.handles;
  return handles_.emplace(value, Handle{value, &chunk, 1, 0}).first->second;
}

Handle& Chunks::find(std::uint64_t value) {
  if (value == 0) invalid("the handle is 0, which is never valid (did cuMemCreate fail unnoticed?)");
  const auto found = handles_.find(value);
  if (found != handles_.end() && found->second.references > 0) return found->second;
  if (of_closed_devices_.contains(value)) invalid("handle ", Hex{value}, " belonged to a device that was closed");
  const bool was_issued = value > kChunkHandleBase && value < kChunkHandleBase + next_handle_;
  throw Violation{text("handle ", Hex{value}, was_issued ? " was released already" : " was never given out"),
                  CUDA_ERROR_INVALID_VALUE};
}

void Chunks::release(std::uint64_t value) {
  Handle& handle = find(value);
  if (--handle.references > 0) return;
  --handle.chunk->handles;
  drop_if_unused(handle);
}

void Chunks::retain(Handle& handle) {
  if (handle.references++ == 0) ++handle.chunk->handles;
}

void Chunks::add_mapping(Handle& handle) {
  ++handle.mappings;
  ++handle.chunk->mappings;
}

void Chunks::remove_mapping(Handle& handle) {
  --handle.mappings;
  --handle.chunk->mappings;
  drop_if_unused(handle);
}

void Chunks::drop_if_unused(Handle& handle) {
  Chunk& chunk = *handle.chunk;
  if (handle.references == 0 && handle.mappings == 0) handles_.erase(handle.value);
  retire_if_unused(chunk);
}

void Chunks::retire_if_unused(Chunk& chunk) {
  if (chunk.handles > 0 || chunk.mappings > 0) return;
  // An importer's interest ends here; the exporter's memory lives on while any descriptor or importer is left.
  if (chunk.is_exported && !chunk.is_imported && is_shared(chunk.storage.fd())) {
    lingering_.insert(chunk.id);
  } else {
    retire(chunk);
  }
}

void Chunks::retire(Chunk& chunk) {
  (chunk.device != nullptr ? chunk.device->used : devices_.host().used) -= chunk.size;
  lingering_.erase(chunk.id);
  chunks_.erase(chunk.id);
}

void Chunks::reclaim() {
  if (lingering_.empty()) return;
  const std::vector<std::uint64_t> ids(lingering_.begin(), lingering_.end());
  for (const std::uint64_t id : ids)
    if (Chunk& chunk = *chunks_.at(id); !is_shared(chunk.storage.fd())) retire(chunk);
}

std::array<unsigned char, 64> Chunks::export_fabric(Handle& handle, std::uint64_t flags) {
  if (flags != 0) invalid("flags must be 0");
  Chunk& chunk = *handle.chunk;
  if ((chunk.prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) == 0)
    invalid("this chunk was not created for export as a fabric handle (requestedHandleTypes is ",
            +chunk.prop.requestedHandleTypes, " and cannot be changed)");
  if (chunk.device->config.fabric != Fabric::works)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "device ", chunk.device->ordinal,
           " is configured to accept fabric handles at cuMemCreate only (fabric=create)");
  std::array<unsigned char, 64> name{};
  std::ranges::copy(chunk.identity, name.begin());
  return name;
}

int Chunks::export_file(Handle& handle, CUmemAllocationHandleType type, std::uint64_t flags) {
  if (flags != 0) invalid("flags must be 0");
  Chunk& chunk = *handle.chunk;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || (chunk.prop.requestedHandleTypes & type) == 0)
    invalid("this chunk was not created for export as handle type ", +type, " (requestedHandleTypes is ",
            +chunk.prop.requestedHandleTypes, " and cannot be changed)");
  const int fd = open_shared(chunk.storage.fd());
  chunk.is_exported = true;
  return fd;
}

std::uint64_t Chunks::import_file(int fd, CUmemAllocationHandleType type, const Origin& origin) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    if (type == CU_MEM_HANDLE_TYPE_WIN32 || type == CU_MEM_HANDLE_TYPE_WIN32_KMT || type == CU_MEM_HANDLE_TYPE_FABRIC)
      refuse(CUDA_ERROR_NOT_SUPPORTED, "handle type ", +type, " is not supported here");
    invalid("handle type ", +type, " is unknown");
  }
  const auto header = read_shareable_header(fd, Shared::chunk);
  if (!header) invalid("file descriptor ", fd, " is not an exported chunk");
  for (const auto& [id, chunk] : chunks_) {
    if (!chunk->storage.is_own_file() || chunk->identity != header->identity) continue;
    lingering_.erase(id);
    return add_handle(*chunk).value;
  }
  Device* device = header->device == kHost ? nullptr : devices_.find_open(header->device);
  if (header->device != kHost && device == nullptr)
    invalid("the memory was exported from device ", header->device, ", which this process does not have");
  if (device != nullptr) check_usable(*device);
  const std::uint64_t total = device != nullptr ? device->config.memory : HostMemory::total();
  auto chunk = std::make_unique<Chunk>(Chunk{.id = next_id_,
                                             .size = header->size,
                                             .device = device,
                                             .prop = header->prop,
                                             .storage = {},
                                             .view = {},
                                             .made_by = origin,
                                             .identity = header->identity,
                                             .is_imported = true});
  if (chunk->size % chunk->granularity() != 0 || chunk->size > total)
    invalid("the memory's size ", chunk->size, " is not possible here: the granularity is ", chunk->granularity(),
            ", all memory ", total, " bytes");
  chunk->storage = Storage(open_shared(fd));
  if (device == nullptr) chunk->view = arena_.view(chunk->size, chunk->storage.fd());
  ++next_id_;
  charge(*chunk);  // the GPU is one: what the exporter took is missing here, too
  Chunk& made = *chunks_.emplace(chunk->id, std::move(chunk)).first->second;
  return add_handle(made).value;
}

void Chunks::drop_device(const Device& device) {
  std::erase_if(handles_, [&](const auto& entry) {
    if (entry.second.chunk->device != &device) return false;
    of_closed_devices_.insert(entry.first);
    return true;
  });
  std::erase_if(chunks_, [&](const auto& entry) {
    if (entry.second->device != &device) return false;
    lingering_.erase(entry.first);
    return true;
  });
}

}  // namespace memlake::emulator
