#pragma once

// The one window of addresses that device pointers come from, and what the CPU sees at them.
//
// The window is a single inaccessible mapping, so a device address never collides with a host address. On host-backed
// devices a mapped chunk is really mapped there. Linux enforces none of the driver's rules here: the callers have
// checked them (mapping.cpp, plain_memory.cpp).

#include <cstddef>
#include <cstdint>
#include <map>

#include "address_space.hpp"

namespace memlake::emulator {

class Arena;

/// The emulator's own sight of some bytes, wherever the program sees them and whatever it may do there. Move-only.
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

  /// Refuses (OUT_OF_MEMORY) if one more mapping could bring the process near the kernel's limit.
  void check_room_to_show(std::uint64_t address, std::uint64_t size) const;

  /// Shows [offset, offset + size) of a file at an address, inaccessible. Throws Refusal if the kernel refuses.
  void show(std::uint64_t address, std::uint64_t size, int fd, std::uint64_t offset);

  /// Sets what the CPU may do there: CUmemAccess_flags 0, 1 or 3.
  static void protect(std::uint64_t address, std::uint64_t size, unsigned access);

  /// Notes that a shown piece becomes two with different access. Refuses as check_room_to_show().
  void cut();

  /// Back to inaccessible addresses, however many shown pieces lie there.
  void hide(std::uint64_t address, std::uint64_t size, std::size_t pieces);

  /// Makes the first `size` bytes of a file visible outside the window. Throws Refusal.
  View view(std::uint64_t size, int fd);

 private:
  friend class View;

  /// How many of the kernel's mappings we cause at most: one per shown piece, one per gap between runs of them, views.
  [[nodiscard]] std::size_t kernel_mappings() const { return shown_ + runs_.size() + 1 + views_; }
  void check_room(std::size_t needed) const;

  AddressSpace addresses_;
  std::size_t shown_ = 0;
  std::size_t views_ = 0;
  std::map<std::uint64_t, std::uint64_t> runs_;  // start -> end of each unbroken run of shown ranges
};

}  // namespace memlake::emulator
