#include "policies/invariant_report.hpp"

#include <sstream>

namespace memlake {

void InvariantReport::say(std::initializer_list<Part> parts) {
  std::string text;
  for (const Part& part : parts) {
    if (!part.is_number) {
      text += part.text;
    } else {
      text += part.has_sign ? std::to_string(static_cast<std::int64_t>(part.number)) : std::to_string(part.number);
    }
  }
  sentence = text;
}

std::string place(const Block& block) {
  std::ostringstream text;
  text << "the block of " << block.size.count << " bytes at 0x" << std::hex << block.address.value;
  return text.str();
}

}  // namespace memlake
