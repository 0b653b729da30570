// Pools shared between processes: section B7 of the contract. An exportable pool has one file with all its memory, so
// another process needs only its descriptor. An exported pointer has the offset of an allocation in that file.

#include <algorithm>
#include <array>
#include <cstring>

#include "pools/pools.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::emulator {

namespace {

/// What the 64 bytes of CUmemPoolPtrExportData hold.
struct ExportedPointer {
  std::array<char, 8> magic;
  Identity pool;
  std::uint64_t offset;
  std::uint64_t size;
};
constexpr std::array<char, 8> kMagic{'m', 'e', 'm', 'l', 'p', 't', 'r', '\0'};
static_assert(sizeof(ExportedPointer) <= sizeof(CUmemPoolPtrExportData));

void check_handle_type(CUmemAllocationHandleType type, std::uint64_t flags) {
  if (flags != 0) invalid("flags must be 0");
  if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return;
  if (type == CU_MEM_HANDLE_TYPE_WIN32 || type == CU_MEM_HANDLE_TYPE_WIN32_KMT || type == CU_MEM_HANDLE_TYPE_FABRIC)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "handle type ", +type, " is not supported here");
  invalid("handle type ", +type, " is unknown");
}

}  // namespace

void ImportedFile::use(std::uint64_t offset, std::uint64_t size) {
  if (uses_[offset]++ == 0) note_use(fd(), offset, size, true);
}

void ImportedFile::leave(std::uint64_t offset, std::uint64_t size) {
  const auto found = uses_.find(offset);
  if (--found->second > 0) return;
  uses_.erase(found);
  note_use(fd(), offset, size, false);
}

int Pools::export_pool(Pool& pool, CUmemAllocationHandleType type, std::uint64_t flags) {
  if (flags != 0) invalid("flags must be 0");
  if (pool.is_imported()) invalid("an imported pool is exported by the process that made it");
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || (pool.props.handleTypes & type) == 0)
    invalid("this pool was not made for export as handle type ", +type, " (handleTypes is ", +pool.props.handleTypes,
            pool.is_default ? "; a default pool never is)" : " and cannot be changed)");
  const int fd = open_shared(pool.file->fd());
  pool.is_exported = true;
  return fd;
}

bool Pools::is_known(const Identity& identity) const {
  return std::ranges::any_of(pools_, [&](const auto& entry) {
    return entry.second->memory != nullptr && entry.second->file != nullptr && entry.second->identity == identity;
  });
}

Pool& Pools::import_pool(int fd, CUmemAllocationHandleType type, std::uint64_t flags, const Origin& origin) {
  check_handle_type(type, flags);
  const auto header = read_shareable_header(fd, Shared::pool);
  if (!header) invalid("file descriptor ", fd, " is not an exported pool");
  Device* device = header->device == kHost ? nullptr : devices_.find_open(header->device);
  if (header->device != kHost && device == nullptr)
    invalid("the pool was exported from device ", header->device, ", which this process does not have");
  auto file = std::make_shared<ImportedFile>(open_shared(fd));
  CUmemPoolProps props{};
  props.allocType = header->prop.type;
  props.handleTypes = header->prop.requestedHandleTypes;
  props.location = header->prop.location;
  Pool& pool = add(props, device, origin);
  pool.identity = header->identity;
  pool.imported = std::move(file);
  return pool;
}

CUmemPoolPtrExportData Pools::export_pointer(std::uint64_t address) {
  const PoolAllocation* allocation = allocations_.find_start(address);
  if (allocation == nullptr) invalid("no allocation of a pool starts at ", Hex{address});
  const Pool& pool = *allocation->pool;
  if (pool.is_imported()) invalid("imported memory is exported by the process that allocated it");
  if (pool.props.handleTypes == CU_MEM_HANDLE_TYPE_NONE)
    invalid("the memory at ", Hex{address}, " is from a pool that was not made for export (handleTypes is 0)");
  const ExportedPointer exported{kMagic, pool.identity, pool.memory->offset_in_file(address), allocation->size};
  CUmemPoolPtrExportData data{};
  std::memcpy(&data, &exported, sizeof exported);
  return data;
}

std::uint64_t Pools::import_pointer(Pool& pool, const CUmemPoolPtrExportData& data, const Origin& origin) {
  if (!pool.is_imported()) invalid("pointers are imported into a pool that was imported");
  ExportedPointer exported{};
  std::memcpy(&exported, &data, sizeof exported);
  if (exported.magic != kMagic) invalid("the export data is not an exported pointer");
  if (exported.pool != pool.identity) invalid("the pointer was exported from another pool than this one");
  const std::uint64_t total = pool.device != nullptr ? pool.device->config.memory : HostMemory::total();
  const auto header = read_shareable_header(pool.imported->fd(), Shared::pool);
  if (!header || exported.size == 0 || exported.size > total || exported.offset > header->size - exported.size)
    invalid("the export data is damaged: ", exported.size, " bytes at offset ", exported.offset);

  const std::uint64_t page = host_page();
  const std::uint64_t skipped = exported.offset % page;
  const std::uint64_t length = (skipped + exported.size + page - 1) / page * page;
  const auto block = arena_.addresses().take(length, kPoolGranule);
  if (!block) refuse(CUDA_ERROR_OUT_OF_MEMORY, "there is no free address range of ", length, " bytes");
  bool is_shown = false;
  try {
    if (pool.has_bytes) {
      arena_.check_room_to_show(*block, length);
      arena_.show(*block, length, pool.imported->fd(), exported.offset - skipped);
      is_shown = true;
      Arena::protect(*block, length, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
  } catch (...) {
    if (is_shown) arena_.hide(*block, length, 1);
    arena_.addresses().give_back(*block, length);
    throw;
  }
  pool.imported->use(exported.offset, exported.size);
  // The GPU is one: what the exporter took is missing here, too, unless this process is the exporter.
  const std::uint64_t charged = pool.device == nullptr || is_known(pool.identity) ? 0 : length;
  if (pool.device != nullptr) pool.device->charge(charged);
  pool.imported_bytes += length;
  pool.imported_high = std::max(pool.imported_high, pool.imported_bytes);
  ++pool.live;
  PoolAllocation made{.address = *block + skipped,
                      .size = exported.size,
                      .pool = &pool,
                      .block = *block,
                      .block_size = length,
                      .stream = 0,
                      .position = 0,
                      .context = 0,
                      .made = nullptr,
                      .made_by = origin,
                      .file_offset = exported.offset,
                      .charged = charged};
  return allocations_.add(std::move(made)).address;
}

}  // namespace memlake::emulator
