#pragma once

// The description of a policy: its name, its capabilities, its options with their keys, and a function that makes a
// space from them. The folder of each policy defines a PolicyEntry; policies/registry/ lists them.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "policies/option_text.hpp"
#include "policies/space.hpp"
#include "supply/placement.hpp"

namespace memlake {

/// The capabilities of a policy's pools. Callers check these and compare no names.
struct Capabilities {
  bool several_devices = false;
  bool host_memory = false;
  bool spill = false;
  bool sharing = false;
  bool preallocation = false;
  bool reuse_rules = false;
  bool peers = false;
  bool driver_release = false;
  bool in_pytorch = false;
  bool approximate = false;
  bool virtual_memory = false;
};

struct NamedCapability {
  const char* name;
  bool Capabilities::* member;
  const char* meaning;
};

inline constexpr NamedCapability kCapabilities[] = {
    {"several_devices", &Capabilities::several_devices, "one pool over several devices, and a placement among them"},
    {"host_memory", &Capabilities::host_memory, "a pool whose memory lies on the host"},
    {"spill", &Capabilities::spill, "memory of the host for requests that the devices have no room for"},
    {"sharing", &Capabilities::sharing, "buffers that other processes may be given"},
    {"preallocation", &Capabilities::preallocation, "keeps freed memory, so memory can be taken in advance"},
    {"reuse_rules", &Capabilities::reuse_rules, "rules by which freed memory reaches other streams"},
    {"peers", &Capabilities::peers, "access for devices beside the pool's own"},
    {"driver_release", &Capabilities::driver_release, "leaves the release threshold to the driver"},
    {"in_pytorch", &Capabilities::in_pytorch, "PyTorch has it, and PYTORCH_ALLOC_CONF configures it there"},
    {"approximate", &Capabilities::approximate, "its figures on the emulator are not those of the real thing"},
    {"virtual_memory", &Capabilities::virtual_memory, "needs devices with virtual memory management"},
};

/// The arguments of a pool that concern its memory. A policy uses those for which it has the capability.
struct PoolArguments {
  Placement placement = Placement::fill;
  Location location = Location::device;
  bool may_spill = false;
  bool is_exportable = false;  ///< whether chunks can be passed to other processes, where the devices can do that
  Bytes max_size{0};           ///< maxSize of CUDA's own pool; 0: no such limit
};

/// One option, described.
struct Option {
  std::string key;            ///< in a configuration text
  const char* kind;           ///< flag, size, mib, count, number, divisions or word
  std::string value;          ///< the allowed values, in words
  std::string default_value;  ///< a value that can be written, or words if only leaving the key out means the default
  std::string help;           ///< its effect, in one line
};

/// The options of one policy, read and checked.
class PolicyOptions {
 public:
  PolicyOptions() = default;
  PolicyOptions(const PolicyOptions&) = delete;
  PolicyOptions& operator=(const PolicyOptions&) = delete;
  virtual ~PolicyOptions() = default;

  /// The settings that the caller gave, in the order of the options, each once; sizes in bytes without a unit.
  [[nodiscard]] virtual std::vector<Setting> given() const = 0;
  [[nodiscard]] virtual SpaceMaker space_maker(const PoolArguments& arguments) const = 0;
};

/// A key that has no effect, and the reason.
struct IgnoredKey {
  const char* key;
  const char* reason;
};

/// A key for which only the default value is accepted, and the reason.
struct RefusedKey {
  const char* key;
  const char* accepted;  ///< the value that has no effect; "" if there is none
  const char* reason;
};

struct PolicyEntry {
  std::string name;
  std::string summary;  ///< one line about the policy
  Capabilities capabilities;
  std::vector<Option> options;
  /// Reads settings of these options. Throws Error(config).
  std::function<std::shared_ptr<const PolicyOptions>(const std::vector<Setting>&)> read;

  /// A key that chooses this policy by its value, True or False; "" if there is none. PyTorch's policies have
  /// expandable_segments.
  std::string flag{};
  bool flag_value = false;
  /// Whether any of its keys chooses it if a text names no policy.
  bool is_meant_by_its_keys = false;
  std::vector<IgnoredKey> ignored{};
  std::vector<RefusedKey> refused{};
};

}  // namespace memlake
