#include "abi/conf_values.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <optional>

#include "base/error.hpp"

namespace memlake::abi {
namespace {

constexpr std::uint64_t kLargestSize = std::numeric_limits<std::int64_t>::max();

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Digits with at most one point: no sign, no exponent.
std::optional<double> decimal(std::string_view text) {
  if (text.empty() || text == "." || text.size() > 40 || std::ranges::count(text, '.') > 1) return std::nullopt;
  if (text.find_first_not_of("0123456789.") != std::string_view::npos) return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> unit_of(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (lower.empty() || lower == "b") return 1;
  const std::size_t power = std::string_view("kmgtp").find(lower.front());
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view rest = std::string_view(lower).substr(1);
  std::uint64_t unit = 1;
  if (!rest.empty() && rest != "ib" && rest != "b") return std::nullopt;
  for (std::size_t i = 0; i <= power; ++i) unit *= rest == "b" ? 1000U : 1024U;
  return unit;
}

constexpr std::string_view kSizes = "a size such as 4GiB, 512MB or 4096";

}  // namespace

std::string shown(std::string_view text) {
  std::string quoted = "'";
  quoted += text.substr(0, text.size() <= 60 ? text.size() : 57);
  quoted += text.size() <= 60 ? "'" : "...'";
  return quoted;
}

void refuse(const Entry& entry, std::string_view wanted) {
  throw Error(ErrorKind::config,
              std::string(entry.key) + " must be " + std::string(wanted) + ", got " + shown(entry.value));
}

Bytes parse_size(const Entry& entry) {
  const std::string_view value = entry.value;
  const std::size_t digits = std::min(value.find_first_not_of("0123456789."), value.size());
  const std::string_view number = value.substr(0, digits);
  const std::size_t point = std::min(number.find('.'), number.size());
  const std::string_view fraction = point < number.size() ? number.substr(point + 1) : std::string_view();
  const auto unit = unit_of(value.substr(digits));
  // Whole numbers throughout: a float would round sizes above 2^53.
  const auto whole = whole_number(std::string(number.substr(0, point)) + std::string(fraction));
  if (!unit || !whole || point == 0 || (point < number.size() && fraction.empty())) refuse(entry, kSizes);
  std::uint64_t divisor = 1;
  for (std::size_t i = 0; i < fraction.size(); ++i) divisor *= 10;  // at most 19 digits, or `whole` had not been read
  std::uint64_t multiplier = *unit;
  for (const std::uint64_t factor : {2U, 5U})
    while (divisor % factor == 0 && multiplier % factor == 0) {
      divisor /= factor;
      multiplier /= factor;
    }
  if (*whole % divisor != 0) refuse(entry, "a whole number of bytes");
  if (*whole / divisor > kLargestSize / multiplier) refuse(entry, "at most 9223372036854775807 bytes");
  return {*whole / divisor * multiplier};
}

bool parse_percentage(const Entry& entry, double& share) {
  if (!entry.value.ends_with('%')) return false;
  const auto percent = decimal(entry.value.substr(0, entry.value.size() - 1));
  if (!percent || *percent > 100) refuse(entry, "a size, or a share from 0% to 100%");
  share = *percent / 100;
  return true;
}

Bytes parse_mib(const Entry& entry) {
  const auto number = whole_number(entry.value);
  if (!number || *number > kLargestSize / MiB.count) refuse(entry, "a whole number of MiB");
  return MiB * *number;
}

std::uint64_t parse_count(const Entry& entry) {
  const auto number = whole_number(entry.value);
  if (!number || *number > kLargestSize) refuse(entry, "a whole number of at least 0");
  return *number;
}

double parse_number(const Entry& entry, double least, double most) {
  const auto number = decimal(entry.value);
  if (!number || *number < least || *number > most)
    refuse(entry, "a number from " + std::to_string(static_cast<long>(least)) + " to " +
                      std::to_string(static_cast<long>(most)));
  return *number;
}

double parse_share(const Entry& entry) {
  const auto number = decimal(entry.value);
  if (!number || *number > 1) refuse(entry, "a number from 0 to 1");
  return *number;
}

bool parse_boolean(const Entry& entry) {
  if (entry.value != "True" && entry.value != "False") refuse(entry, "True or False, written like this");
  return entry.value == "True";
}

std::array<std::uint32_t, 16> parse_divisions(const Entry& entry) {
  constexpr std::string_view wanted = "a power of two (or 0: off), or a list such as [256:1,512:2,>:8]";
  const auto divisions = [&](std::string_view text) {
    const auto number = whole_number(text);
    if (!number || *number > std::numeric_limits<std::uint32_t>::max() || (*number & (*number - 1)) != 0)
      refuse(entry, wanted);
    return static_cast<std::uint32_t>(*number);
  };
  std::array<std::uint32_t, 16> table{};
  if (!entry.value.starts_with('[')) {
    table.fill(divisions(entry.value));
    return table;
  }
  if (!entry.value.ends_with(']')) refuse(entry, wanted);
  std::string_view rest = entry.value.substr(1, entry.value.size() - 2);
  std::size_t behind_last = 0;
  bool is_first = true;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    if (comma + 1 == rest.size()) refuse(entry, wanted);
    rest = rest.substr(std::min(comma + 1, rest.size()));
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos) refuse(entry, wanted);
    const std::uint32_t value = divisions(item.substr(colon + 1));
    if (item.substr(0, colon) == ">") {
      std::fill(table.begin() + static_cast<std::ptrdiff_t>(behind_last), table.end(), value);
      continue;
    }
    const auto boundary = whole_number(item.substr(0, colon));
    if (!boundary || !std::has_single_bit(*boundary)) refuse(entry, "a list whose sizes are powers of two of MiB");
    const std::size_t index = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(*boundary)) - 1, 15);
    // As in PyTorch, the first boundary counts for all smaller sizes.
    if (is_first) std::fill_n(table.begin(), index, value);
    is_first = false;
    table[index] = value;
    behind_last = index + 1;
  }
  return table;
}

}  // namespace memlake::abi
