#pragma once

// fill(): fills in a struct of a C caller that may be older or newer than this library.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/error.hpp"

namespace memlake::abi {

/// As much as the caller's struct has room for. Error(invalid_argument) if `given->struct_size` was not set.
template <class Struct>
void fill(Struct* given, Struct filled, const char* name) {
  if (given == nullptr || given->struct_size < sizeof(std::size_t))
    throw Error(ErrorKind::invalid_argument, std::string("set struct_size to sizeof(") + name + ") first");
  filled.struct_size = std::min(given->struct_size, sizeof(filled));
  std::memcpy(given, &filled, filled.struct_size);
}

}  // namespace memlake::abi
