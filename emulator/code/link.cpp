#include "code/link.hpp"

#include "basics/handles.hpp"

namespace memlake::emulator {

namespace {
constexpr std::uint64_t kLinkBase = 0x090'0000'0000'0000;  // a distinct range; values are never reused
}  // namespace

Link& Links::create() {
  const std::uint64_t handle = kLinkBase + kHandleStep * next_++;
  return all_.emplace(handle, Link{.handle = handle}).first->second;
}

Link& Links::find(CUlinkState handle) {
  const auto value = reinterpret_cast<std::uint64_t>(handle);
  const auto found = all_.find(value);
  if (found == all_.end()) refuse(CUDA_ERROR_INVALID_HANDLE, "there is no link ", Hex{value}, " (any more)");
  return found->second;
}

void Links::destroy(CUlinkState handle) { all_.erase(find(handle).handle); }

}  // namespace memlake::emulator
