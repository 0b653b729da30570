#pragma once

// Physical chunks and their handles.
//
// A chunk lives as long as a handle references it, a mapping uses it, or a descriptor of it is open in any process. Its
// size counts as used memory of its device from its creation to its end, whether it is mapped or not.

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "basics/origin.hpp"
#include "basics/refusal.hpp"
#include "basics/rights.hpp"
#include "devices/context.hpp"
#include "devices/device.hpp"
#include "memory/arena.hpp"
#include "system/shareable.hpp"
#include "system/storage.hpp"

namespace memlake::emulator {

struct Chunk {
  std::uint64_t id;  ///< the same for every view of these bytes (CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
  std::uint64_t size;
  Device* device;  ///< null: host memory
  CUmemAllocationProp prop;
  Storage storage;
  View view;  ///< host memory only: a device may access it while the CPU has no access (A7.10)
  Origin made_by;
  Identity identity{};  ///< exportable chunks only
  bool is_imported = false;
  bool is_exported = false;
  unsigned handles = 0;   ///< handles with a reference
  unsigned mappings = 0;  ///< through all its handles

  [[nodiscard]] int device_or_host() const { return device == nullptr ? kHost : device->ordinal; }
  [[nodiscard]] bool is_strict() const { return device == nullptr || device->is_strict(); }
  [[nodiscard]] bool relaxes(Switch which) const { return device != nullptr && device->config.relaxes(which); }
  [[nodiscard]] bool lacks(Lack what) const { return device != nullptr && device->config.lacks(what); }
  [[nodiscard]] std::uint64_t granularity() const;
  /// Whether the bytes exist. They do not on a device without backing, even if an exportable chunk has a file.
  [[nodiscard]] bool has_bytes() const {
    return storage.has_bytes() && (device == nullptr || device->is_host_backed());
  }
};

/// A CUmemGenericAllocationHandle. It is kept while it is referenced or mapped: cuMemRetainAllocationHandle can make a
/// new reference from a mapping.
struct Handle {
  std::uint64_t value;
  Chunk* chunk;
  unsigned references;
  unsigned mappings;
};

class Chunks {
 public:
  Chunks(Devices& devices, Contexts& contexts, Arena& arena) : devices_(devices), contexts_(contexts), arena_(arena) {}

  /// Validates all arguments, then creates the chunk and counts its memory as used. Throws Refusal or Violation.
  std::uint64_t create(std::uint64_t size, const CUmemAllocationProp& prop, std::uint64_t flags, int driver_version,
                       const Origin& origin);

  /// Finds a valid handle. Throws Refusal for 0, and Violation with code 1 for a handle that was released or never
  /// existed.
  Handle& find(std::uint64_t value);

  void release(std::uint64_t value);
  void retain(Handle& handle);
  void add_mapping(Handle& handle);
  void remove_mapping(Handle& handle);

  /// Throws Refusal if the device, or all devices for null, lack virtual memory management.
  void check_virtual_memory(const Device* device) const;

  /// The 64 bytes of a fabric handle. The emulator imports none: there is no other machine.
  static std::array<unsigned char, 64> export_fabric(Handle& handle, std::uint64_t flags);
  int export_file(Handle& handle, CUmemAllocationHandleType type, std::uint64_t flags);
  std::uint64_t import_file(int fd, CUmemAllocationHandleType type, const Origin& origin);

  /// Releases the memory of unused chunks whose last exported descriptor was closed in any process.
  void reclaim();

  /// Drops every chunk of a device. pre: its mappings are already removed.
  void drop_device(const Device& device);

  [[nodiscard]] const std::unordered_map<std::uint64_t, std::unique_ptr<Chunk>>& all() const { return chunks_; }
  [[nodiscard]] const std::unordered_map<std::uint64_t, Handle>& handles() const { return handles_; }

  /// Throws the violation of section 0.4.8 if a strict device is used before its primary context was retained, and the
  /// device's sticky error if it has one.
  void check_usable(const Device& device);

 private:
  Handle& add_handle(Chunk& chunk);
  void drop_if_unused(Handle& handle);
  void retire_if_unused(Chunk& chunk);
  void retire(Chunk& chunk);
  void charge(Chunk& chunk);

  Devices& devices_;
  Contexts& contexts_;
  Arena& arena_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Chunk>> chunks_;  // by id
  std::unordered_map<std::uint64_t, Handle> handles_;                 // by value; references to values stay valid
  std::unordered_set<std::uint64_t> of_closed_devices_;               // handles whose late release is no violation
  std::unordered_set<std::uint64_t> lingering_;                       // ids of chunks kept alive only by a descriptor
  std::uint64_t next_id_ = 1;
  std::uint64_t next_handle_ = 1;
};

}  // namespace memlake::emulator
