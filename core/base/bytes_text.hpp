#pragma once

// A size for people: "10 GiB", "640 MiB", "1.5 KiB", "0 B"; two decimals at most. As memlake.units formats it.

#include <string>

#include "base/bytes.hpp"

namespace memlake {

std::string to_text(Bytes bytes);

}  // namespace memlake
