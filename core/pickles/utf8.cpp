#include "pickles/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace memlake::pickles {
namespace {

/// The length of the character at the beginning, or 0 if there is none.
std::size_t character(std::string_view text) {
  const auto byte = [text](std::size_t place) { return static_cast<std::uint8_t>(text[place]); };
  const auto follows = [&](std::size_t count) {
    if (text.size() <= count) return false;
    for (std::size_t place = 1; place <= count; ++place)
      if ((byte(place) & 0xC0) != 0x80) return false;
    return true;
  };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // the middle of a character, or two bytes for what one byte can say
  if (lead < 0xE0) return follows(1) ? 2 : 0;
  if (lead < 0xF0) return follows(2) && (lead != 0xE0 || byte(1) >= 0xA0) ? 3 : 0;
  if (lead > 0xF4 || !follows(3)) return 0;
  if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) >= 0x90)) return 0;
  return 4;
}

}  // namespace

std::optional<std::size_t> first_invalid(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t word = 0;
    if (text.size() - at >= 8) {
      std::memcpy(&word, text.data() + at, 8);
      if ((word & 0x8080808080808080U) == 0) {
        at += 8;
        continue;
      }
    }
    const std::size_t length = character(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

}  // namespace memlake::pickles
