#pragma once

// Physical chunks and the handles that name them.
//
// A chunk lives as long as a handle references it, a mapping shows it, or a descriptor of it is open somewhere. Its
// device is charged from its creation to its end, whatever is mapped.

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "arena.hpp"
#include "context.hpp"
#include "device.hpp"
#include "origin.hpp"
#include "refusal.hpp"
#include "rights.hpp"
#include "shareable.hpp"
#include "storage.hpp"

namespace memlake::emulator {

struct Chunk {
  std::uint64_t id;  ///< the same for every view of these bytes (CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
  std::uint64_t size;
  Device* device;  ///< null: host memory
  CUmemAllocationProp prop;
  Storage storage;
  View view;  ///< of host memory, which devices can reach while the program's own code cannot (A7.10)
  Origin made_by;
  Identity identity{};  ///< of an exportable chunk
  bool is_imported = false;
  bool is_exported = false;
  unsigned handles = 0;   ///< handles with a reference
  unsigned mappings = 0;  ///< through any handle

  [[nodiscard]] int device_or_host() const { return device == nullptr ? kHost : device->ordinal; }
  [[nodiscard]] bool is_strict() const { return device == nullptr || device->is_strict(); }
  [[nodiscard]] bool relaxes(Switch which) const { return device != nullptr && device->config.relaxes(which); }
  [[nodiscard]] std::uint64_t granularity() const;
  /// Are its bytes real? Not on a device without backing, even where a file stands for it to be exported.
  [[nodiscard]] bool has_bytes() const {
    return storage.has_bytes() && (device == nullptr || device->is_host_backed());
  }
};

/// What the program holds. Kept while it is referenced or mapped, because a mapping can give the reference back.
struct Handle {
  std::uint64_t value;
  Chunk* chunk;
  unsigned references;
  unsigned mappings;
};

class Chunks {
 public:
  Chunks(Devices& devices, Contexts& contexts, Arena& arena) : devices_(devices), contexts_(contexts), arena_(arena) {}

  /// Validates everything, then creates and charges. Throws Refusal or Violation.
  std::uint64_t create(std::uint64_t size, const CUmemAllocationProp& prop, std::uint64_t flags, const Origin& origin);

  /// A handle that may be used. Throws: 0 is refused; one that was released or never existed is a violation,
  /// answered 1.
  Handle& find(std::uint64_t value);

  void release(std::uint64_t value);
  void retain(Handle& handle);
  void add_mapping(Handle& handle);
  void remove_mapping(Handle& handle);

  int export_file(Handle& handle, CUmemAllocationHandleType type, std::uint64_t flags);
  std::uint64_t import_file(int fd, CUmemAllocationHandleType type, const Origin& origin);

  /// Returns the memory of chunks whose last exported descriptor was closed, by whomever.
  void reclaim();

  /// Forgets every chunk of a device; its mappings are gone already.
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
  std::unordered_set<std::uint64_t> of_closed_devices_;               // handles that may be released late without blame
  std::unordered_set<std::uint64_t> lingering_;                       // ids of chunks that only a descriptor keeps
  std::uint64_t next_id_ = 1;
  std::uint64_t next_handle_ = 1;
};

}  // namespace memlake::emulator
