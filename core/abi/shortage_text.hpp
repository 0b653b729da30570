#pragma once

// Why there was no memory, in a few sentences for people: what memlake_last_error() says.

#include <string>

#include "runtime/live_pool.hpp"

namespace memlake::abi {

std::string to_text(const Shortage& shortage);

}  // namespace memlake::abi
