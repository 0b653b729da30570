#include "basics/json.hpp"

#include <cstddef>
#include <cstdio>

namespace memlake::emulator {

namespace {

/// The number of bytes of the first character of a UTF-8 text; 0 if it is not valid UTF-8.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80 ? 1 : byte(0) < 0xC2 ? 0 : byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  if (length > text.size() || byte(0) > 0xF4) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Too long for what they say, surrogates, and beyond the last character.
  if ((byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xED && byte(1) > 0x9F)) return 0;
  if ((byte(0) == 0xF0 && byte(1) < 0x90) || (byte(0) == 0xF4 && byte(1) > 0x8F)) return 0;
  return length;
}

}  // namespace

void Json::field(std::string_view key, std::string_view text) {
  begin_member(key);
  value(text);
}

void Json::field(std::string_view key, bool flag) {
  begin_member(key);
  raw(flag ? "true" : "false");
}

void Json::signed_field(std::string_view key, std::int64_t number) {
  begin_member(key);
  raw(std::to_string(number));
}

void Json::unsigned_field(std::string_view key, std::uint64_t number) {
  begin_member(key);
  raw(std::to_string(number));
}

void Json::value(std::string_view text) {
  separate();
  quoted(text);
  needs_comma_ = true;
}

void Json::begin(char open) {
  separate();
  out_ += open;
  needs_comma_ = false;
}

void Json::end(char close) {
  out_ += close;
  needs_comma_ = true;
}

void Json::begin_member(std::string_view key) {
  separate();
  quoted(key);
  out_ += ':';
  needs_comma_ = false;
}

void Json::separate() {
  if (needs_comma_) out_ += ',';
}

void Json::raw(std::string_view text) {
  separate();
  out_ += text;
  needs_comma_ = true;
}

void Json::quoted(std::string_view text) {
  out_ += '"';
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) {
      out_ += "\\ufffd";  // a byte that is not UTF-8, as paths and names can have: JSON has no place for it
    } else if (text[0] == '"' || text[0] == '\\') {
      (out_ += '\\') += text[0];
    } else if (static_cast<unsigned char>(text[0]) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(text[0])));
      out_ += escaped;
    } else {
      out_ += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out_ += '"';
}

}  // namespace memlake::emulator
