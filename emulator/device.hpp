#pragma once

// Emulated devices: what each is like, and how much of its memory is taken.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "config.hpp"
#include "driver/cuda_abi.hpp"
#include "storage.hpp"

namespace memlake::emulator {

struct Device {
  int ordinal;
  DeviceConfig config;
  std::vector<int> peers;               ///< ordinals of the devices whose memory it can reach
  bool is_open = true;                  ///< a closed device keeps its ordinal for good
  std::uint64_t used = 0;               ///< bytes charged: chunks at their creation, plain allocations, imports
  std::shared_ptr<HeapFile> heap = {};  ///< see heap_file()

  // The primary context.
  std::uint64_t primary_context = 0;  ///< handle of the live one; 0 if not active
  unsigned primary_retains = 0;
  unsigned primary_flags = 0;
  unsigned live_contexts = 0;

  [[nodiscard]] std::uint64_t free() const { return config.memory > used ? config.memory - used : 0; }
  [[nodiscard]] bool is_strict() const { return config.profile == Profile::strict; }
  [[nodiscard]] bool is_host_backed() const { return config.backing == Backing::host; }
  [[nodiscard]] bool can_access(int peer) const;

  /// Where its ordinary memory lies (backing=host). Made with the first memory, so that a process that is forked before
  /// cuInit and then uses the device shares nothing with its parent. Throws Refusal.
  const std::shared_ptr<HeapFile>& heap_file();

  [[nodiscard]] cuda::CUuuid uuid() const;
  [[nodiscard]] std::optional<int> attribute(int id) const;  ///< empty: no such attribute
};

/// The memory of this machine that the driver was asked for: what host chunks and host pools take together.
struct HostMemory {
  std::uint64_t used = 0;

  static std::uint64_t total();
  [[nodiscard]] std::uint64_t free() const { return total() > used ? total() - used : 0; }
};

class Devices {
 public:
  /// Makes the devices of a group; returns the ordinal of the first. All or nothing.
  int add(const GroupConfig& group);

  /// post: nobody finds the device any more. Its objects go after that (driver.cpp).
  void close(Device& device);

  /// Throws Refusal 101 for an ordinal that does not exist or is closed.
  Device& find(int ordinal);

  /// Null instead of a refusal.
  Device* find_open(int ordinal);

  HostMemory& host() { return host_; }

  [[nodiscard]] int count() const { return static_cast<int>(all_.size()); }
  [[nodiscard]] const std::vector<std::unique_ptr<Device>>& all() const { return all_; }

  /// The largest recommended granularity of the open devices: addresses are aligned for every one of them.
  [[nodiscard]] std::uint64_t address_alignment() const { return address_alignment_; }

  /// Calls that name no device are strict unless every open device is not.
  [[nodiscard]] bool is_strict() const;

 private:
  void update_alignment();

  std::vector<std::unique_ptr<Device>> all_;  // index = ordinal; closed ones stay
  HostMemory host_;
  std::uint64_t address_alignment_ = std::uint64_t{2} << 20;
};

}  // namespace memlake::emulator
