#include <nanobind/stl/string.h>

#include "policies.hpp"

namespace memlake::bindings {

namespace nb = nanobind;

Placement to_placement(const std::string& name) {
  if (name == "fill") return Placement::fill;
  if (name == "balance") return Placement::balance;
  if (name == "near") return Placement::near;
  throw nb::value_error("placement must be 'fill', 'balance' or 'near'");
}

Location to_location(const std::string& name) {
  if (name == "device") return Location::device;
  if (name == "host") return Location::host;
  if (name == "host_numa") return Location::host_numa;
  throw nb::value_error("location must be 'device', 'host' or 'host_numa'");
}

nb::dict counters_dict(const std::vector<Counter>& counters) {
  nb::dict result;
  for (const auto& [name, value] : counters)
    std::visit([&result, key = name](auto number) { result[key] = number; }, value);
  return result;
}

namespace {

nb::dict to_dict(const PolicyEntry& entry) {
  nb::dict capabilities;
  for (const NamedCapability& capability : kCapabilities)
    capabilities[capability.name] = entry.capabilities.*capability.member;
  nb::list options;
  for (const Option& option : entry.options) {
    nb::dict described;
    described["key"] = option.key;
    described["kind"] = option.kind;
    described["value"] = option.value;
    described["default"] = option.default_value;
    described["help"] = option.help;
    options.append(described);
  }
  nb::dict ignored;
  for (const IgnoredKey& key : entry.ignored) ignored[key.key] = key.reason;
  nb::dict refused;
  for (const RefusedKey& key : entry.refused) refused[key.key] = key.reason;
  nb::dict result;
  result["name"] = entry.name;
  result["summary"] = entry.summary;
  result["capabilities"] = capabilities;
  result["options"] = options;
  result["ignored"] = ignored;
  result["refused"] = refused;
  return result;
}

}  // namespace

void bind_policies(nb::module_& m) {
  m.def(
      "policies",
      [] {
        nb::list all;
        for (const PolicyEntry* entry : policies()) all.append(to_dict(*entry));
        return all;
      },
      nb::sig("def policies() -> list[dict[str, typing.Any]]"),
      "All policies in the order of tables, the default first: name, summary, capabilities, options (key, kind, "
      "value,\n"
      "default, help), and the keys that are ignored or refused, each with its reason.");
  m.def(
      "capabilities",
      [] {
        nb::dict meanings;
        for (const NamedCapability& capability : kCapabilities) meanings[capability.name] = capability.meaning;
        return meanings;
      },
      nb::sig("def capabilities() -> dict[str, str]"), "What each capability means, by its name.");
  m.def(
      "parse_policy",
      [](const std::string& text) {
        const ChosenPolicy chosen = choose_policy(text);
        nb::dict settings;
        for (const Setting& setting : chosen.options->given()) settings[setting.key.c_str()] = setting.value;
        return nb::make_tuple(chosen.entry->name, settings);
      },
      nb::arg("text"), nb::sig("def parse_policy(text: str) -> tuple[str, dict[str, str]]"),
      "The name of the policy that a text means, and the options that it sets: their values as text, by key; sizes as\n"
      "plain numbers. ConfigError for a text that makes no sense.");
}

}  // namespace memlake::bindings
