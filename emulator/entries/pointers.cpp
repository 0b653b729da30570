// Pointer queries: section A10 of the contract.

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

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
        pooled(driver.pools.allocations().find(address)),
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

/// A question about an address where something is.
struct Question {
  Driver& driver;
  const Found& found;
  std::uint64_t address;

  /// The properties of the chunk that is mapped at the address; null if no chunk is.
  [[nodiscard]] const CUmemAllocationProp* prop() const {
    return found.mapping != nullptr ? &found.mapping->chunk().prop : nullptr;
  }
};

// One function for each attribute. The type of its value is that of the attribute.

std::uint64_t context(const Question& of) {
  if (of.found.allocation != nullptr) return of.found.allocation->context;
  return of.found.host != nullptr ? of.found.host->context : 0;  // virtual memory and pools belong to none
}

unsigned memory_type(const Question& of) { return of.found.is_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE; }

std::uint64_t device_pointer(const Question& of) { return of.address; }

std::uint64_t host_pointer(const Question& of) {
  if (!of.found.has_host_pointer()) invalid("device memory has no host pointer");
  return of.address;
}

unsigned sync_memops(const Question& of) { return of.found.syncs_memops() ? 1U : 0U; }

std::uint64_t buffer_id(const Question& of) {
  if (of.found.allocation != nullptr) return of.found.allocation->id;
  if (of.found.host != nullptr) return of.found.host->id;
  if (of.found.pooled != nullptr) return of.found.pooled->id;
  return of.found.mapping != nullptr ? of.found.mapping->chunk().id : 0;
}

bool is_managed(const Question& of) { return of.found.is_said_to_be_managed(); }

bool is_legacy_ipc_capable(const Question& of) {
  const Allocation* allocation = of.found.allocation;
  return allocation != nullptr && allocation->imported == nullptr && !of.found.is_managed() &&
         allocation->device->is_host_backed();
}

int device_ordinal(const Question& of) {
  if (of.found.allocation != nullptr) return of.found.allocation->device->ordinal;
  if (of.found.mapping != nullptr) return of.found.mapping->chunk().device_or_host();
  if (of.found.pooled != nullptr) return of.found.pooled->pool->nominal_device();
  return of.driver.contexts.find(of.found.host->context)->device->ordinal;
}

std::uint64_t range_start(const Question& of) { return allocation_range(of.found).start; }
std::uint64_t range_size(const Question& of) { return allocation_range(of.found).size; }

bool is_mapped(const Question& of) { return of.found.is_memory(); }

std::uint64_t allowed_handle_types(const Question& of) {
  if (const CUmemAllocationProp* prop = of.prop()) return prop->requestedHandleTypes;
  return of.found.pooled != nullptr ? std::uint64_t(of.found.pooled->pool->props.handleTypes) : 0;
}

bool is_rdma_capable(const Question& of) {
  return !of.found.is_managed() && (of.prop() == nullptr || of.prop()->allocFlags.gpuDirectRDMACapable != 0);
}

unsigned access_flags(const Question& of) {
  if (of.found.mapping == nullptr && of.found.pooled == nullptr) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const Context* current = of.driver.contexts.current_or_null();
  if (current == nullptr) return 0;
  const int ordinal = current->device->ordinal;
  return of.found.pooled != nullptr ? of.found.pooled->access_of(ordinal)
                                    : of.found.mapping->rights_at(of.address).of(ordinal);
}

std::uint64_t mempool_handle(const Question& of) {
  const PoolAllocation* pooled = of.found.pooled;
  return pooled != nullptr && pooled->range == nullptr ? pooled->pool->handle : 0;
}

std::uint64_t mapping_size(const Question& of) { return mapping_range(of.found).size; }
std::uint64_t mapping_start(const Question& of) { return mapping_range(of.found).start; }

std::uint64_t memory_block_id(const Question& of) {
  return of.found.mapping != nullptr ? of.found.mapping->chunk().id : 0;
}

/// Addresses without memory know only where they were reserved.
enum class Needs { memory, reservation };

struct Attribute {
  CUpointer_attribute id;
  Needs needs;
  std::size_t size;  ///< of the answer; for a foreign pointer so many bytes are zeroed
  void (*answer)(const Question& question, void* data);

  [[nodiscard]] bool is_answerable(const Found& found) const {
    return needs == Needs::memory ? found.is_memory() : !found.is_nothing();
  }
};

template <auto value_of>
constexpr Attribute attribute(CUpointer_attribute id, Needs needs = Needs::memory) {
  using Value = decltype(value_of(std::declval<const Question&>()));
  return {id, needs, sizeof(Value), [](const Question& question, void* data) {
            const Value value = value_of(question);
            std::memcpy(data, &value, sizeof value);
          }};
}

constexpr std::array kAttributes{
    attribute<context>(CU_POINTER_ATTRIBUTE_CONTEXT),
    attribute<memory_type>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
    attribute<device_pointer>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER),
    attribute<host_pointer>(CU_POINTER_ATTRIBUTE_HOST_POINTER),
    attribute<sync_memops>(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS),
    attribute<buffer_id>(CU_POINTER_ATTRIBUTE_BUFFER_ID),
    attribute<is_managed>(CU_POINTER_ATTRIBUTE_IS_MANAGED),
    attribute<device_ordinal>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL),
    attribute<is_legacy_ipc_capable>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE),
    attribute<range_start>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, Needs::reservation),
    attribute<range_size>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, Needs::reservation),
    attribute<is_mapped>(CU_POINTER_ATTRIBUTE_MAPPED, Needs::reservation),
    attribute<allowed_handle_types>(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES),
    attribute<is_rdma_capable>(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE),
    attribute<access_flags>(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS),
    attribute<mempool_handle>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE),
    attribute<mapping_size>(CU_POINTER_ATTRIBUTE_MAPPING_SIZE),
    attribute<mapping_start>(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR),
    attribute<memory_block_id>(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID),
};

const Attribute& find_attribute(CUpointer_attribute id) {
  const auto* const found = std::ranges::find(kAttributes, id, &Attribute::id);
  if (found == kAttributes.end()) invalid("pointer attribute ", +id, " is unknown");
  return *found;
}

}  // namespace

MEMLAKE_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  return enter(Call::cuPointerGetAttribute, MEMLAKE_CALLER, [&](Session& session) {
    if (data == nullptr) invalid("data is NULL");
    const Attribute& asked = find_attribute(attribute);
    const Found found(session.driver, address);
    if (!asked.is_answerable(found))
      invalid(Hex{address},
              found.is_nothing() ? " is not memory of this driver" : " is reserved, but nothing is mapped");
    asked.answer({session.driver, found, address}, data);
  });
}

MEMLAKE_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                               CUdeviceptr address) {
  return enter(Call::cuPointerGetAttributes, MEMLAKE_CALLER, [&](Session& session) {
    required(attributes, "attributes");
    required(data, "data");
    if (count == 0) invalid("count is 0");
    for (unsigned i = 0; i < count; ++i) {
      find_attribute(attributes[i]);
      if (data[i] == nullptr) invalid("data[", i, "] is NULL");
    }
    const Found found(session.driver, address);
    for (unsigned i = 0; i < count; ++i) {
      const Attribute& asked = find_attribute(attributes[i]);
      const bool lacks_pointer = asked.id == CU_POINTER_ATTRIBUTE_HOST_POINTER && !found.has_host_pointer();
      if (asked.is_answerable(found) && !lacks_pointer) {
        asked.answer({session.driver, found, address}, data[i]);
      } else {
        std::memset(data[i], 0, asked.size);  // success with zeros, unlike the single query
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
