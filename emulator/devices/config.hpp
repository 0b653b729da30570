#pragma once

// The configuration of one group of emulated devices: the keys of MEMLAKE_EMULATOR and memlakeEmulatorAddDevices().

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memlake::emulator {

/// Every address is aligned for every device, so no device may have a larger granularity.
inline constexpr std::uint64_t kLargestGranularity = std::uint64_t{1} << 30;

/// The doubtful rules of the driver (docs/reference/emulator.md). The strict profile refuses such calls; a device may
/// relax each rule alone.
enum class Switch : unsigned {
  map_across_reservations,
  unmap_across_reservations,
  set_access_subrange,
  address_free_while_mapped,
  map_offset_nonzero,
  inflight_unmap,
  alloc_async_zero,
};

/// What a device does not have, as some real ones (docs/guides/on_real_hardware.md). Each can be taken away alone.
enum class Lack : unsigned {
  vmm,              ///< virtual memory management: such calls are not supported
  rdma,             ///< GPUDirect RDMA: the flag at cuMemCreate is not supported
  rdma_grant,       ///< the flag is accepted, but reads back as 0
  rdma_access,      ///< cuMemSetAccess fails with 999 on memory that has the flag, as seen on WSL2
  export_handles,   ///< file descriptors of memory
  spanning_copies,  ///< one copy or fill over memory of several devices, or of a device and the host
  shared_bytes,     ///< a second mapping of a handle shows other bytes than the first
};

enum class Profile { strict, nvidia };
enum class Backing { host, none };
enum class StreamMode { threads, manual };
/// What happens to a launch of a kernel: the emulator has no processor that could run it.
enum class Kernels { refuse, skip };
/// Fabric handles: not at all, accepted at cuMemCreate but refused at the export, or both.
enum class Fabric { none, create, works };
/// How a chunk may be mapped while another mapping of it exists: not at all, whole, or also in part.
enum class Aliasing { none, whole, prefix };

[[nodiscard]] constexpr const char* word_of(Aliasing level) {
  return level == Aliasing::none ? "none" : level == Aliasing::whole ? "whole" : "prefix";
}

/// The settings of a single device.
struct DeviceConfig {
  std::uint64_t memory = std::uint64_t{8} << 30;
  std::uint64_t granularity = std::uint64_t{2} << 20;
  std::uint64_t recommended = 0;  ///< 0: the same as granularity
  Profile profile = Profile::strict;
  Backing backing = Backing::host;
  StreamMode streams = StreamMode::threads;
  Aliasing aliasing = Aliasing::prefix;
  std::uint64_t pool_segment = std::uint64_t{32} << 20;  ///< a pool makes smaller segments only if memory is short
  bool poison = false;
  Kernels kernels = Kernels::refuse;
  std::string name = "memlake emulated GPU";
  unsigned relaxed = 0;  ///< bit set of Switch
  unsigned lacking = 0;  ///< bit set of Lack
  Fabric fabric = Fabric::none;

  [[nodiscard]] bool relaxes(Switch which) const { return (relaxed >> static_cast<unsigned>(which) & 1U) != 0; }
  [[nodiscard]] bool lacks(Lack what) const { return (lacking >> static_cast<unsigned>(what) & 1U) != 0; }
};

struct GroupConfig {
  /// The settings in which the devices of a group may differ.
  struct Sizes {
    std::uint64_t memory;
    std::uint64_t granularity;
    std::uint64_t recommended;
  };

  int devices = 1;
  DeviceConfig device;                   ///< of all devices; the sizes are those of the first one
  std::vector<Sizes> sizes;              ///< of each device
  std::vector<std::vector<bool>> peers;  ///< peers[i][j]: device i of the group can access the memory of device j
  std::optional<int> driver_version;
  bool explains = false;  ///< each refused call writes its sentence to stderr
  bool report_at_exit = false;
  std::string ledger_file;

  /// The settings of one device, by its place in the group.
  [[nodiscard]] DeviceConfig device_at(std::size_t place) const {
    DeviceConfig one = device;
    one.memory = sizes[place].memory;
    one.granularity = sizes[place].granularity;
    one.recommended = sizes[place].recommended;
    return one;
  }
};

/// Parses "key=value,key=value". Throws Refusal with a sentence that names the bad key or value and the valid ones.
GroupConfig parse_config(std::string_view config);

}  // namespace memlake::emulator
