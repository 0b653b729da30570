// Pointer queries: section A10 of the contract.

#include <cstring>

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

/// What lies at an address: at most one of the first four, and a reservation around a mapping or around nothing.
struct Found {
  const Mapping* mapping;
  const Allocation* allocation;
  const HostAllocation* host;
  const PoolAllocation* pooled;
  const Reservation* reservation;

  Found(Driver& driver, std::uint64_t address)
      : mapping(driver.mappings.find(address)),
        allocation(driver.plain.find(address)),
        host(driver.plain.find_host(address)),
        pooled(driver.pools.find_allocation(address)),
        reservation(driver.mappings.find_reservation(address)) {}

  [[nodiscard]] bool is_nothing() const { return !is_memory() && reservation == nullptr; }
  [[nodiscard]] bool is_memory() const {
    return mapping != nullptr || allocation != nullptr || host != nullptr || pooled != nullptr;
  }
  [[nodiscard]] bool syncs_memops() const {
    return mapping != nullptr      ? mapping->syncs_memops
           : allocation != nullptr ? allocation->syncs_memops
           : host != nullptr       ? host->syncs_memops
                                   : pooled->syncs_memops;
  }
  void set_syncs_memops(bool value) const {
    if (mapping != nullptr) mapping->syncs_memops = value;
    if (allocation != nullptr) allocation->syncs_memops = value;
    if (host != nullptr) host->syncs_memops = value;
    if (pooled != nullptr) pooled->syncs_memops = value;
  }
  [[nodiscard]] bool is_host() const {
    return host != nullptr || (mapping != nullptr && mapping->chunk().device == nullptr) ||
           (pooled != nullptr && pooled->pool->is_host());
  }
  [[nodiscard]] bool is_managed() const {
    return (allocation != nullptr && allocation->is_managed) || (pooled != nullptr && pooled->pool->is_managed());
  }
  [[nodiscard]] bool has_host_pointer() const { return is_host() || is_managed(); }
  /// What IS_MANAGED answers. NVIDIA's driver does not set it for memory of managed pools.
  [[nodiscard]] bool is_said_to_be_managed() const {
    return is_managed() && (pooled == nullptr || pooled->pool->is_strict);
  }
};

template <class T>
void put(void* data, T value) {
  std::memcpy(data, &value, sizeof value);
}

struct Range {
  std::uint64_t start;
  std::uint64_t size;
};

Range allocation_range(const Found& found) {
  if (found.reservation != nullptr) return {found.reservation->address, found.reservation->size};
  if (found.allocation != nullptr) return {found.allocation->address, found.allocation->size};
  if (found.pooled != nullptr) return {found.pooled->address, found.pooled->size};
  return {found.host->address, found.host->size};
}

Range mapping_range(const Found& found) {
  return found.mapping != nullptr ? Range{found.mapping->address, found.mapping->size} : allocation_range(found);
}

/// Answers one attribute of an address where something is; false if the attribute is unknown.
bool answer_attribute(Driver& driver, const Found& found, CUpointer_attribute attribute, std::uint64_t address,
                      void* data) {
  const CUmemAllocationProp* prop = found.mapping != nullptr ? &found.mapping->chunk().prop : nullptr;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
      const std::uint64_t context = found.allocation != nullptr ? found.allocation->context
                                    : found.host != nullptr     ? found.host->context
                                                                : 0;  // virtual memory and pools belong to none
      return put(data, context), true;
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(data, found.is_host() ? unsigned{CU_MEMORYTYPE_HOST} : unsigned{CU_MEMORYTYPE_DEVICE}), true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(data, address), true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!found.has_host_pointer()) invalid("device memory has no host pointer");
      return put(data, address), true;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return put(data, found.syncs_memops() ? 1U : 0U), true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: {
      const std::uint64_t id = found.allocation != nullptr ? found.allocation->id
                               : found.host != nullptr     ? found.host->id
                               : found.pooled != nullptr   ? found.pooled->id
                               : found.mapping != nullptr  ? found.mapping->chunk().id
                                                           : 0;
      return put(data, id), true;
    }
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(data, found.is_said_to_be_managed()), true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put(data, found.allocation != nullptr && found.allocation->imported == nullptr && !found.is_managed() &&
                           found.allocation->device->is_host_backed()),
             true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: {
      const int ordinal = found.allocation != nullptr ? found.allocation->device->ordinal
                          : found.mapping != nullptr  ? found.mapping->chunk().device_or_host()
                          : found.pooled != nullptr   ? found.pooled->pool->nominal_device()
                                                      : driver.contexts.find(found.host->context)->device->ordinal;
      return put(data, ordinal), true;
    }
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(data, allocation_range(found).start), true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(data, allocation_range(found).size), true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put(data, found.is_memory()), true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put(data, prop != nullptr           ? std::uint64_t(prop->requestedHandleTypes)
                       : found.pooled != nullptr ? std::uint64_t(found.pooled->pool->props.handleTypes)
                                                 : 0),
             true;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return put(data, !found.is_managed() && (prop == nullptr || prop->allocFlags.gpuDirectRDMACapable != 0)), true;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
      const Context* context = driver.contexts.current_or_null();
      unsigned flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      if (found.mapping != nullptr)
        flags = context != nullptr ? found.mapping->rights_at(address).of(context->device->ordinal) : 0;
      if (found.pooled != nullptr) flags = context != nullptr ? found.pooled->access_of(context->device->ordinal) : 0;
      return put(data, flags), true;
    }
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put(data, found.pooled != nullptr && found.pooled->range == nullptr ? found.pooled->pool->handle
                                                                                 : std::uint64_t{0}),
             true;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return put(data, mapping_range(found).size), true;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return put(data, mapping_range(found).start), true;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return put(data, found.mapping != nullptr ? found.mapping->chunk().id : std::uint64_t{0}), true;
  }
  return false;
}

/// Addresses without memory know only where they were reserved.
bool needs_memory(CUpointer_attribute attribute) {
  return attribute != CU_POINTER_ATTRIBUTE_RANGE_START_ADDR && attribute != CU_POINTER_ATTRIBUTE_RANGE_SIZE &&
         attribute != CU_POINTER_ATTRIBUTE_MAPPED;
}

/// How many bytes an attribute's answer has: what is zeroed for a foreign pointer.
std::size_t answer_size(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return 1;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return 4;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return 8;
  }
  return 0;
}

}  // namespace

MEMLAKE_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  return enter(Call::cuPointerGetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    if (data == nullptr) invalid("data is NULL");
    if (answer_size(attribute) == 0) invalid("pointer attribute ", +attribute, " is unknown");
    const Found found(session.driver, address);
    if (found.is_nothing() || (needs_memory(attribute) && !found.is_memory()))
      invalid(Hex{address},
              found.is_nothing() ? " is not memory of this driver" : " is reserved, but nothing is mapped");
    answer_attribute(session.driver, found, attribute, address, data);
  });
}

MEMLAKE_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                               CUdeviceptr address) {
  return enter(Call::cuPointerGetAttributes, MEMLAKE_CALLER, [&](Session& session) {
    required(attributes, "attributes");
    required(data, "data");
    if (count == 0) invalid("count is 0");
    for (unsigned i = 0; i < count; ++i) {
      if (answer_size(attributes[i]) == 0) invalid("pointer attribute ", +attributes[i], " is unknown");
      if (data[i] == nullptr) invalid("data[", i, "] is NULL");
    }
    const Found found(session.driver, address);
    for (unsigned i = 0; i < count; ++i) {
      const bool is_answerable = !found.is_nothing() && (!needs_memory(attributes[i]) || found.is_memory()) &&
                                 (attributes[i] != CU_POINTER_ATTRIBUTE_HOST_POINTER || found.has_host_pointer());
      if (is_answerable) {
        answer_attribute(session.driver, found, attributes[i], address, data[i]);
      } else {
        std::memset(data[i], 0, answer_size(attributes[i]));  // success with zeros, unlike the single query
      }
    }
  });
}

MEMLAKE_EXPORT CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  return enter(Call::cuPointerSetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    required(static_cast<const char*>(value), "value");
    if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) invalid("only SYNC_MEMOPS can be set");
    const Found found(session.driver, address);
    if (!found.is_memory()) invalid(Hex{address}, " is not memory of this driver");
    unsigned number = 0;
    std::memcpy(&number, value, sizeof number);
    found.set_syncs_memops(number != 0);
  });
}

}  // namespace memlake::emulator
