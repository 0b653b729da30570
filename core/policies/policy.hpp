#pragma once

// What a policy says about itself: its name, what it can do, its options with the keys of their text, and how a space
// is made of them. The folder of each policy defines one PolicyEntry; policies/registry/ lists them.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "policies/option_text.hpp"
#include "policies/space.hpp"
#include "supply/placement.hpp"

namespace memlake {

/// What pools of a policy can do. A caller asks this, and compares no names.
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
};

/// What a pool says about its memory, whatever its policy. A policy uses what its capabilities name.
struct PoolArguments {
  Placement placement = Placement::fill;
  Location location = Location::device;
  bool may_spill = false;
  Bytes max_size{0};  ///< what CUDA's own pool may hold, its maxSize; 0: no such cap
};

/// One option, described.
struct Option {
  std::string key;            ///< in a text
  const char* kind;           ///< flag, size, mib, count, number or divisions
  std::string value;          ///< what it may be, in words
  std::string default_value;  ///< a value that can be written, or words where leaving it out is the only way to say it
  std::string help;           ///< what it does, in one line
};

/// The options of one policy, read and checked.
class PolicyOptions {
 public:
  PolicyOptions() = default;
  PolicyOptions(const PolicyOptions&) = delete;
  PolicyOptions& operator=(const PolicyOptions&) = delete;
  virtual ~PolicyOptions() = default;

  /// The settings that were given, in the order of the options, each once; sizes as plain numbers.
  [[nodiscard]] virtual std::vector<Setting> given() const = 0;
  [[nodiscard]] virtual SpaceMaker space_maker(const PoolArguments& arguments) const = 0;
};

/// A key that is read without any effect, and why.
struct IgnoredKey {
  const char* key;
  const char* reason;
};

/// A key that only its default may be given for, and why.
struct RefusedKey {
  const char* key;
  const char* accepted;  ///< the value that has no effect; "" if there is none
  const char* reason;
};

struct PolicyEntry {
  std::string name;
  std::string summary;  ///< what it is, in one line
  Capabilities capabilities;
  std::vector<Option> options;
  /// Reads settings of these options. Throws Error(config).
  std::function<std::shared_ptr<const PolicyOptions>(const std::vector<Setting>&)> read;

  /// A key that chooses this policy by its value, True or False; "" if there is none. PyTorch's has
  /// expandable_segments.
  std::string flag{};
  bool flag_value = false;
  /// Whether one of its keys chooses it where a text names no policy.
  bool is_meant_by_its_keys = false;
  std::vector<IgnoredKey> ignored{};
  std::vector<RefusedKey> refused{};
};

}  // namespace memlake
