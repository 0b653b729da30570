#pragma once

// A size as text: "10 GiB", "640 MiB", "1.5 KiB", "0 B", with at most two decimals. memlake.units has the same format.

#include <string>

#include "base/bytes.hpp"

namespace memlake {

std::string to_text(Bytes bytes);

}  // namespace memlake
