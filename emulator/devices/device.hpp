#pragma once

// Emulated devices: their settings, and how much of their memory is used.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "devices/config.hpp"
#include "devices/resident_pages.hpp"
#include "driver/cuda_abi.hpp"
#include "system/storage.hpp"

namespace memlake::emulator {

/// The newest driver whose attributes are known: CUDA 13.0.
inline constexpr int kNewestDriver = 13000;

/// The UUID of the device with this number: the same in every process, as that of a real GPU.
cuda::CUuuid uuid_of(int number);

/// The UUID as NVML and CUDA_VISIBLE_DEVICES write it: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.
std::string uuid_text(int number);

/// The place on the PCI bus; `device` and `function` are 0.
struct PciPlace {
  unsigned domain;
  unsigned bus;

  bool operator==(const PciPlace&) const = default;
};
PciPlace pci_place(int number);

/// Reads "domain:bus:device.function", "domain:bus:device" or "bus:device.function"; empty if it is none of them, or no
/// emulated device can be there.
std::optional<PciPlace> parse_pci_place(const char* text);

struct Device {
  int ordinal;  ///< the program's number for it: its place in the list of visible devices
  int number;   ///< its own number: UUID and bus id come from it; CUDA_VISIBLE_DEVICES does not change it
  DeviceConfig config;
  std::vector<int> peers;               ///< ordinals of the devices whose memory it can access
  bool is_open = true;                  ///< the ordinal of a closed device is not reused
  std::uint64_t used = 0;               ///< used bytes: chunks from their creation, plain allocations, imports
  ResidentPages managed = {};           ///< the managed memory that lies here, in addition to `used`
  std::shared_ptr<HeapFile> heap = {};  ///< see heap_file()

  // The primary context.
  std::uint64_t primary_context = 0;  ///< its handle; 0 if not active
  unsigned primary_retains = 0;
  unsigned primary_flags = 0;
  unsigned live_contexts = 0;

  /// The bytes that can be allocated: managed memory makes room for every other kind of memory.
  [[nodiscard]] std::uint64_t free() const { return config.memory > used ? config.memory - used : 0; }
  /// The bytes that hold nothing now (cuMemGetInfo).
  [[nodiscard]] std::uint64_t empty() const { return free() - std::min(free(), managed.bytes()); }
  /// Counts memory as used. Managed memory that it displaces moves to the host.
  void charge(std::uint64_t bytes) {
    used += bytes;
    managed.shrink_to(free());
  }
  [[nodiscard]] bool is_strict() const { return config.profile == Profile::strict; }
  [[nodiscard]] bool is_host_backed() const { return config.backing == Backing::host; }
  [[nodiscard]] bool can_access(int peer) const;

  /// The file of its ordinary memory (backing=host). It is made with the first memory, so that a child process that was
  /// forked before cuInit and then uses the device shares nothing with its parent. Throws Refusal.
  const std::shared_ptr<HeapFile>& heap_file();

  [[nodiscard]] cuda::CUuuid uuid() const { return uuid_of(number); }
  /// Empty: a driver of this version has no such attribute.
  [[nodiscard]] std::optional<int> attribute(int id, int driver_version = kNewestDriver) const;
  /// Whether the attribute is 0 because the device is configured to lack what it is about.
  [[nodiscard]] bool is_lacking(int attribute) const;
  static int common_attribute(int id);  ///< one that all devices share. pre: it exists
};

/// What an administrator sets on a GPU (NVML). It belongs to the number of a device, not to its ordinal.
struct Board {
  enum ComputeMode : unsigned { shared = 0, prohibited = 2, exclusive_process = 3 };

  unsigned compute_mode = shared;
  bool is_persistent = false;
};

/// The host memory of the driver: host chunks and host pools together.
struct HostMemory {
  std::uint64_t used = 0;

  static std::uint64_t total();
  [[nodiscard]] std::uint64_t free() const { return total() > used ? total() - used : 0; }
};

/// The managed memory that exists, whichever memory its pages lie in. It can exceed the memory of a device, but not
/// that of all devices and the host together.
struct ManagedMemory {
  std::uint64_t used = 0;
  std::uint64_t total = 0;

  [[nodiscard]] std::uint64_t free() const { return total > used ? total - used : 0; }
};

class Devices {
 public:
  /// Makes all devices of a group, or none. Returns the ordinal of the first.
  int add(const GroupConfig& group);

  /// Makes those devices of a group that `visible` lists, in its order; the others keep their numbers.
  int add(const GroupConfig& group, std::span<const int> visible);

  /// post: find() no longer returns the device. Driver::close_device() removes its objects afterwards.
  void close(Device& device);

  /// Throws Refusal 101 for an ordinal that does not exist or is closed.
  Device& find(int ordinal);

  /// The device of an ordinal; null where find() throws.
  Device* find_open(int ordinal);

  HostMemory& host() { return host_; }
  ManagedMemory& managed() { return managed_; }

  Board& board(int number) { return boards_[number]; }

  [[nodiscard]] int count() const { return static_cast<int>(all_.size()); }

  /// The open device with this number, or null.
  [[nodiscard]] const Device* numbered(int number) const;

  /// The number that the next device gets; smaller numbers belong to devices or to hidden ones.
  [[nodiscard]] int next_number() const { return next_number_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Device>>& all() const { return all_; }

  /// The largest recommended granularity of the open devices, so that every address is aligned for all of them.
  [[nodiscard]] std::uint64_t address_alignment() const { return address_alignment_; }

  /// Whether an open device is strict. Then calls that name no device follow the strict profile.
  [[nodiscard]] bool is_strict() const;

  /// Whether all open devices have real bytes.
  [[nodiscard]] bool are_host_backed() const;

  /// The rules that all open devices relax (bit set of Switch).
  [[nodiscard]] unsigned relaxed() const;

  /// Whether at least one open device has virtual memory management.
  [[nodiscard]] bool has_virtual_memory() const;

 private:
  void update();

  std::vector<std::unique_ptr<Device>> all_;  // index = ordinal; closed ones stay
  HostMemory host_;
  std::map<int, Board> boards_;
  ManagedMemory managed_;
  int next_number_ = 0;
  std::uint64_t address_alignment_ = std::uint64_t{2} << 20;
};

}  // namespace memlake::emulator
