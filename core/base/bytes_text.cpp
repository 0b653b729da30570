#include "base/bytes_text.hpp"

#include <array>
#include <cstdio>

namespace memlake {

std::string to_text(Bytes bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = units.size() - 1;
  while (unit > 0 && bytes.count < std::uint64_t{1} << (10 * unit)) --unit;
  std::array<char, 40> digits{};
  std::snprintf(digits.data(), digits.size(), "%.2f",
                static_cast<double>(bytes.count) / static_cast<double>(std::uint64_t{1} << (10 * unit)));
  std::string text = digits.data();
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " " + units[unit];
}

}  // namespace memlake
