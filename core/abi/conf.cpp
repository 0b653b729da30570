#include "abi/conf.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "policies/torch/torch_policy.hpp"

namespace memlake::abi {
namespace {

void read_limit(Conf& conf, const Setting& setting) {
  Limit limit;
  if (!parse_percentage(setting, limit.share)) limit.bytes = parse_size(setting);
  conf.limit = limit;
}

void read_driver(Conf& conf, const Setting& setting) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  const bool is_path = setting.value.find('/') != std::string::npos && std::ranges::none_of(setting.value, is_control);
  if (setting.value != "cuda" && setting.value != "emulated" && !is_path)
    refuse(setting, "cuda, emulated, or the path of a driver's library");
  conf.driver = setting.value;
}

void read_devices(Conf& conf, const Setting& setting) {
  if (setting.value.size() > 4 || setting.value.find_first_not_of("0123456789") != std::string::npos ||
      setting.value.front() == '0')
    refuse(setting, "a number of devices, at least 1");
  conf.devices = setting.value;
}

void read_memory(Conf& conf, const Setting& setting) { conf.memory = std::to_string(parse_size(setting).count); }

void read_backing(Conf& conf, const Setting& setting) {
  if (setting.value != "host" && setting.value != "none") refuse(setting, "host or none");
  conf.backing = setting.value;
}

void read_spill(Conf& conf, const Setting& setting) {
  if (setting.value != "host") refuse(setting, "host; leave it out to spill nothing");
  conf.arguments.may_spill = true;
}

// In the order of kPoolKeys.
using Reader = void (*)(Conf&, const Setting&);
constexpr std::array<Reader, kPoolKeys.size()> kReaders{read_limit,  read_driver,  read_devices,
                                                        read_memory, read_backing, read_spill};

}  // namespace

Bytes Limit::of(Bytes device_total) const {
  return bytes ? *bytes : Bytes{static_cast<std::uint64_t>(share * static_cast<double>(device_total.count))};
}

Limits Conf::limits_on(Bytes device_total) const {
  Limits limits;
  if (limit) limits.limit = limit->of(device_total);
  const TorchOptions* torch = torch_options(*policy.options);
  if (torch != nullptr && torch->memory_fraction < 1)
    limits.memory_fraction = {
        static_cast<std::uint64_t>(torch->memory_fraction * static_cast<double>(device_total.count))};
  return limits;
}

Conf parse_conf(std::string_view text) {
  Conf conf{};
  std::vector<Setting> rest;
  std::string only_emulated;  // a key that needs driver:emulated
  for (Setting& setting : read_settings(text)) {
    const auto found = std::ranges::find(kPoolKeys, setting.key);
    if (found == kPoolKeys.end()) {
      rest.push_back(std::move(setting));
      continue;
    }
    const Reader reader = kReaders[static_cast<std::size_t>(found - kPoolKeys.begin())];
    reader(conf, setting);
    if (reader == read_devices || reader == read_memory || reader == read_backing) only_emulated = setting.key;
  }
  conf.policy = choose_policy(rest, true);
  conf.has_chosen_policy = !rest.empty();
  const PolicyEntry& policy = *conf.policy.entry;
  if (conf.arguments.may_spill && !policy.capabilities.spill)
    throw Error(ErrorKind::config, "spill is an option of " + policies_with(&Capabilities::spill) +
                                       ", not of policy:" + policy.name + "; leave it out, or name that policy");
  if (!conf.is_emulated() && !only_emulated.empty())
    throw Error(ErrorKind::config, only_emulated + " is about the emulator; add driver:emulated, or leave it out");
  return conf;
}

}  // namespace memlake::abi
