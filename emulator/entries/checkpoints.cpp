// Checkpoints of processes. These functions need no cuInit in the process that calls them, and no lock stops them.

#include <unistd.h>

#include <array>

#include "entries/entry.hpp"
#include "process/checkpoint_service.hpp"

namespace memlake::emulator {

namespace {

int ask(Session& session, int process, const CheckpointRequest& request) {
  if (process <= 0) invalid("there is no process ", process);
  if (process != getpid()) {
    session.lock.unlock();
    return ask_process(process, request);
  }
  if (!session.driver.is_initialized()) refuse(CUDA_ERROR_NOT_INITIALIZED, "cuInit has not been called");
  return perform(session.driver, session.lock, request);
}

template <class Reserved>
void check_zero(const Reserved& reserved) {
  for (const auto& word : reserved)
    if (word != 0) invalid("a reserved field is not 0 (zero the whole struct)");
}

}  // namespace

MEMLAKE_EXPORT CUresult cuCheckpointProcessGetState(int process, int* state) {
  return enter(
      Call::cuCheckpointProcessGetState, MEMLAKE_CALLER,
      [&](Session& session) {
        required(state, "state");
        *state = ask(session, process, {.action = CheckpointAction::get_state});
      },
      Need::nothing);
}

MEMLAKE_EXPORT CUresult cuCheckpointProcessGetRestoreThreadId(int process, int* thread) {
  return enter(
      Call::cuCheckpointProcessGetRestoreThreadId, MEMLAKE_CALLER,
      [&](Session& session) {
        required(thread, "tid");
        *thread = ask(session, process, {.action = CheckpointAction::get_restore_thread});
      },
      Need::nothing);
}

MEMLAKE_EXPORT CUresult cuCheckpointProcessLock(int process, CUcheckpointLockArgs* args) {
  return enter(
      Call::cuCheckpointProcessLock, MEMLAKE_CALLER,
      [&](Session& session) {
        if (args != nullptr) check_zero(std::array{std::uint64_t{args->reserved0}});
        if (args != nullptr) check_zero(args->reserved1);
        ask(session, process,
            {.action = CheckpointAction::lock, .milliseconds = args == nullptr ? 0 : args->timeoutMs});
      },
      Need::nothing);
}

MEMLAKE_EXPORT CUresult cuCheckpointProcessCheckpoint(int process, CUcheckpointReservedArgs* args) {
  return enter(
      Call::cuCheckpointProcessCheckpoint, MEMLAKE_CALLER,
      [&](Session& session) {
        if (args != nullptr) check_zero(args->reserved);
        ask(session, process, {.action = CheckpointAction::checkpoint});
      },
      Need::nothing);
}

MEMLAKE_EXPORT CUresult cuCheckpointProcessRestore(int process, CUcheckpointRestoreArgs* args) {
  return enter(
      Call::cuCheckpointProcessRestore, MEMLAKE_CALLER,
      [&](Session& session) {
        std::span<const CUcheckpointGpuPair> pairs;
        if (args != nullptr) {
          check_zero(args->reserved);
          check_zero(std::array{args->reserved1});
          if (args->gpuPairsCount > kMostGpuPairs) invalid(args->gpuPairsCount, " pairs are too many");
          if (args->gpuPairsCount > 0) required(args->gpuPairs, "gpuPairs");
          pairs = {args->gpuPairs, args->gpuPairsCount};
        }
        ask(session, process, {.action = CheckpointAction::restore, .pairs = pairs});
      },
      Need::nothing);
}

MEMLAKE_EXPORT CUresult cuCheckpointProcessUnlock(int process, CUcheckpointReservedArgs* args) {
  return enter(
      Call::cuCheckpointProcessUnlock, MEMLAKE_CALLER,
      [&](Session& session) {
        if (args != nullptr) check_zero(args->reserved);
        ask(session, process, {.action = CheckpointAction::unlock});
      },
      Need::nothing);
}

}  // namespace memlake::emulator
