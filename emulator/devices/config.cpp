#include "devices/config.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "basics/refusal.hpp"
#include "basics/settings_text.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kLargestDevice = std::uint64_t{1} << 44;  // 16 TiB; the address window has 32 TiB
constexpr std::uint64_t kPoolStep = std::uint64_t{2} << 20;
constexpr std::size_t kMostDevices = 64;

constexpr std::array<std::pair<std::string_view, Switch>, 7> kSwitches{{
    {"map_across_reservations", Switch::map_across_reservations},
    {"unmap_across_reservations", Switch::unmap_across_reservations},
    {"set_access_subrange", Switch::set_access_subrange},
    {"address_free_while_mapped", Switch::address_free_while_mapped},
    {"map_offset_nonzero", Switch::map_offset_nonzero},
    {"inflight_unmap", Switch::inflight_unmap},
    {"alloc_async_zero", Switch::alloc_async_zero},
}};

constexpr std::array<std::pair<std::string_view, Lack>, 7> kLacks{{
    {"vmm", Lack::vmm},
    {"rdma", Lack::rdma},
    {"rdma_grant", Lack::rdma_grant},
    {"rdma_access", Lack::rdma_access},
    {"export", Lack::export_handles},
    {"spanning_copies", Lack::spanning_copies},
    {"shared_bytes", Lack::shared_bytes},
}};

/// What the `nvidia` profile relaxes: everything but offsets, which no CUDA driver accepts.
constexpr unsigned kNvidiaRelaxes = 0b1111111U & ~(1U << static_cast<unsigned>(Switch::map_offset_nonzero));

std::uint64_t parse_number(std::string_view key, std::string_view value, std::string_view what) {
  std::uint64_t number = 0;
  if (!read_number(value, number)) invalid("emulator configuration: ", key, "=", value, " is not ", what);
  return number;
}

/// Bytes: a plain number, or one with KiB, MiB, GiB, TiB (powers of 1024) or KB, MB, GB, TB (powers of 1000).
std::uint64_t parse_bytes(std::string_view key, std::string_view value) {
  constexpr std::array<std::pair<std::string_view, std::uint64_t>, 9> kUnits{{{"KiB", 1ULL << 10},
                                                                              {"MiB", 1ULL << 20},
                                                                              {"GiB", 1ULL << 30},
                                                                              {"TiB", 1ULL << 40},
                                                                              {"KB", 1000ULL},
                                                                              {"MB", 1000000ULL},
                                                                              {"GB", 1000000000ULL},
                                                                              {"TB", 1000000000000ULL},
                                                                              {"B", 1ULL}}};
  const auto unit = std::ranges::find_if(kUnits, [&](const auto& known) { return value.ends_with(known.first); });
  const auto [name, factor] = unit == kUnits.end() ? std::pair<std::string_view, std::uint64_t>("", 1) : *unit;
  std::uint64_t number = 0;
  if (!read_number(trimmed(value.substr(0, value.size() - name.size())), number))
    invalid("emulator configuration: ", key, "=", value, " is not a size such as 8GiB, 512MB or a number of bytes");
  if (number > UINT64_MAX / factor) invalid("emulator configuration: ", key, "=", value, " is too large");
  return number * factor;
}

/// One size for all devices, or one for each, joined by '/'.
std::vector<std::uint64_t> parse_sizes(std::string_view key, std::string_view value) {
  std::vector<std::uint64_t> sizes;
  for (const auto one : split(value, '/')) sizes.push_back(parse_bytes(key, trimmed(one)));
  return sizes;
}

/// The size of one device.
std::uint64_t size_at(std::string_view key, const std::vector<std::uint64_t>& sizes, int devices, std::size_t place) {
  if (sizes.size() != 1 && sizes.size() != static_cast<std::size_t>(devices))
    invalid("emulator configuration: ", key, " has ", sizes.size(), " sizes for ", devices,
            devices == 1 ? " device" : " devices", "; write one size for all, or one for each joined by '/'");
  return sizes.size() == 1 ? sizes.front() : sizes[place];
}

template <class Choice>
using Named = std::pair<std::string_view, Choice>;

template <class Choice>
Choice parse_choice(std::string_view key, std::string_view value, std::initializer_list<Named<Choice>> choices) {
  std::string known;
  for (const auto& [name, choice] : choices) {
    if (value == name) return choice;
    const bool is_last = name == std::prev(choices.end())->first;
    known.append(known.empty() ? "" : is_last ? " or " : ", ").append(name);
  }
  invalid("emulator configuration: ", key, "=", value, " is not possible; choose ", known);
}

/// A set of words joined by '+', as bits.
template <class Words>
unsigned parse_words(std::string_view key, std::string_view value, const Words& words, std::string_view noun,
                     std::string_view plural) {
  unsigned bits = 0;
  if (value.empty()) return bits;
  for (const auto word : split(value, '+')) {
    const auto found = std::ranges::find_if(words, [&](const auto& known) { return known.first == trimmed(word); });
    if (found == words.end()) {
      std::string known;
      for (const auto& [name, which] : words) known.append(known.empty() ? "" : ", ").append(name);
      invalid("emulator configuration: ", key, "=", word, " is not a ", noun, "; the ", plural, " are ", known);
    }
    bits |= 1U << static_cast<unsigned>(found->second);
  }
  return bits;
}

std::vector<std::vector<bool>> parse_peers(std::string_view value, int devices) {
  const auto count = static_cast<std::size_t>(devices);
  if (value == "all" || value == "none") {
    std::vector<std::vector<bool>> peers(count, std::vector<bool>(count, value == "all"));
    for (std::size_t i = 0; i < count; ++i) peers[i][i] = false;
    return peers;
  }
  std::vector<std::vector<bool>> peers;
  for (const auto row : split(value, '/')) {
    if (row.size() != count || row.find_first_not_of("01") != std::string_view::npos)
      invalid("emulator configuration: peers=", value, " is neither all, none nor ", devices, " rows of ", devices,
              " digits 0 or 1 joined by '/', as 01/10 for two devices");
    auto& bits = peers.emplace_back();
    for (const char digit : row) bits.push_back(digit == '1');
  }
  if (peers.size() != count)
    invalid("emulator configuration: peers=", value, " has ", peers.size(), " rows for ", devices, " devices");
  return peers;
}

void check(const DeviceConfig& device) {
  const auto is_granularity = [](std::uint64_t bytes) { return std::has_single_bit(bytes) && bytes >= host_page(); };
  if (!is_granularity(device.granularity))
    invalid("emulator configuration: granularity=", device.granularity, " is not a power of two of at least ",
            host_page());
  if (!is_granularity(device.recommended) || device.recommended < device.granularity)
    invalid("emulator configuration: recommended=", device.recommended,
            " is not a power of two of at least the granularity ", device.granularity);
  if (device.recommended > kLargestGranularity)
    invalid("emulator configuration: a granularity of ", device.recommended, " bytes is more than ",
            kLargestGranularity, " (1 GiB)");
  if (device.memory < device.granularity || device.memory > kLargestDevice)
    invalid("emulator configuration: memory=", device.memory, " is not between the granularity ", device.granularity,
            " and ", kLargestDevice, " bytes (16 TiB)");
  if (device.pool_segment == 0 || device.pool_segment % kPoolStep != 0)
    invalid("emulator configuration: pool_segment=", device.pool_segment, " is not a multiple of ", kPoolStep,
            " bytes (2 MiB)");
}

/// What the text has said so far. The sizes and the peers depend on the number of devices, so they come last.
struct Draft {
  GroupConfig group;
  std::string_view peers = "all";
  std::vector<std::uint64_t> memory{group.device.memory};
  std::vector<std::uint64_t> granularity{group.device.granularity};
  std::vector<std::uint64_t> recommended{0};  // the same as the granularity
  std::optional<int> devices;
};

int parse_count(std::string_view key, std::string_view value) {
  const auto count = parse_number(key, value, "a number of devices");
  if (count < 1 || count > kMostDevices)
    invalid("emulator configuration: devices=", value, " is not between 1 and ", kMostDevices);
  return static_cast<int>(count);
}

int parse_version(std::string_view key, std::string_view value) {
  const auto version = parse_number(key, value, "a driver version such as 13000");
  if (version < 11020 || version > 99990)
    invalid("emulator configuration: driver=", value, " is not a version from 11020 on (1000 * major + 10 * minor)");
  return static_cast<int>(version);
}

bool parse_switch(std::string_view key, std::string_view value) {
  return parse_choice<bool>(key, value, {{"on", true}, {"off", false}});
}

using Text = std::string_view;

/// A key of the text, and how its value changes the draft.
struct Key {
  Text name;
  void (*read)(Draft& draft, Text key, Text value);
};

/// In the order in which a refusal names them.
constexpr std::array<Key, 20> kKeys{{
    {"devices", [](Draft& draft, Text key, Text value) { draft.devices = parse_count(key, value); }},
    {"memory", [](Draft& draft, Text key, Text value) { draft.memory = parse_sizes(key, value); }},
    {"granularity", [](Draft& draft, Text key, Text value) { draft.granularity = parse_sizes(key, value); }},
    {"recommended", [](Draft& draft, Text key, Text value) { draft.recommended = parse_sizes(key, value); }},
    {"peers", [](Draft& draft, Text, Text value) { draft.peers = value; }},
    {"profile",
     [](Draft& draft, Text key, Text value) {
       draft.group.device.profile =
           parse_choice<Profile>(key, value, {{"strict", Profile::strict}, {"nvidia", Profile::nvidia}});
     }},
    {"relax",
     [](Draft& draft, Text key, Text value) {
       draft.group.device.relaxed |= parse_words(key, value, kSwitches, "switch", "switches");
     }},
    {"backing",
     [](Draft& draft, Text key, Text value) {
       draft.group.device.backing =
           parse_choice<Backing>(key, value, {{"host", Backing::host}, {"none", Backing::none}});
     }},
    {"streams",
     [](Draft& draft, Text key, Text value) {
       draft.group.device.streams =
           parse_choice<StreamMode>(key, value, {{"threads", StreamMode::threads}, {"manual", StreamMode::manual}});
     }},
    {"aliasing",
     [](Draft& draft, Text key, Text value) {
       draft.group.device.aliasing = parse_choice<Aliasing>(
           key, value, {{"none", Aliasing::none}, {"whole", Aliasing::whole}, {"prefix", Aliasing::prefix}});
     }},
    {"lacks",
     [](Draft& draft, Text key, Text value) {
       draft.group.device.lacking |= parse_words(key, value, kLacks, "capability", "capabilities");
     }},
    {"fabric",
     [](Draft& draft, Text key, Text value) {
       draft.group.device.fabric = parse_choice<Fabric>(
           key, value, {{"none", Fabric::none}, {"create", Fabric::create}, {"works", Fabric::works}});
     }},
    {"pool_segment",
     [](Draft& draft, Text key, Text value) { draft.group.device.pool_segment = parse_bytes(key, value); }},
    {"driver", [](Draft& draft, Text key, Text value) { draft.group.driver_version = parse_version(key, value); }},
    {"poison", [](Draft& draft, Text key, Text value) { draft.group.device.poison = parse_switch(key, value); }},
    {"kernels",
     [](Draft& draft, Text key, Text value) {
       draft.group.device.kernels =
           parse_choice<Kernels>(key, value, {{"refuse", Kernels::refuse}, {"skip", Kernels::skip}});
     }},
    {"name", [](Draft& draft, Text, Text value) { draft.group.device.name = value; }},
    {"explain", [](Draft& draft, Text key, Text value) { draft.group.explains = parse_switch(key, value); }},
    {"report",
     [](Draft& draft, Text key, Text value) {
       draft.group.report_at_exit = parse_choice<bool>(key, value, {{"exit", true}, {"off", false}});
     }},
    {"ledger", [](Draft& draft, Text, Text value) { draft.group.ledger_file = value; }},
}};

std::string all_keys() {
  std::string all;
  for (const Key& key : kKeys) all.append(all.empty() ? "" : ", ").append(key.name);
  return all;
}

/// Reads one "key=value".
void read_setting(Draft& draft, std::string_view setting) {
  const auto equals = setting.find('=');
  const auto key = trimmed(setting.substr(0, equals));
  if (equals == std::string_view::npos)
    invalid("emulator configuration: '", key, "' has no value; write key=value, with keys ", all_keys());
  const auto known = std::ranges::find(kKeys, key, &Key::name);
  if (known == kKeys.end()) invalid("emulator configuration: unknown key '", key, "'; the keys are ", all_keys());
  known->read(draft, key, trimmed(setting.substr(equals + 1)));
}

/// The group of a text that has been read: its number of devices, the sizes of each, and their peers.
GroupConfig finished(Draft draft) {
  GroupConfig& group = draft.group;
  if (group.device.profile == Profile::nvidia) group.device.relaxed |= kNvidiaRelaxes;
  const std::size_t longest = std::max({draft.memory.size(), draft.granularity.size(), draft.recommended.size()});
  if (!draft.devices && longest > kMostDevices)
    invalid("emulator configuration: sizes for ", longest, " devices; a group has at most ", kMostDevices);
  group.devices = draft.devices.value_or(static_cast<int>(longest));
  for (std::size_t i = 0; i < static_cast<std::size_t>(group.devices); ++i) {
    const std::uint64_t granule = size_at("granularity", draft.granularity, group.devices, i);
    const std::uint64_t wished = size_at("recommended", draft.recommended, group.devices, i);
    group.sizes.push_back({.memory = size_at("memory", draft.memory, group.devices, i),
                           .granularity = granule,
                           .recommended = wished == 0 ? granule : wished});
    check(group.device_at(i));
  }
  group.device = group.device_at(0);
  group.peers = parse_peers(draft.peers, group.devices);
  return std::move(group);
}

}  // namespace

GroupConfig parse_config(std::string_view config) {
  Draft draft;
  for (const auto setting : split(config, ','))
    if (!trimmed(setting).empty()) read_setting(draft, setting);
  return finished(std::move(draft));
}

}  // namespace memlake::emulator
