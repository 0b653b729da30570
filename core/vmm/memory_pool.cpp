#include "vmm/memory_pool.hpp"

#include <string>
#include <utility>

#include "driver/library.hpp"
#include "driver/result.hpp"

namespace memlake {

namespace {

bool is_switch(CUmemPool_attribute attribute) { return attribute < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD; }

}  // namespace

MemoryPool::MemoryPool(std::shared_ptr<Device> device, Bytes most) : device_(std::move(device)) {
  device_->context();
  if (device_->attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) == 0)
    throw Error(ErrorKind::config, "device " + std::to_string(device_->ordinal()) +
                                       " has no memory pools of CUDA's (attribute 115); use another policy");
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_->ordinal()};
  props.maxSize = most.count;
  Driver& driver = device_->driver();
  check(driver, Call::cuMemPoolCreate, driver.cuMemPoolCreate(&handle_, &props));
}

MemoryPool::~MemoryPool() {
  ownership_.end_quietly([this] { destroy(); });
}

void MemoryPool::destroy() {
  if (!device_->can_undo()) return;
  Driver& driver = device_->driver();
  check(driver, Call::cuMemPoolDestroy, driver.cuMemPoolDestroy(handle_));
}

void MemoryPool::set(CUmemPool_attribute attribute, std::uint64_t value) {
  Driver& driver = device_->driver();
  int flag = value != 0 ? 1 : 0;
  void* data = is_switch(attribute) ? static_cast<void*>(&flag) : static_cast<void*>(&value);
  check(driver, Call::cuMemPoolSetAttribute, driver.cuMemPoolSetAttribute(handle_, attribute, data));
}

std::uint64_t MemoryPool::get(CUmemPool_attribute attribute) const {
  Driver& driver = device_->library().driver();
  int flag = 0;
  std::uint64_t value = 0;
  void* data = is_switch(attribute) ? static_cast<void*>(&flag) : static_cast<void*>(&value);
  check(driver, Call::cuMemPoolGetAttribute, driver.cuMemPoolGetAttribute(handle_, attribute, data));
  return is_switch(attribute) ? static_cast<std::uint64_t>(flag) : value;
}

void MemoryPool::trim(Bytes keep) {
  Driver& driver = device_->driver();
  check(driver, Call::cuMemPoolTrimTo, driver.cuMemPoolTrimTo(handle_, keep.count));
}

void MemoryPool::set_access(const std::vector<CUmemAccessDesc>& descriptors) {
  if (descriptors.empty()) return;
  Driver& driver = device_->driver();
  check(driver, Call::cuMemPoolSetAccess, driver.cuMemPoolSetAccess(handle_, descriptors.data(), descriptors.size()));
}

}  // namespace memlake
