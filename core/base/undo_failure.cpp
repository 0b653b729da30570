#include "base/undo_failure.hpp"

#include <atomic>

namespace memlake {
namespace {

std::atomic<UndoFailureHook> current_hook{nullptr};

}  // namespace

UndoFailureHook set_undo_failure_hook(UndoFailureHook hook) noexcept { return current_hook.exchange(hook); }

void report_undo_failure(const Error& error) noexcept {
  if (error.kind() == ErrorKind::driver_gone) return;
  if (const UndoFailureHook hook = current_hook.load()) hook(error);
}

}  // namespace memlake
