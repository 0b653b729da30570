#pragma once

// The attributes of a pool, as the program sets and gets them.

#include "pools/pool.hpp"

namespace memlake::emulator {

/// Throws 1 for an unknown or read-only attribute, and for a high-water mark that is not reset.
void set_attribute(Pool& pool, CUmemPool_attribute attribute, const void* value);
void get_attribute(const Pool& pool, CUmemPool_attribute attribute, void* value);

}  // namespace memlake::emulator
