#pragma once

// InvariantReport: the first invariant that a check found broken, as a sentence that begins with its name.

#include <optional>
#include <sstream>
#include <string>

#include "blocks/block.hpp"

namespace memlake {

struct InvariantReport {
  std::optional<std::string> sentence = {};

  template <class... Parts>
  void add(Parts&&... parts) {
    if (sentence) return;
    std::ostringstream text;
    (text << ... << parts);
    sentence = text.str();
  }
};

/// How a block is called in such a sentence.
inline std::string place(const Block& block) {
  std::ostringstream text;
  text << "the block of " << block.size.count << " bytes at 0x" << std::hex << block.address.value;
  return text.str();
}

}  // namespace memlake
