#pragma once

// The hook for undo calls that fail in a destructor. A destructor cannot throw and the core does not print, so the
// failure goes to one hook of the process; without a hook it is ignored.

#include "base/error.hpp"

namespace memlake {

/// Called on the thread that destroys the owner. Must not throw and must not destroy owners itself.
using UndoFailureHook = void (*)(const Error& error);

/// Replaces the hook (null: none) and returns the previous one.
UndoFailureHook set_undo_failure_hook(UndoFailureHook hook) noexcept;

/// Calls the hook, unless the driver is gone: then the object is gone with it and no undo was needed.
void report_undo_failure(const Error& error) noexcept;

}  // namespace memlake
