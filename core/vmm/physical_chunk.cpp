#include "vmm/physical_chunk.hpp"

#include <cstdint>
#include <utility>

#include "driver/result.hpp"

namespace memlake {

PhysicalChunk PhysicalChunk::create(std::shared_ptr<Device> device, Bytes size, bool is_exportable) {
  const CUmemAllocationProp prop = device->allocation_prop(is_exportable);
  return create(std::move(device), size, prop);
}

PhysicalChunk PhysicalChunk::create(std::shared_ptr<Device> device, Bytes size, const CUmemAllocationProp& prop) {
  Driver& driver = device->driver();
  device->context();
  CUmemGenericAllocationHandle handle = 0;
  check(driver, Call::cuMemCreate, driver.cuMemCreate(&handle, size.count, &prop, 0));
  return PhysicalChunk(std::move(device), handle, size);
}

PhysicalChunk PhysicalChunk::create_on_host(std::shared_ptr<Device> device, Bytes size, CUmemLocation location) {
  Driver& driver = device->driver();
  device->context();  // some drivers want it for memory of the host, too
  CUmemAllocationProp prop = device->allocation_prop(false);
  prop.location = location;
  CUmemGenericAllocationHandle handle = 0;
  check(driver, Call::cuMemCreate, driver.cuMemCreate(&handle, size.count, &prop, 0));
  return PhysicalChunk(std::move(device), handle, size, true);
}

PhysicalChunk PhysicalChunk::import_fd(std::shared_ptr<Device> device, int fd, Bytes size) {
  Driver& driver = device->driver();
  device->context();
  // By value: CUDA takes the descriptor itself where a pointer is declared (A8).
  void* const by_value = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd));
  CUmemGenericAllocationHandle handle = 0;
  check(driver, Call::cuMemImportFromShareableHandle,
        driver.cuMemImportFromShareableHandle(&handle, by_value, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  return PhysicalChunk(std::move(device), handle, size);
}

PhysicalChunk::PhysicalChunk(std::shared_ptr<Device> device, CUmemGenericAllocationHandle handle, Bytes size,
                             bool is_on_host)
    : device_(std::move(device)), handle_(handle), size_(size), is_on_host_(is_on_host) {}

PhysicalChunk::~PhysicalChunk() {
  ownership_.end_or_keep([this] { release(); }, [this] { device_->keep(std::move(*this)); });
}

int PhysicalChunk::export_fd() const {
  Driver& driver = device_->driver();
  int fd = -1;
  check(driver, Call::cuMemExportToShareableHandle,
        driver.cuMemExportToShareableHandle(&fd, handle(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  return fd;
}

CUmemGenericAllocationHandle PhysicalChunk::handle() const {
  ownership_.require("the chunk");
  return handle_;
}

void PhysicalChunk::close() {
  ownership_.end("the chunk", [this] { release(); });
}

void PhysicalChunk::release() {
  if (!can_undo()) return;
  Driver& driver = device_->driver();
  check(driver, Call::cuMemRelease, driver.cuMemRelease(handle_));
}

}  // namespace memlake
