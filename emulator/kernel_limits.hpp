#pragma once

// The limits of Linux that an emulated GPU can run into. They are met with a clear refusal before they bite, because at
// the limit itself even undoing things fails (the contract, section F).

#include <cstddef>
#include <cstdint>

namespace memlake::emulator {

/// 4 KiB, or up to 64 KiB on aarch64.
std::uint64_t host_page();

/// How many memory mappings this process may use for device memory: nine tenths of vm.max_map_count.
std::size_t most_mappings();

/// Raises the soft limit of open files to the hard one. Called once, when a host-backed device is made.
void raise_descriptor_limit();

/// Refuses (OUT_OF_MEMORY, with a sentence) and closes `fd` if it is so high that the program itself would soon find no
/// descriptor. Returns `fd` otherwise; a negative `fd` is the failure of the call that should have made it.
int guarded_descriptor(int fd);

/// Refuses (OUT_OF_MEMORY, with a sentence) a file that is longer than the process may make one (ulimit -f): the system
/// would end the process instead.
void check_file_length(std::uint64_t length);

}  // namespace memlake::emulator
