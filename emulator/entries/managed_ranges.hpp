#pragma once

// What the functions on ranges of managed memory check and do alike.

#include <vector>

#include "entries/entry.hpp"

namespace memlake::emulator {

/// Throws Refusal unless the whole range is managed memory.
void check_managed(const Driver& driver, std::uint64_t address, std::uint64_t size);

/// The home that a location names. Throws Refusal for one that does not exist.
PageHome checked_home(Driver& driver, const CUmemLocation& location);

/// Queues an operation that moves no bytes, but that must have run before the ranges are freed.
void enqueue_on_ranges(Session& session, Stream& stream, std::vector<Touch> touches);

}  // namespace memlake::emulator
