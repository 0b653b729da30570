#include "abi.hpp"

#include <stdexcept>

namespace memlake::test {

void must(int code) {
  if (code != 0)
    throw std::runtime_error("a step answered " + std::to_string(code) + ": " + memlakeEmulatorLastError());
}

World::World(const std::string& config) {
  int count = 0;
  must(memlakeEmulatorAddDevices(config.c_str(), &first, &count));
  must(cuInit(0));
  contexts.resize(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) must(cuDevicePrimaryCtxRetain(&contexts[static_cast<std::size_t>(i)], first + i));
  use(0);
}

void World::use(std::size_t index) const { must(cuCtxSetCurrent(contexts[index])); }

CUmemAllocationProp device_prop(int device, int handle_types) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  prop.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(handle_types);
  return prop;
}

CUmemAccessDesc access_desc(int device, unsigned flags) {
  return {{CU_MEM_LOCATION_TYPE_DEVICE, device}, static_cast<CUmemAccess_flags>(flags)};
}

std::uint64_t reserve(std::uint64_t size) {
  CUdeviceptr address = 0;
  must(cuMemAddressReserve(&address, size, 0, 0, 0));
  return address;
}

std::uint64_t create(const CUmemAllocationProp& prop, std::uint64_t size) {
  CUmemGenericAllocationHandle handle = 0;
  must(cuMemCreate(&handle, size, &prop, 0));
  return handle;
}

std::uint64_t create(int device, std::uint64_t size, int handle_types) {
  return create(device_prop(device, handle_types), size);
}

void set_access(std::uint64_t address, std::uint64_t size, const CUmemAccessDesc& desc) {
  must(cuMemSetAccess(address, size, &desc, 1));
}

std::uint64_t new_mapping(int device, std::uint64_t size) {
  const std::uint64_t address = reserve(size);
  const std::uint64_t handle = create(device, size);
  must(cuMemMap(address, size, 0, handle, 0));
  must(cuMemRelease(handle));
  set_access(address, size, access_desc(device));
  return address;
}

CUstream new_stream(unsigned flags) {
  CUstream stream{};
  must(cuStreamCreate(&stream, flags));
  return stream;
}

CUevent new_event() {
  CUevent event{};
  must(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  return event;
}

std::uint64_t hold(CUstream stream) {
  std::uint64_t gate = 0;
  must(memlakeEmulatorHold(stream, &gate));
  return gate;
}

std::size_t pending(CUstream stream) {
  std::size_t count = 0;
  must(memlakeEmulatorPending(stream, &count));
  return count;
}

CUmemPoolProps pool_props(int device, int handle_types, std::size_t most) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.handleTypes = static_cast<CUmemAllocationHandleType>(handle_types);
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  props.maxSize = most;
  return props;
}

CUmemoryPool new_pool(const CUmemPoolProps& props) {
  CUmemoryPool pool{};
  must(cuMemPoolCreate(&pool, &props));
  return pool;
}

std::uint64_t allocate(CUmemoryPool pool, std::uint64_t size, CUstream stream) {
  CUdeviceptr address = 0;
  must(cuMemAllocFromPoolAsync(&address, size, pool, stream));
  return address;
}

std::uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which) {
  std::uint64_t value = 0;  // the switches are ints, and numbers are stored from the low end here
  must(cuMemPoolGetAttribute(pool, which, &value));
  return value;
}

void set_attribute(CUmemoryPool pool, CUmemPool_attribute which, std::uint64_t value) {
  must(cuMemPoolSetAttribute(pool, which, &value));
}

std::uint64_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  must(cuMemGetInfo_v2(&free, &total));
  return free;
}

std::string ledger() {
  std::string text;
  std::size_t size = 0;
  do {  // other threads may add to it between the question and the answer
    must(memlakeEmulatorLedger(nullptr, &size));
    text.resize(size);
  } while (memlakeEmulatorLedger(text.data(), &size) != CUDA_SUCCESS);
  text.resize(size - 1);
  return text;
}

bool error_says(const std::string& part) {
  return std::string(memlakeEmulatorLastError()).find(part) != std::string::npos;
}

bool violation_says(const std::string& part) {
  return std::string(memlakeEmulatorLastViolation()).find(part) != std::string::npos;
}

}  // namespace memlake::test
