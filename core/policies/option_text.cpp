#include "policies/option_text.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace memlake {
namespace {

constexpr std::uint64_t kLargestSize = std::numeric_limits<std::int64_t>::max();
constexpr std::string_view kLargest = "a whole number of bytes, at most 9223372036854775807";

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Digits with at most one point: no sign, no exponent.
std::optional<double> decimal(std::string_view text) {
  if (text.empty() || text == "." || text.size() > 400 || std::ranges::count(text, '.') > 1) return std::nullopt;
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

constexpr const char* kSyntax = "write NAME,key:value,key:value, for instance \"stitch,frag_limit:64MiB\"";
constexpr std::string_view kKeyCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

/// Takes the first entry off the text. `may_be_name`: it may lack a key, and names a policy then.
Setting next_setting(std::string_view& text, bool may_be_name) {
  const std::size_t colon = std::min(text.find_first_not_of(kKeyCharacters), text.size());
  const bool has_key = colon != 0 && colon < text.size() && text[colon] == ':';
  const bool is_name = may_be_name && colon != 0 && (colon == text.size() || text[colon] == ',');
  const std::size_t begin = has_key ? colon + 1 : 0;
  std::size_t end = text.find(',', begin);
  if (has_key && begin < text.size() && text[begin] == '[') {
    end = text.find(']', begin);
    end = end == std::string_view::npos ? end : end + 1;
  }
  end = std::min(end, text.size());
  if (!(has_key || is_name) || begin == end || (end < text.size() && text[end] != ','))
    throw Error(ErrorKind::config, "cannot read " + shown(text) + " in a configuration; " + kSyntax);
  Setting setting{std::string(has_key ? text.substr(0, colon) : "policy"),
                  std::string(text.substr(begin, end - begin))};
  text.remove_prefix(std::min(end + 1, text.size()));
  return setting;
}

/// How many letters must be changed, added or left out to make one word the other.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t changed = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<Setting> read_settings(std::string_view text) {
  std::string stripped;
  std::ranges::copy_if(text, std::back_inserter(stripped),
                       [](char c) { return std::string_view(" \t\r\n\v\f").find(c) == std::string_view::npos; });
  std::vector<Setting> settings;
  for (std::string_view rest = stripped; !rest.empty();) settings.push_back(next_setting(rest, settings.empty()));
  return settings;
}

std::string shown(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string quoted = "'";
  for (const char c : text.substr(0, text.size() <= 60 ? text.size() : 57)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      quoted += c;
    } else {
      quoted += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
    }
  }
  quoted += text.size() <= 60 ? "'" : "...'";
  return quoted;
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t least = word.size() > 64 ? 0 : std::max<std::size_t>(word.size() / 3, 1) + 1;
  for (const std::string_view candidate : known) {
    if (least == 0) break;
    const std::size_t apart = distance(word, candidate);
    if (apart >= least) continue;
    least = apart;
    best = candidate;
  }
  return best;
}

std::string listed(std::span<const std::string> words, std::string_view last_word) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_last = i > 0 && i + 1 == words.size();
    if (i > 0) text += is_last ? " " : ", ";
    if (is_last) text.append(last_word) += ' ';
    text += words[i];
  }
  return text;
}

void refuse(const Setting& setting, std::string_view wanted) {
  throw Error(ErrorKind::config, setting.key + " must be " + std::string(wanted) + ", got " + shown(setting.value));
}

Bytes parse_size(const Setting& setting, std::string_view wanted) {
  const std::string_view value = setting.value;
  const std::size_t digits = std::min(value.find_first_not_of("0123456789."), value.size());
  const std::string_view number = value.substr(0, digits);
  const std::size_t point = std::min(number.find('.'), number.size());
  std::string_view fraction = point < number.size() ? number.substr(point + 1) : std::string_view();
  const auto unit = unit_of(value.substr(digits));
  if (!unit || point == 0 || (point < number.size() && fraction.empty()) || fraction.find('.') != fraction.npos)
    refuse(setting, wanted);
  while (fraction.ends_with('0')) fraction.remove_suffix(1);
  constexpr std::size_t most_digits = 19;  // 10^19 is the largest power of ten in 64 bits
  if (fraction.size() > most_digits) refuse(setting, "a whole number of bytes");
  // Whole numbers throughout: a float would round sizes above 2^53.
  const auto whole = whole_number(std::string(number.substr(0, point)) + std::string(fraction));
  if (!whole) refuse(setting, kLargest);
  std::uint64_t divisor = 1;
  for (std::size_t i = 0; i < fraction.size(); ++i) divisor *= 10;
  std::uint64_t multiplier = *unit;
  for (const std::uint64_t factor : {2U, 5U})
    while (divisor % factor == 0 && multiplier % factor == 0) {
      divisor /= factor;
      multiplier /= factor;
    }
  if (*whole % divisor != 0) refuse(setting, "a whole number of bytes");
  if (*whole / divisor > kLargestSize / multiplier) refuse(setting, kLargest);
  return {*whole / divisor * multiplier};
}

bool parse_percentage(const Setting& setting, double& share) {
  if (!setting.value.ends_with('%')) return false;
  const auto percent = decimal(std::string_view(setting.value).substr(0, setting.value.size() - 1));
  if (!percent || *percent > 100) refuse(setting, "a size, or a share from 0% to 100%");
  share = *percent / 100;
  return true;
}

Bytes parse_mib(const Setting& setting, std::string_view wanted) {
  const auto number = whole_number(setting.value);
  if (!number || *number > kLargestSize / MiB.count) refuse(setting, wanted);
  return MiB * *number;
}

std::uint64_t parse_count(const Setting& setting, std::string_view wanted) {
  const auto number = whole_number(setting.value);
  if (!number || *number > kLargestSize) refuse(setting, wanted);
  return *number;
}

double parse_number(const Setting& setting, std::string_view wanted) {
  const auto number = decimal(setting.value);
  if (!number) refuse(setting, wanted);
  return *number;
}

bool parse_boolean(const Setting& setting) {
  if (setting.value != "True" && setting.value != "False") refuse(setting, "True or False, written like this");
  return setting.value == "True";
}

std::string size_text(Bytes size) {
  constexpr std::array<std::string_view, 6> units{"", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t power = 0;
  while (power + 1 < units.size() && size.count != 0 && size.count % 1024 == 0) {
    size.count /= 1024;
    ++power;
  }
  return std::to_string(size.count) + std::string(units[power]);
}

std::string number_text(double number) {
  std::array<char, 400> buffer{};
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::fixed);
  return {buffer.data(), end};
}

Divisions parse_divisions(const Setting& setting, std::string_view wanted) {
  const auto divisions = [&](std::string_view text) {
    const auto number = whole_number(text);
    if (!number || *number > std::numeric_limits<std::uint32_t>::max() || (*number & (*number - 1)) != 0)
      refuse(setting, wanted);
    return static_cast<std::uint32_t>(*number);
  };
  Divisions table{};
  if (!setting.value.starts_with('[')) {
    table.fill(divisions(setting.value));
    return table;
  }
  if (!setting.value.ends_with(']')) refuse(setting, wanted);
  std::string_view rest = std::string_view(setting.value).substr(1, setting.value.size() - 2);
  std::size_t behind_last = 0;
  bool is_first = true;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, comma);
    if (comma + 1 == rest.size()) refuse(setting, wanted);
    rest = rest.substr(std::min(comma + 1, rest.size()));
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos) refuse(setting, wanted);
    const std::uint32_t value = divisions(item.substr(colon + 1));
    if (item.substr(0, colon) == ">") {
      std::fill(table.begin() + static_cast<std::ptrdiff_t>(behind_last), table.end(), value);
      continue;
    }
    const auto boundary = whole_number(item.substr(0, colon));
    if (!boundary || !std::has_single_bit(*boundary)) refuse(setting, "a list whose sizes are powers of two of MiB");
    const std::size_t index = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(*boundary)) - 1, 15);
    // As in PyTorch, the first boundary counts for all smaller sizes.
    if (is_first) std::fill_n(table.begin(), index, value);
    is_first = false;
    table[index] = value;
    behind_last = index + 1;
  }
  return table;
}

}  // namespace memlake
