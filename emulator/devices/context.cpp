#include "devices/context.hpp"

#include "basics/handles.hpp"
#include "basics/of_this_thread.hpp"

namespace memlake::emulator {

namespace {
// Handles have a distinct range of numbers and are never reused, so a stale handle is always recognised.
constexpr std::uint64_t kContextHandleBase = 0x0C0'0000'0000'0000;
constexpr std::uint64_t kGreenHandleBase = 0x06C'0000'0000'0000;
constexpr std::uint64_t kDescriptionBase = 0x06D'0000'0000'0000;
}  // namespace

Context& Contexts::create(Device& device, bool is_primary, unsigned flags) {
  const std::uint64_t handle = kContextHandleBase + kHandleStep * next_++;
  ++device.live_contexts;
  Context made{
      .handle = handle, .device = &device, .is_primary = is_primary, .flags = flags, .coredump = coredump, .peers = {}};
  if ((flags & kContextCoredump) != 0) made.coredump.enable_on_exception();
  return all_.emplace(handle, std::move(made)).first->second;
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

GreenContext& Contexts::create_green(Device& device, const SmResource& resource) {
  const std::uint64_t view = kContextHandleBase + kHandleStep * next_++;
  return green_
      .emplace(view, GreenContext{.handle = kGreenHandleBase + kHandleStep * next_green_++,
                                  .view = view,
                                  .primary = device.primary_context,
                                  .device = &device,
                                  .resource = resource})
      .first->second;
}

void Contexts::erase_green(const GreenContext& green) { green_.erase(std::uint64_t{green.view}); }

CUdevResourceDesc Contexts::describe(const SmResource& resource) {
  const std::uint64_t handle = kDescriptionBase + kHandleStep * (described_.size() + 1);
  described_.emplace(handle, resource);
  return reinterpret_cast<CUdevResourceDesc>(handle);
}

const SmResource& Contexts::described(CUdevResourceDesc handle) const {
  const auto found = described_.find(reinterpret_cast<std::uint64_t>(handle));
  if (found == described_.end()) invalid("there is no description of resources ", static_cast<const void*>(handle));
  return found->second;
}

GreenContext& Contexts::find_green(CUgreenCtx handle) {
  const auto value = reinterpret_cast<std::uint64_t>(handle);
  for (auto& [view, green] : green_)
    if (green.handle == value && !green.is_ending) return green;
  if (value > kGreenHandleBase && value < kGreenHandleBase + kHandleStep * next_green_ && value % kHandleStep == 0)
    refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the green context ", Hex{value}, " was destroyed");
  refuse(CUDA_ERROR_INVALID_CONTEXT, "there is no green context ", Hex{value});
}

GreenContext* Contexts::green_of(std::uint64_t view) {
  const auto found = green_.find(view);
  return found == green_.end() || found->second.is_ending ? nullptr : &found->second;
}

std::uint64_t Contexts::current_view() {
  const auto& contexts = stack();
  return contexts.empty() || green_of(contexts.back()) == nullptr ? 0 : contexts.back();
}

std::uint64_t Contexts::whole(std::uint64_t handle) {
  const GreenContext* green = green_of(handle);
  return green == nullptr ? handle : green->primary;
}

Context* Contexts::find(CUcontext handle) {
  Context* context = find(whole(reinterpret_cast<std::uint64_t>(handle)));
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
  const std::uint64_t handle = whole(contexts.back());
  check_alive(handle);
  return *find(handle);
}

Context* Contexts::current_or_null() {
  const auto& contexts = stack();
  return contexts.empty() ? nullptr : find(whole(contexts.back()));
}

std::vector<std::uint64_t>& Contexts::stack() { return of_this_thread<std::vector<std::uint64_t>>(); }

}  // namespace memlake::emulator
