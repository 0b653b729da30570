#pragma once

// Copies memory of the program that may not be readable. CUDA passes images without their size, so a damaged image can
// claim to be larger than the memory behind its pointer.

#include <cstdint>
#include <string>
#include <vector>

namespace memlake::emulator {

/// Copies `size` bytes. Throws 200 if some of them are not readable.
std::vector<char> copy_of_program_memory(const void* pointer, std::uint64_t size);

/// Copies a text that ends with a zero byte. Throws 200 if readable memory ends before the text does.
std::string copy_of_program_text(const void* pointer);

/// Copies a whole file. Throws 301 if it cannot be read.
std::vector<char> copy_of_file(const char* path);

}  // namespace memlake::emulator
