#include "abi/shortage_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

namespace memlake::abi {
namespace {

std::string shown(Bytes bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto number = static_cast<double>(bytes.count);
  std::size_t unit = 0;
  for (; number >= 1024 && unit + 1 < units.size(); ++unit) number /= 1024;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), number < 10 && unit > 0 ? "%.2f %s" : "%.4g %s", number, units[unit]);
  return text.data();
}

/// What would help, as far as the numbers tell.
std::string hint(const Failure& failure, Bytes device_free) {
  const Bytes limit = std::min(failure.limit, failure.device_total);
  const Bytes in_use = failure.live + failure.pending;
  const bool has_spilled =
      std::ranges::any_of(failure.tried, [](const Tried& step) { return step.what == Tried::What::spill; });
  if (has_spilled) return "neither the device nor the host has the memory; free some, or ask for less";
  if (failure.rounded > failure.device_total) return "the device is smaller than the request; ask for less";
  if (limit < failure.device_total && in_use + failure.rounded > limit)
    return "free " + shown(in_use + failure.rounded - limit) + " first, or raise the limit by that";
  const Bytes growth = failure.held < limit ? std::min(limit - failure.held, device_free) : Bytes{0};
  if (failure.rounded <= failure.free + growth)
    return "there is enough memory, but not in one piece where this request may take it; policy:expandable needs no "
           "memory in one piece";
  if (failure.rounded <= failure.free + growth + failure.pending)
    return "memory is freed but streams still use it; wait for them and try again";
  return "free memory here or in other programs, or ask for less";
}

}  // namespace

std::string to_text(const Shortage& shortage) {
  const Failure& failure = shortage.failure;
  std::ostringstream text;
  text << "no memory for " << shown(failure.request.requested) << ". The pool holds " << shown(failure.held) << " of "
       << shown(std::min(failure.limit, failure.device_total)) << " it may hold";
  if (failure.held_on_host.count > 0) text << ", and " << shown(failure.held_on_host) << " on the host";
  text << ": " << shown(failure.live) << " live, " << shown(failure.pending) << " pending, " << shown(failure.free)
       << " free, the largest free block " << shown(failure.largest_free) << ". The device has "
       << shown(shortage.device_free) << " of " << shown(failure.device_total) << " left.";
  for (const auto& [stream, bytes] : shortage.pending_on) {
    text << " " << shown(bytes);
    if (stream == nullptr) {
      text << " wait for the default stream.";
    } else {
      text << " wait for stream " << stream << ".";
    }
  }
  text << " Hint: " << hint(failure, shortage.device_free) << ".";
  return text.str();
}

}  // namespace memlake::abi
