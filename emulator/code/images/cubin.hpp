#pragma once

// Reads a cubin: an ELF file whose sections .nv.info describe the kernels.

#include "code/images/bytes.hpp"
#include "code/images/image.hpp"

namespace memlake::emulator {

inline constexpr std::uint64_t kElfHeaderBytes = 64;

[[nodiscard]] bool is_elf(Bytes bytes);

/// The end of the header and the tables that the header names. `header` has kElfHeaderBytes. Throws 200.
[[nodiscard]] std::uint64_t end_of_elf_tables(Bytes header);

/// The end of the whole file. `tables` has at least the bytes up to end_of_elf_tables(). Throws 200.
[[nodiscard]] std::uint64_t end_of_elf(Bytes tables);

/// Whether the file must be linked before it can be loaded.
[[nodiscard]] bool is_relocatable(Bytes file);

/// Throws 200 for a file that is damaged or that is no code for a GPU.
[[nodiscard]] Image read_cubin(Bytes file);

}  // namespace memlake::emulator
