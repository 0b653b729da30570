#pragma once

// The two limits of Linux that an emulated GPU can run into. Both are met with a clear refusal before they bite,
// because at the limit itself even undoing things fails (the contract, section F).

#include <cstddef>

namespace memlake::emulator {

/// How many memory mappings this process may use for device memory: nine tenths of vm.max_map_count.
std::size_t most_mappings();

/// Raises the soft limit of open files to the hard one. Called once, when a host-backed device is made.
void raise_descriptor_limit();

/// Refuses (OUT_OF_MEMORY, with a sentence) and closes `fd` if it is so high that the program itself would soon find no
/// descriptor. Returns `fd` otherwise; a negative `fd` is the failure of the call that should have made it.
int guarded_descriptor(int fd);

}  // namespace memlake::emulator
