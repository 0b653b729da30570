#pragma once

// The interpreters that can use the core: the main one of a process, with the GIL.

namespace memlake::bindings {

/// Throws std::runtime_error with a sentence, which import raises as ImportError, if this interpreter cannot use the
/// core.
void require_usable_interpreter();

}  // namespace memlake::bindings
