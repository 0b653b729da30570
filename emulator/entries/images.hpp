#pragma once

// What the entries of modules, libraries and functions share.

#include <memory>
#include <span>

#include "code/images/load.hpp"
#include "code/images/program_memory.hpp"
#include "code/kernel_attributes.hpp"
#include "entries/entry.hpp"

namespace memlake::emulator {

/// Reads an image for a device. Throws as read_image().
std::shared_ptr<const Image> read_for(Session& session, const Device& device, std::span<const char> bytes);

/// The answer of cuFuncGetParamInfo and cuKernelGetParamInfo. Throws 1 if the kernel has no such parameter.
void tell_parameter(const KernelImage& kernel, size_t index, size_t* offset, size_t* size);

/// Throws 1 for a cache configuration that does not exist. A valid one has no effect.
void check_cache_config(int config);

}  // namespace memlake::emulator
