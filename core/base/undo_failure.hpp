#pragma once

// What happens when the undo call of a dropped owner fails. A destructor cannot throw and the core does not print, so
// the failure goes to one hook of the process; without a hook it is ignored.

#include "base/error.hpp"

namespace memlake {

/// Called on whichever thread dropped the owner. Must not throw and must not drop owners itself.
using UndoFailureHook = void (*)(const Error& error);

/// Replaces the hook (null: none) and returns the one before.
UndoFailureHook set_undo_failure_hook(UndoFailureHook hook) noexcept;

/// Tells the hook, unless the driver is gone: then the object is gone with it and there was nothing to undo.
void report_undo_failure(const Error& error) noexcept;

}  // namespace memlake
