#include "context.hpp"

#include "handles.hpp"
#include "of_this_thread.hpp"

namespace memlake::emulator {

namespace {
// Handles have a distinct range of numbers and are never reused, so a stale handle is always recognised.
constexpr std::uint64_t kContextHandleBase = 0x0C0'0000'0000'0000;
}  // namespace

Context& Contexts::create(Device& device, bool is_primary, unsigned flags) {
  const std::uint64_t handle = kContextHandleBase + kHandleStep * next_++;
  ++device.live_contexts;
  return all_
      .emplace(handle,
               Context{.handle = handle, .device = &device, .is_primary = is_primary, .flags = flags, .peers = {}})
      .first->second;
}

void Contexts::erase(Context& context) {
  --context.device->live_contexts;
  const std::uint64_t handle = context.handle;
  all_.erase(handle);
  for (auto& [other, value] : all_) value.peers.erase(handle);
}

Context* Contexts::find(std::uint64_t handle) {
  const auto found = all_.find(handle);
  return found == all_.end() ? nullptr : &found->second;
}

Context* Contexts::find(CUcontext handle) {
  Context* context = find(reinterpret_cast<std::uint64_t>(handle));
  return context == nullptr || context->is_ending ? nullptr : context;
}

void Contexts::check_alive(std::uint64_t handle) {
  const Context* context = find(handle);
  if (context == nullptr || context->is_ending)
    refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context ", Hex{handle}, " was destroyed");
  if (context->sticky != CUDA_SUCCESS)
    throw ContextLost{{context->sticky, text("earlier work on device ", context->device->ordinal,
                                             " failed; its context answers this error until it is destroyed")},
                      handle};
}

Context& Contexts::current() {
  const auto& contexts = stack();
  if (contexts.empty() || contexts.back() == 0)
    refuse(CUDA_ERROR_INVALID_CONTEXT, "no context is current to this thread; call cuCtxSetCurrent first");
  check_alive(contexts.back());
  return *find(contexts.back());
}

Context* Contexts::current_or_null() {
  const auto& contexts = stack();
  return contexts.empty() ? nullptr : find(contexts.back());
}

std::vector<std::uint64_t>& Contexts::stack() { return of_this_thread<std::vector<std::uint64_t>>(); }

}  // namespace memlake::emulator
