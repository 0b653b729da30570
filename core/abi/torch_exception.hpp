#pragma once

// PyTorch's own C++ exceptions, thrown without its headers. PyTorch's pluggable allocator takes NULL for memory, so a
// failed allocation must be an exception, and only PyTorch's own types become torch.OutOfMemoryError in Python.

#include <string>

namespace memlake::abi {

/// Whether this process has a PyTorch whose exceptions can be thrown.
bool has_torch_exceptions();

/// Throws c10::OutOfMemoryError. pre: has_torch_exceptions().
[[noreturn]] void throw_torch_out_of_memory(const std::string& message);

/// Throws c10::Error, which Python sees as RuntimeError. pre: has_torch_exceptions().
[[noreturn]] void throw_torch_error(const std::string& message);

}  // namespace memlake::abi
