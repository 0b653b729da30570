#pragma once

// Emulated devices: their settings, and how much of their memory is used.

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
  std::vector<int> peers;               ///< ordinals of the devices whose memory it can access
  bool is_open = true;                  ///< the ordinal of a closed device is not reused
  std::uint64_t used = 0;               ///< used bytes: chunks from their creation, plain allocations, imports
  std::shared_ptr<HeapFile> heap = {};  ///< see heap_file()

  // The primary context.
  std::uint64_t primary_context = 0;  ///< its handle; 0 if not active
  unsigned primary_retains = 0;
  unsigned primary_flags = 0;
  unsigned live_contexts = 0;

  [[nodiscard]] std::uint64_t free() const { return config.memory > used ? config.memory - used : 0; }
  [[nodiscard]] bool is_strict() const { return config.profile == Profile::strict; }
  [[nodiscard]] bool is_host_backed() const { return config.backing == Backing::host; }
  [[nodiscard]] bool can_access(int peer) const;

  /// The file of its ordinary memory (backing=host). It is made with the first memory, so that a child process that was
  /// forked before cuInit and then uses the device shares nothing with its parent. Throws Refusal.
  const std::shared_ptr<HeapFile>& heap_file();

  [[nodiscard]] cuda::CUuuid uuid() const;
  [[nodiscard]] std::optional<int> attribute(int id) const;  ///< empty: no such attribute
};

/// The host memory of the driver: host chunks and host pools together.
struct HostMemory {
  std::uint64_t used = 0;

  static std::uint64_t total();
  [[nodiscard]] std::uint64_t free() const { return total() > used ? total() - used : 0; }
};

class Devices {
 public:
  /// Makes all devices of a group, or none. Returns the ordinal of the first.
  int add(const GroupConfig& group);

  /// post: find() no longer returns the device. Driver::close_device() removes its objects afterwards.
  void close(Device& device);

  /// Throws Refusal 101 for an ordinal that does not exist or is closed.
  Device& find(int ordinal);

  /// The same, but null where find() throws.
  Device* find_open(int ordinal);

  HostMemory& host() { return host_; }

  [[nodiscard]] int count() const { return static_cast<int>(all_.size()); }
  [[nodiscard]] const std::vector<std::unique_ptr<Device>>& all() const { return all_; }

  /// The largest recommended granularity of the open devices, so that every address is aligned for all of them.
  [[nodiscard]] std::uint64_t address_alignment() const { return address_alignment_; }

  /// Whether an open device is strict. Then calls that name no device follow the strict profile.
  [[nodiscard]] bool is_strict() const;

 private:
  void update_alignment();

  std::vector<std::unique_ptr<Device>> all_;  // index = ordinal; closed ones stay
  HostMemory host_;
  std::uint64_t address_alignment_ = std::uint64_t{2} << 20;
};

}  // namespace memlake::emulator
