#pragma once

// The limits of Linux that an emulated GPU can reach. The emulator refuses calls before a limit is reached, because at
// the limit even the calls that undo a step fail (the contract, section F).

#include <cstddef>
#include <cstdint>

namespace memlake::emulator {

/// 4 KiB, or up to 64 KiB on aarch64.
std::uint64_t host_page();

/// The most kernel mappings that this process may use for device memory: nine tenths of vm.max_map_count.
std::size_t most_mappings();

/// Raises the soft limit of open files to the hard one. Called once, when a host-backed device is made.
void raise_descriptor_limit();

/// Returns `fd`. Closes it and throws Refusal OUT_OF_MEMORY if its number is so high that the program itself would soon
/// run out of descriptors. Also throws for a negative `fd`, the result of a failed call.
int guarded_descriptor(int fd);

/// Throws Refusal OUT_OF_MEMORY for a file that is longer than the limit of the process (ulimit -f), because the kernel
/// would kill the process.
void check_file_length(std::uint64_t length);

}  // namespace memlake::emulator
