#pragma once

// The window of addresses that all device pointers come from, and the CPU's mappings in it.
//
// The window is a single inaccessible mapping, so a device address never collides with a host address. On host-backed
// devices the kernel maps the bytes of a chunk at its device address. Linux enforces none of the driver's rules here:
// the callers have checked them (mapping.cpp, plain_memory.cpp).

#include <cstddef>
#include <cstdint>
#include <map>

#include "system/address_space.hpp"

namespace memlake::emulator {

class Arena;

/// A mapping of memory for the emulator itself, independent of the program's mappings and access rights. Move-only.
class View {
 public:
  View() = default;
  ~View();
  View(View&& other) noexcept;
  View& operator=(View&& other) noexcept;

  [[nodiscard]] std::uint64_t address() const { return address_; }

 private:
  friend class Arena;
  View(Arena& arena, std::uint64_t address, std::uint64_t size) : arena_(&arena), address_(address), size_(size) {}

  Arena* arena_ = nullptr;
  std::uint64_t address_ = 0;
  std::uint64_t size_ = 0;
};

class Arena {
 public:
  Arena();

  AddressSpace& addresses() { return addresses_; }
  [[nodiscard]] bool contains(std::uint64_t address) const { return addresses_.contains(address); }

  /// Throws Refusal OUT_OF_MEMORY if one more mapping could bring the process near the kernel's limit.
  void check_room_to_show(std::uint64_t address, std::uint64_t size) const;

  /// Maps [offset, offset + size) of a file at an address, without access. Throws Refusal if the kernel refuses.
  void show(std::uint64_t address, std::uint64_t size, int fd, std::uint64_t offset);

  /// Sets the CPU's access: CUmemAccess_flags 0, 1 or 3.
  static void protect(std::uint64_t address, std::uint64_t size, unsigned access);

  /// Counts one more kernel mapping, because a mapped piece gets two parts with different access. Throws as
  /// check_room_to_show().
  void cut();

  /// Makes a range inaccessible again. `pieces` is the number of mapped pieces in it.
  void hide(std::uint64_t address, std::uint64_t size, std::size_t pieces);

  /// Maps the first `size` bytes of a file outside the window. Throws Refusal.
  View view(std::uint64_t size, int fd);

 private:
  friend class View;

  /// An upper bound of the kernel mappings of the arena: one per mapped piece, one per gap between runs, and the views.
  [[nodiscard]] std::size_t kernel_mappings() const { return shown_ + runs_.size() + 1 + views_; }
  void check_room(std::size_t needed) const;

  AddressSpace addresses_;
  std::size_t shown_ = 0;
  std::size_t views_ = 0;
  std::map<std::uint64_t, std::uint64_t> runs_;  // start -> end of each contiguous run of mapped ranges
};

}  // namespace memlake::emulator
