// The functions of memlake.h that pass memory of PyTorch's pools to other processes, and take it there.

#include <memory>
#include <vector>

#include "abi/last_error.hpp"
#include "abi/make_pool.hpp"
#include "abi/pool_handle.hpp"
#include "abi/torch_pools.hpp"
#include "vmm/imported_memory.hpp"

struct memlake_import {
  std::unique_ptr<memlake::ImportedMemory> memory;
};

using namespace memlake;
using namespace memlake::abi;

extern "C" {

int memlake_torch_export(const void* ptr, int hint, uint64_t* offset, void (*take)(int fd, uint64_t size, void* user),
                         void* user) {
  return code_from([&] {
    if (ptr == nullptr || offset == nullptr || take == nullptr)
      throw Error(ErrorKind::invalid_argument, "the pointer, the offset or the function is NULL");
    TorchPools& pools = TorchPools::of_this_process();
    pools.require_this_process();
    ExportedRange exported;
    const bool is_found = pools.any_of(hint, [&](const LivePool& pool, int) {
      if (!pool.by_address().has(address_of(ptr))) return false;
      exported = pool.by_address().export_chunks(address_of(ptr));
      return true;
    });
    if (!is_found) throw Error(ErrorKind::invalid_argument, "the pointer was not allocated here, or was freed already");
    *offset = exported.offset.count;
    for (ExportedChunk& chunk : exported.chunks) take(chunk.descriptor.release(), chunk.size.count, user);
  });
}

memlake_import* memlake_torch_import(const char* conf, int device, size_t count, const int* fds, const uint64_t* sizes,
                                     void** address) {
  memlake_import* made = nullptr;
  code_from([&] {
    if (count == 0 || fds == nullptr || sizes == nullptr || address == nullptr)
      throw Error(ErrorKind::invalid_argument, "there are no chunks to import, or the address is NULL");
    const std::shared_ptr<Device> on = find_device(parse_conf(conf == nullptr ? "" : conf), device);
    std::vector<ImportedMemory::Part> parts;
    for (std::size_t i = 0; i < count; ++i) parts.push_back({.fd = fds[i], .size = {sizes[i]}, .device = on});
    auto import = std::make_unique<memlake_import>();
    import->memory = std::make_unique<ImportedMemory>(parts, std::span(&on, 1), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    *address = reinterpret_cast<void*>(import->memory->range().begin.value);
    made = import.release();
  });
  return made;
}

int memlake_torch_end_import(memlake_import* import) {
  if (import == nullptr) return MEMLAKE_OK;
  const int code = code_from([&] { import->memory->close(); });
  if (code == MEMLAKE_OK) delete import;
  return code;
}
}
