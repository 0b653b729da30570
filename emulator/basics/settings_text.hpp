#pragma once

// Reading the text of settings: lists and numbers.

#include <cctype>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

namespace memlake::emulator {

inline std::vector<std::string_view> split(std::string_view whole, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = whole.find(separator);
    parts.push_back(whole.substr(0, at));
    if (at == std::string_view::npos) return parts;
    whole.remove_prefix(at + 1);
  }
}

inline std::string_view trimmed(std::string_view part) {
  while (!part.empty() && std::isspace(static_cast<unsigned char>(part.front())) != 0) part.remove_prefix(1);
  while (!part.empty() && std::isspace(static_cast<unsigned char>(part.back())) != 0) part.remove_suffix(1);
  return part;
}

inline bool read_number(std::string_view text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

}  // namespace memlake::emulator
