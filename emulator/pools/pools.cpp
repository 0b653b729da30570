// The pools: creation and destruction, default and current pools, attributes and access rights.

#include "pools/pools.hpp"

#include <algorithm>
#include <cstring>

#include "basics/handles.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kPoolBase = 0x0900'0000'0000'0000;  // looks like nothing else; values are never used twice
constexpr int kMaxSizeSince = 12020;
constexpr int kUsageSince = 12080;
constexpr int kHostSince = 13000;
constexpr int kManagedSince = 13000;
/// Of a file whose parts are a pool's segments. Sparse: room, not memory.
constexpr std::uint64_t kPoolFileLength = std::uint64_t{1} << 44;

void check_type(CUmemAllocationType type, int driver_version) {
  if (type != CU_MEM_ALLOCATION_TYPE_PINNED && type != CU_MEM_ALLOCATION_TYPE_MANAGED)
    invalid("allocation type ", +type, " is not PINNED (1) or MANAGED (2)");
  if (type == CU_MEM_ALLOCATION_TYPE_MANAGED && driver_version < kManagedSince)
    invalid("pools of managed memory exist since CUDA 13.0; this is ", driver_version);
}

void check_managed(const CUmemPoolProps& props) {
  if (props.allocType != CU_MEM_ALLOCATION_TYPE_MANAGED) return;
  if (props.handleTypes != 0) invalid("a pool of managed memory cannot be exported: handleTypes must be 0");
  if (props.maxSize != 0) invalid("a pool of managed memory has no limit: maxSize must be 0");
  if (props.usage != 0) invalid("a pool of managed memory has no usage: usage must be 0");
}

void check_handle_types(const CUmemPoolProps& props) {
  const int types = props.handleTypes;
  if ((types & ~kKnownHandleTypes) != 0 || (types & (types - 1)) != 0)
    invalid("handleTypes ", types, " is not one handle type");
  if (types != 0 && props.location.type == CU_MEM_LOCATION_TYPE_HOST)
    invalid("a pool of HOST memory cannot be exported: handleTypes must be 0");
  if (types == CU_MEM_HANDLE_TYPE_FABRIC)
    refuse(CUDA_ERROR_NOT_PERMITTED, "fabric handles need an IMEX channel, and there is none");
  if (types != 0 && types != kPosix)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "Windows handle types are not supported on Linux");
}

void check_fields(const CUmemPoolProps& props, int driver_version) {
  if (props.win32SecurityAttributes != nullptr)
    invalid("win32SecurityAttributes must be NULL on Linux (zero the whole struct)");
  if (props.maxSize != 0 && driver_version < kMaxSizeSince)
    invalid("maxSize exists since CUDA 12.2; this driver is ", driver_version, " and wants zeros there");
  if (props.usage != 0 && driver_version < kUsageSince)
    invalid("usage exists since CUDA 12.8; this driver is ", driver_version, " and wants zeros there");
  if ((props.usage & ~kUsageHwDecompress) != 0) invalid("usage ", props.usage, " is unknown (zero the whole struct)");
  for (const unsigned char byte : props.reserved)
    if (byte != 0) invalid("a reserved byte of the pool properties is not 0 (zero the whole struct)");
}

}  // namespace

Pool& Pools::add(const CUmemPoolProps& props, Device* device, const Origin& origin) {
  const std::uint64_t handle = kPoolBase + kHandleStep * next_pool_++;
  auto pool = std::make_unique<Pool>(Pool{.handle = handle, .props = props, .device = device, .made_by = origin});
  pool->rights.set(pool->device_or_host(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  if (device != nullptr) {
    pool->is_strict = device->is_strict();
    pool->has_bytes = device->is_host_backed();
  } else if (pool->is_managed()) {
    pool->is_strict = devices_.is_strict();
    pool->has_bytes = devices_.are_host_backed();
    pool->relaxed = devices_.relaxed();
  }
  return *pools_.emplace(handle, std::move(pool)).first->second;
}

/// The device whose memory a pool has; null for host memory and for managed memory, which may prefer a device.
Device* Pools::device_of(const CUmemPoolProps& props, int driver_version) {
  const bool is_managed = props.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
  switch (props.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE: {
      Device* device = devices_.find_open(props.location.id);
      if (device == nullptr) invalid("device ", props.location.id, " does not exist or was closed");
      return is_managed ? nullptr : device;
    }
    case CU_MEM_LOCATION_TYPE_HOST:
      if (driver_version < kHostSince) invalid("pools of HOST memory exist since CUDA 13.0; this is ", driver_version);
      return nullptr;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      if (props.location.id != 0) invalid("NUMA node ", props.location.id, " does not exist");
      return nullptr;
    case CU_MEM_LOCATION_TYPE_INVALID:
      if (is_managed) return nullptr;  // no preferred location
      [[fallthrough]];
    default:
      invalid("location type ", +props.location.type, " is not one that a pool can be made at");
  }
}

Pool& Pools::create(const CUmemPoolProps& props, int driver_version, const Origin& origin) {
  check_type(props.allocType, driver_version);
  Device* device = device_of(props, driver_version);
  check_managed(props);
  check_handle_types(props);
  check_fields(props, driver_version);

  Identity identity{};
  std::shared_ptr<HeapFile> file;
  if (props.handleTypes == kPosix) {
    CUmemAllocationProp prop{};
    prop.type = props.allocType;
    prop.requestedHandleTypes = props.handleTypes;
    prop.location = props.location;
    const int ordinal = device == nullptr ? kHost : device->ordinal;
    file = std::make_shared<HeapFile>(make_shareable_file(Shared::pool, ordinal, kPoolFileLength, prop, identity),
                                      kPoolFileLength);
  }
  Pool& pool = add(props, device, origin);
  pool.identity = identity;
  pool.file = std::move(file);
  const Supply supply = pool.is_managed()   ? Supply(devices_.managed())
                        : device != nullptr ? Supply(*device)
                                            : Supply(devices_.host());
  pool.memory = std::make_unique<PoolMemory>(arena_, in_flight_, supply, props.maxSize);
  return pool;
}

Pool& Pools::find(CUmemoryPool handle) {
  if (handle == nullptr) invalid("the pool is NULL");
  const auto found = pools_.find(reinterpret_cast<std::uint64_t>(handle));
  if (found == pools_.end() || found->second->is_destroyed || found->second->graphs != nullptr)
    invalid("there is no pool ", static_cast<const void*>(handle), " (any more)");
  return *found->second;
}

void Pools::destroy(Pool& pool) {
  if (pool.is_default) invalid("a default pool cannot be destroyed");
  for (auto& [place, slot] : slots_)
    if (slot.current == &pool) slot.current = slot.by_default;
  pool.is_destroyed = true;
  end_if_unused(pool);
}

void Pools::end_if_unused(Pool& pool) {
  if (!pool.is_destroyed || pool.live > 0) return;
  if (allocations_.is_leaving(pool) ||
      (pool.memory != nullptr && (!pool.memory->is_idle() || pool.memory->is_in_use())))
    return;
  pools_.erase(pool.handle);
}

void Pools::reclaim() {
  std::vector<Pool*> ending;
  for (const auto& [handle, pool] : pools_)
    if (pool->is_destroyed) ending.push_back(pool.get());
  for (Pool* pool : ending) end_if_unused(*pool);
}

Pools::Place Pools::place_of(const CUmemLocation& location, CUmemAllocationType type) {
  const bool has_id = location.type == CU_MEM_LOCATION_TYPE_DEVICE || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  return {type, location.type, has_id ? location.id : 0};
}

Pools::Slot& Pools::slot(const CUmemLocation& location, CUmemAllocationType type) {
  check_type(type, kManagedSince);
  CUmemPoolProps props{};
  props.allocType = type;
  props.location = location;
  if (const auto found = slots_.find(place_of(location, type)); found != slots_.end()) return found->second;
  Pool& made = create(props, kHostSince, Origin{.call = "the driver"});
  made.is_default = true;
  return slots_.emplace(place_of(location, type), Slot{&made, &made}).first->second;
}

Pool& Pools::default_pool(const CUmemLocation& location, CUmemAllocationType type) {
  return *slot(location, type).by_default;
}

Pool& Pools::current_pool(const CUmemLocation& location, CUmemAllocationType type) {
  return *slot(location, type).current;
}

void Pools::set_current(const CUmemLocation& location, CUmemAllocationType type, Pool& pool) {
  Slot& of_place = slot(location, type);
  if (pool.is_imported()) invalid("an imported pool cannot allocate, so it cannot be the current one");
  if (pool.props.allocType != type) invalid("the pool's allocation type is ", +pool.props.allocType, ", not ", +type);
  if (place_of(pool.props.location, type) != place_of(location, type))
    invalid("the pool's memory lies at location type ", +pool.props.location.type, ", id ", pool.props.location.id,
            ", not at location type ", +location.type, ", id ", location.id);
  of_place.current = &pool;
}

bool Pools::is_current(const Pool& pool) const {
  return std::ranges::any_of(slots_, [&](const auto& entry) { return entry.second.current == &pool; });
}

void Pools::trim(Pool& pool, std::uint64_t keep) {
  // What other processes know of stays where it is.
  if (pool.memory != nullptr && !pool.is_exported) pool.memory->trim(keep);
}

void Pools::set_access(Pool& pool, std::span<const CUmemAccessDesc> descriptors) {
  if (pool.is_managed()) invalid("every processor can access managed memory; its access cannot be set");
  const auto most = static_cast<std::size_t>(devices_.count()) + 2;  // every device, HOST and HOST_NUMA
  if (descriptors.size() > most)
    refuse(CUDA_ERROR_INVALID_DEVICE, "count ", descriptors.size(), " is more than there are places");
  std::vector<Rights::Entry> grants;
  for (const CUmemAccessDesc& descriptor : descriptors) {
    const int flags = descriptor.flags;
    if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      invalid("access flags ", flags, " are not 0, 1 or 3");
    int to = kHost;
    if (descriptor.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
      to = devices_.find(descriptor.location.id).ordinal;
    } else if (pool.device != nullptr || (descriptor.location.type != CU_MEM_LOCATION_TYPE_HOST &&
                                          descriptor.location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA)) {
      invalid("location type ", +descriptor.location.type, " cannot be given access to this pool");
    }
    if (to == pool.device_or_host() && flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      refuse(CUDA_ERROR_INVALID_DEVICE, "where a pool's memory lies, it can always be read and written");
    if (to != kHost && pool.device != nullptr && to != pool.device->ordinal &&
        !devices_.find(to).can_access(pool.device->ordinal))
      refuse(CUDA_ERROR_INVALID_DEVICE, "device ", to, " cannot reach the memory of device ", pool.device->ordinal);
    grants.push_back({to, static_cast<unsigned>(flags)});
  }
  for (const auto& [to, flags] : grants) pool.rights.set(to, flags);
}

unsigned Pools::access(const Pool& pool, const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      if (devices_.find_open(location.id) == nullptr) invalid("device ", location.id, " does not exist or was closed");
      return pool.access_of(location.id);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return pool.access_of(kHost);
    default:
      invalid("location type ", +location.type, " is not one that can have access");
  }
}

void Pools::drop_device(const Device& device) {
  for (const PoolAllocation& gone : allocations_.drop_device(device))
    if (gone.pool->is_imported()) finish_free(gone);
  std::erase_if(slots_, [&](const auto& entry) { return entry.second.by_default->device == &device; });
  if (const auto found = graph_pools_.find(device.ordinal); found != graph_pools_.end()) {
    found->second->graphs->close();
    graph_pools_.erase(found);
  }
  std::erase_if(pools_, [&](const auto& entry) { return entry.second->device == &device; });
}

bool Pools::is_in_use(const Device& device) const {
  const bool is_imported_used = std::ranges::any_of(allocations_.all(), [&](const auto& entry) {
    const PoolAllocation& allocation = entry.second;
    return allocation.pool->device == &device && allocation.pool->is_imported() &&
           in_flight_.user_of(allocation.address, allocation.size, true) != nullptr;
  });
  return is_imported_used || std::ranges::any_of(pools_, [&](const auto& entry) {
           const Pool& pool = *entry.second;
           return pool.device == &device && ((pool.memory != nullptr && pool.memory->is_in_use()) ||
                                             (pool.graphs != nullptr && pool.graphs->is_in_use()));
         });
}

}  // namespace memlake::emulator
