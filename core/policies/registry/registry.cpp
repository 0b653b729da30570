#include "policies/registry/registry.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "vmm/feature_probe.hpp"

namespace memlake {

#define POLICY(name) const PolicyEntry& name##_policy();
#include "policies/registry/policies.inc"
#undef POLICY

const std::vector<const PolicyEntry*>& policies() {
  static const auto& all = *new std::vector<const PolicyEntry*>{
#define POLICY(name) &name##_policy(),
#include "policies/registry/policies.inc"
#undef POLICY
  };
  return all;
}

namespace {

bool has_option(const PolicyEntry& entry, std::string_view key) {
  return std::ranges::find(entry.options, key, &Option::key) != entry.options.end();
}

const IgnoredKey* ignored_key(const PolicyEntry& entry, std::string_view key) {
  const auto found = std::ranges::find(entry.ignored, key, [](const IgnoredKey& known) { return known.key; });
  return found == entry.ignored.end() ? nullptr : &*found;
}

const RefusedKey* refused_key(const PolicyEntry& entry, std::string_view key) {
  const auto found = std::ranges::find(entry.refused, key, [](const RefusedKey& known) { return known.key; });
  return found == entry.refused.end() ? nullptr : &*found;
}

bool knows(const PolicyEntry& entry, std::string_view key) {
  return has_option(entry, key) || ignored_key(entry, key) != nullptr || refused_key(entry, key) != nullptr;
}

std::string names_of(const std::vector<const PolicyEntry*>& some, std::string_view last_word) {
  std::vector<std::string> names;
  for (const PolicyEntry* entry : some) names.push_back("policy:" + entry->name);
  return listed(names, last_word);
}

std::string hint(std::string_view word, const std::vector<std::string_view>& known) {
  const std::string_view meant = nearest(word, known);
  return meant.empty() ? "" : "did you mean " + std::string(meant) + "? ";
}

const PolicyEntry& policy_named(std::string_view name) {
  const auto found = std::ranges::find(policies(), name, [](const PolicyEntry* entry) { return entry->name; });
  if (found != policies().end()) return **found;
  std::string lower(name.substr(0, 100));
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  std::vector<std::string_view> known;
  std::string all;
  for (const PolicyEntry* entry : policies()) {
    known.push_back(entry->name);
    all += entry->name + ", ";
  }
  throw Error(ErrorKind::config, "no policy is named " + shown(name) + "; hint: " + hint(lower, known) +
                                     "known: " + all + "or keys of PyTorch such as \"max_split_size_mb:128\"");
}

/// The policy that a flag chooses; null if the setting is no flag.
const PolicyEntry* flagged_policy(const Setting& setting) {
  const auto has_flag = [&](const PolicyEntry* entry) { return !entry->flag.empty() && entry->flag == setting.key; };
  if (std::ranges::none_of(policies(), has_flag)) return nullptr;
  const bool value = parse_boolean(setting);
  const auto found = std::ranges::find_if(
      policies(), [&](const PolicyEntry* entry) { return has_flag(entry) && entry->flag_value == value; });
  if (found == policies().end()) refuse(setting, value ? "False" : "True");
  return *found;
}

[[noreturn]] void refuse_unknown_key(std::string_view key, bool of_pool) {
  std::vector<std::string_view> effective{"policy"};
  std::set<std::string_view> seen{"policy"};
  const auto add = [&](std::string_view known) {
    if (seen.insert(known).second) effective.push_back(known);
  };
  if (of_pool) std::ranges::for_each(kPoolKeys, add);
  for (const PolicyEntry* entry : policies()) {
    if (!entry->flag.empty()) add(entry->flag);
    for (const Option& option : entry->options) add(option.key);
  }
  std::string all;
  for (const std::string_view known : effective) all += (all.empty() ? "" : ", ") + std::string(known);
  for (const PolicyEntry* entry : policies()) {
    for (const IgnoredKey& known : entry->ignored) effective.emplace_back(known.key);
    for (const RefusedKey& known : entry->refused) effective.emplace_back(known.key);
  }
  throw Error(ErrorKind::config,
              "unknown key " + shown(key) + " in a configuration; hint: " + hint(key, effective) + "known: " + all);
}

/// Why a policy does not take a key.
[[noreturn]] void refuse_foreign_key(const Setting& setting, const PolicyEntry& chosen, bool of_pool) {
  std::vector<const PolicyEntry*> owners;
  std::ranges::copy_if(policies(), std::back_inserter(owners),
                       [&](const PolicyEntry* entry) { return knows(*entry, setting.key); });
  if (!owners.empty())
    throw Error(ErrorKind::config, setting.key + " is an option of " + names_of(owners, "and") +
                                       ", not of policy:" + chosen.name + "; leave it out, or name " +
                                       (owners.size() == 1 ? "that policy" : "one of those"));
  if (!of_pool && std::ranges::find(kPoolKeys, setting.key) != kPoolKeys.end())
    throw Error(ErrorKind::config, setting.key + " describes a pool and not its policy; give it to the pool instead");
  refuse_unknown_key(setting.key, of_pool);
}

}  // namespace

ChosenPolicy choose_policy(const std::vector<Setting>& settings, bool of_pool) {
  const PolicyEntry* named = nullptr;
  const PolicyEntry* flagged = nullptr;
  const PolicyEntry* meant = nullptr;
  std::string flag;
  std::vector<Setting> options;
  for (const Setting& setting : settings) {
    if (setting.key == "policy") {
      named = &policy_named(setting.value);
    } else if (const PolicyEntry* chosen = flagged_policy(setting)) {
      flagged = chosen;
      flag = setting.key;
    } else {
      options.push_back(setting);
      const auto found = std::ranges::find_if(policies(), [&](const PolicyEntry* entry) {
        return entry->is_meant_by_its_keys && knows(*entry, setting.key);
      });
      if (found != policies().end()) meant = *found;
    }
  }
  if (named != nullptr && flagged != nullptr && named != flagged)
    throw Error(ErrorKind::config, "policy and " + flag + " contradict each other; leave one of them out");
  const PolicyEntry& chosen = named != nullptr     ? *named
                              : flagged != nullptr ? *flagged
                              : meant != nullptr   ? *meant
                                                   : *policies().front();
  std::erase_if(options, [&](const Setting& setting) {
    if (!knows(chosen, setting.key)) refuse_foreign_key(setting, chosen, of_pool);
    const RefusedKey* refused = refused_key(chosen, setting.key);
    if (refused != nullptr && (refused->accepted[0] == '\0' || setting.value != refused->accepted))
      throw Error(ErrorKind::config, shown(setting.key + ":" + setting.value) + " cannot be used: " + refused->reason);
    return !has_option(chosen, setting.key);
  });
  return {&chosen, chosen.read(options)};
}

ChosenPolicy choose_policy(std::string_view text) { return choose_policy(read_settings(text), false); }

void require_virtual_memory_for(const Devices& devices, const char* policy) {
  require_virtual_memory(devices, "the policy " + std::string(policy),
                         "use the policy caching, which needs plain allocations only; a pool that is made without a "
                         "policy does so by itself");
}

const PolicyEntry& default_policy_on(const Devices& devices) {
  const bool has_virtual_memory =
      std::ranges::all_of(devices, [](const auto& device) { return has_feature(device, Feature::virtual_memory); });
  const auto found = std::ranges::find_if(
      policies(), [&](const PolicyEntry* entry) { return has_virtual_memory || !entry->capabilities.virtual_memory; });
  return **found;
}

std::string policies_with(bool Capabilities::* capability) {
  std::vector<const PolicyEntry*> able;
  std::ranges::copy_if(policies(), std::back_inserter(able),
                       [&](const PolicyEntry* entry) { return entry->capabilities.*capability; });
  return names_of(able, "and");
}

}  // namespace memlake
