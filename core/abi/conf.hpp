#pragma once

// Conf: a pool described in one line of text, "key:value,key:value": what MEMLAKE_CONF and memlake_pool_create() take.
// docs/reference/c_abi.md describes the keys; those of PyTorch have PyTorch's names, units and bounds.

#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "policies/lake/lake_options.hpp"
#include "policies/stitch/stitch_options.hpp"
#include "policies/torch/torch_options.hpp"

namespace memlake::abi {

/// Bytes, or a share of the device.
struct Limit {
  std::optional<Bytes> bytes = {};
  double share = 1;
  [[nodiscard]] Bytes of(Bytes device_total) const;
};

struct Conf {
  enum class PolicyName { lake, caching, expandable, stitch, direct, driver };

  PolicyName policy = PolicyName::lake;
  LakeOptions lake;
  StitchOptions stitch;
  TorchOptions torch;
  double memory_fraction = 1;  ///< PyTorch's; 1: no limit
  std::optional<Limit> limit;

  std::string driver = "cuda";  ///< cuda, emulated, or a file
  // Only for the emulator; as it takes them.
  std::string devices = "1";
  std::string memory = "8GiB";
  std::string backing = "host";

  [[nodiscard]] bool is_emulated() const { return driver == "emulated"; }
  /// What a pool may hold on a device of this size; the largest number for no limit.
  [[nodiscard]] Bytes limit_on(Bytes device_total) const;
};

/// Throws Error(config) with a sentence that names the bad key or value, and what is possible.
Conf parse_conf(std::string_view text);

}  // namespace memlake::abi
