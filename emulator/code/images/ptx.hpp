#pragma once

// Reads the declarations of PTX: kernels with their parameters and bounds, and variables. It skips instructions, so an
// error in the code of a kernel stays unnoticed.

#include <string_view>

#include "code/images/image.hpp"

namespace memlake::emulator {

struct Ptx {
  Image image;
  int language = 0;  ///< the version of PTX, for instance 90 for 9.0
};

/// Whether a text looks like PTX: its first word is .version.
[[nodiscard]] bool is_ptx(std::string_view text);

/// Throws 218 with the line, if the text is not valid PTX.
[[nodiscard]] Ptx read_ptx(std::string_view text);

}  // namespace memlake::emulator
