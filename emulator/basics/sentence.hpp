#pragma once

// text() joins words and numbers to one sentence. A call only builds a list of parts; one function, compiled once,
// joins them. (A string stream per sentence made up two fifths of the emulator's code.)

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace memlake::emulator {

/// An address, written in hexadecimal.
struct Hex {
  std::uint64_t value;
};

/// One word or number of a sentence. It refers to its text, so it must not outlive the expression.
class Part {
 public:
  Part(const char* text) : text_(text) {}
  Part(std::string_view text) : text_(text) {}
  Part(const std::string& text) : text_(text) {}
  Part(Hex address) : number_(address.value), kind_(Kind::hex) {}
  Part(const void* address) : number_(reinterpret_cast<std::uintptr_t>(address)), kind_(Kind::hex) {}
  template <std::signed_integral Integer>
  Part(Integer number) : number_(static_cast<std::uint64_t>(std::int64_t{number})), kind_(Kind::with_sign) {}
  template <std::unsigned_integral Integer>
  Part(Integer number) : number_(number), kind_(Kind::without_sign) {}
  Part(char) = delete;
  Part(bool) = delete;

  void append_to(std::string& sentence) const;

 private:
  enum class Kind { text, hex, with_sign, without_sign };

  std::string_view text_ = {};
  std::uint64_t number_ = 0;
  Kind kind_ = Kind::text;
};

std::string joined(std::initializer_list<Part> parts);

/// Joins its arguments to one sentence.
template <class... Parts>
std::string text(const Parts&... parts) {
  return joined({Part(parts)...});
}

}  // namespace memlake::emulator
