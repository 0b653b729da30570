#include "basics/sentence.hpp"

#include <charconv>

namespace memlake::emulator {

void Part::append_to(std::string& sentence) const {
  if (kind_ == Kind::text) {
    sentence += text_;
    return;
  }
  char digits[24];
  char* const end = kind_ == Kind::hex ? std::to_chars(digits, digits + sizeof digits, number_, 16).ptr
                    : kind_ == Kind::with_sign
                        ? std::to_chars(digits, digits + sizeof digits, static_cast<std::int64_t>(number_)).ptr
                        : std::to_chars(digits, digits + sizeof digits, number_).ptr;
  if (kind_ == Kind::hex) sentence += "0x";
  sentence.append(digits, end);
}

std::string joined(std::initializer_list<Part> parts) {
  std::string sentence;
  for (const Part& part : parts) part.append_to(sentence);
  return sentence;
}

}  // namespace memlake::emulator
