// Settings of contexts that change nothing about memory: limits, caches, flags, and counted attachments.

#include <array>

#include "entries/entry.hpp"

namespace memlake::emulator {

namespace {

constexpr int kLastCacheConfig = 3;   // CU_FUNC_CACHE_PREFER_EQUAL
constexpr int kLastSharedConfig = 2;  // eight bytes per bank
constexpr int kFlushCurrentDevice = 0;
constexpr std::array kFlushScopes = {100, 200};  // to the owner, to all devices

std::size_t& limit_of(Context& context, int limit) {
  if (limit < 0 || static_cast<std::size_t>(limit) >= context.limits.size())
    refuse(CUDA_ERROR_UNSUPPORTED_LIMIT, "the emulated device has no limit ", limit);
  return context.limits[static_cast<std::size_t>(limit)];
}

}  // namespace

MEMLAKE_EXPORT CUresult cuCtxSetLimit(int limit, size_t value) {
  return enter(Call::cuCtxSetLimit, MEMLAKE_CALLER,
               [&](Session& session) { limit_of(session.driver.contexts.current(), limit) = value; });
}

MEMLAKE_EXPORT CUresult cuCtxGetLimit(size_t* value, int limit) {
  return enter(Call::cuCtxGetLimit, MEMLAKE_CALLER, [&](Session& session) {
    required(value, "value");
    *value = limit_of(session.driver.contexts.current(), limit);
  });
}

MEMLAKE_EXPORT CUresult cuCtxGetCacheConfig(int* config) {
  return enter(Call::cuCtxGetCacheConfig, MEMLAKE_CALLER,
               [&](Session& session) { required(config, "config") = session.driver.contexts.current().cache_config; });
}

MEMLAKE_EXPORT CUresult cuCtxSetCacheConfig(int config) {
  return enter(Call::cuCtxSetCacheConfig, MEMLAKE_CALLER, [&](Session& session) {
    Context& context = session.driver.contexts.current();
    if (config < 0 || config > kLastCacheConfig) invalid("cache configuration ", config, " is unknown");
    context.cache_config = config;
  });
}

MEMLAKE_EXPORT CUresult cuCtxGetSharedMemConfig(int* config) {
  return enter(Call::cuCtxGetSharedMemConfig, MEMLAKE_CALLER,
               [&](Session& session) { required(config, "config") = session.driver.contexts.current().shared_config; });
}

MEMLAKE_EXPORT CUresult cuCtxSetSharedMemConfig(int config) {
  return enter(Call::cuCtxSetSharedMemConfig, MEMLAKE_CALLER, [&](Session& session) {
    Context& context = session.driver.contexts.current();
    if (config < 0 || config > kLastSharedConfig) invalid("shared memory configuration ", config, " is unknown");
    context.shared_config = config == 0 ? Context::kDefaultSharedConfig : config;
  });
}

MEMLAKE_EXPORT CUresult cuCtxSetFlags(unsigned flags) {
  return enter(Call::cuCtxSetFlags, MEMLAKE_CALLER, [&](Session& session) {
    Context& context = session.driver.contexts.current();
    if ((flags & ~kContextFlags) != 0) invalid("context flags ", flags, " are unknown");
    context.flags = flags;
  });
}

MEMLAKE_EXPORT CUresult cuCtxResetPersistingL2Cache() {
  return enter(Call::cuCtxResetPersistingL2Cache, MEMLAKE_CALLER,
               [&](Session& session) { session.driver.contexts.current(); });
}

MEMLAKE_EXPORT CUresult cuCtxGetExecAffinity(void* affinity, int type) {
  return enter(Call::cuCtxGetExecAffinity, MEMLAKE_CALLER, [&](Session& session) {
    required(static_cast<char*>(affinity), "affinity");
    session.driver.contexts.current();
    refuse(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "the emulated device has no execution affinity ", type);
  });
}

MEMLAKE_EXPORT CUresult cuCtxAttach(CUcontext* context, unsigned flags) {
  return enter(Call::cuCtxAttach, MEMLAKE_CALLER, [&](Session& session) {
    required(context, "context");
    if (flags != 0) invalid("flags must be 0");
    Context& current = session.driver.contexts.current();
    ++current.attachments;
    *context = as_handle(current);
  });
}

MEMLAKE_EXPORT CUresult cuCtxDetach(CUcontext context) {
  return enter(Call::cuCtxDetach, MEMLAKE_CALLER, [&](Session& session) {
    Context& current = session.driver.contexts.current();
    if (as_handle(current) != context)
      refuse(CUDA_ERROR_INVALID_CONTEXT, "only the current context of a thread can be detached");
    if (current.is_primary)
      refuse(CUDA_ERROR_INVALID_CONTEXT, "a primary context is released, not detached (cuDevicePrimaryCtxRelease)");
    if (--current.attachments > 0) return;
    Contexts::stack().pop_back();
    session.driver.destroy_context(session.lock, current);
  });
}

// Writes of other devices of the bus are visible at once on the emulator.
MEMLAKE_EXPORT CUresult cuFlushGPUDirectRDMAWrites(int target, int scope) {
  return enter(Call::cuFlushGPUDirectRDMAWrites, MEMLAKE_CALLER, [&](Session& session) {
    session.driver.contexts.current();
    if (target != kFlushCurrentDevice) invalid("target ", target, " is unknown");
    if (scope != kFlushScopes[0] && scope != kFlushScopes[1]) invalid("scope ", scope, " is unknown");
  });
}

// There is nothing to profile.
MEMLAKE_EXPORT CUresult cuProfilerStart() {
  return enter(Call::cuProfilerStart, MEMLAKE_CALLER, [&](Session& session) { session.driver.contexts.current(); });
}

MEMLAKE_EXPORT CUresult cuProfilerStop() {
  return enter(Call::cuProfilerStop, MEMLAKE_CALLER, [&](Session& session) { session.driver.contexts.current(); });
}

}  // namespace memlake::emulator
