#pragma once

// Conf: the description of a pool in one line of text, "NAME,key:value,key:value", as MEMLAKE_CONF and
// memlake_pool_create() take it. See docs/reference/c_abi.md for the keys of pools and docs/reference/policies.md for
// those of policies.

#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "policies/registry/registry.hpp"
#include "supply/limits.hpp"

namespace memlake::abi {

/// Bytes, or a share of the device.
struct Limit {
  std::optional<Bytes> bytes = {};
  double share = 1;
  [[nodiscard]] Bytes of(Bytes device_total) const;
};

struct Conf {
  ChosenPolicy policy;
  bool has_chosen_policy = false;  ///< false: the text leaves the policy to us
  PoolArguments arguments;
  std::optional<Limit> limit;

  std::string driver = "cuda";  ///< cuda, emulated, or a file
  // Only for the emulator, in its own format.
  std::string devices = "1";
  std::string memory = "8GiB";
  std::string backing = "host";

  [[nodiscard]] bool is_emulated() const { return driver == "emulated"; }
  /// The limits of a pool on a device of this size.
  [[nodiscard]] Limits limits_on(Bytes device_total) const;
};

/// Throws Error(config) with a sentence that names the bad key or value and the possible ones.
Conf parse_conf(std::string_view text);

}  // namespace memlake::abi
