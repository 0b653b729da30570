#include "devices/visible_devices.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>

#include "basics/settings_text.hpp"
#include "devices/device.hpp"

namespace memlake::emulator {

namespace {

constexpr std::string_view kUuidStart = "GPU-";

/// The only device whose UUID begins with `prefix`.
std::optional<int> by_uuid(std::string_view prefix, int count) {
  if (prefix.size() <= kUuidStart.size()) return std::nullopt;
  std::string wanted(prefix);
  std::ranges::transform(wanted.begin() + kUuidStart.size(), wanted.end(), wanted.begin() + kUuidStart.size(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  std::optional<int> found;
  for (int number = 0; number < count; ++number) {
    if (!uuid_text(number).starts_with(wanted)) continue;
    if (found) return std::nullopt;
    found = number;
  }
  return found;
}

std::optional<int> named(std::string_view entry, int count) {
  if (entry.starts_with(kUuidStart)) return by_uuid(entry, count);
  std::uint64_t number = 0;
  if (!read_number(entry, number) || number >= static_cast<std::uint64_t>(count)) return std::nullopt;
  return static_cast<int>(number);
}

}  // namespace

std::vector<int> visible_devices(std::string_view list, int count) {
  std::vector<int> visible;
  for (const auto entry : split(list, ',')) {
    const auto device = named(trimmed(entry), count);
    if (!device) break;
    if (std::ranges::find(visible, *device) != visible.end()) return {};
    visible.push_back(*device);
  }
  return visible;
}

}  // namespace memlake::emulator
