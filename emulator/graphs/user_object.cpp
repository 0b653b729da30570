#include "graphs/user_object.hpp"

#include <climits>
#include <system_error>
#include <thread>

#include "basics/handles.hpp"
#include "system/signals_blocked.hpp"
#include "work/streams.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kUserObjectBase = 0x0B0'0000'0000'0000;  // a distinct range; values are never reused

void check_count(std::uint64_t count) {
  if (count == 0 || count > INT_MAX) invalid("count ", count, " is not between 1 and INT_MAX");
}

/// Calls the destructor in a thread of its own, because the driver's lock is held here. The destructor must not call
/// the driver.
void call_later(CUhostFn destroy, void* data) {
  const SignalsBlocked scope;
  try {
    std::thread([destroy, data] {
      this_thread.is_in_host_function = true;
      destroy(data);
    }).detach();
  } catch (const std::system_error&) {
    // The system gives no thread. The data stays: calling the destructor under the lock could block for ever.
  }
}

}  // namespace

UserObject& UserObjects::create(void* data, CUhostFn destroy, unsigned references, unsigned flags,
                                const Origin& origin) {
  if (destroy == nullptr) invalid("the destructor is NULL");
  check_count(references);
  if (flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) invalid("flags must be 1 (NO_DESTRUCTOR_SYNC)");
  const std::uint64_t handle = kUserObjectBase + kHandleStep * next_++;
  return all_.emplace(handle, UserObject{handle, data, destroy, references, origin}).first->second;
}

UserObject& UserObjects::find(CUuserObject handle) {
  const auto found = all_.find(reinterpret_cast<std::uint64_t>(handle));
  if (found == all_.end()) invalid("there is no user object ", static_cast<const void*>(handle), " (any more)");
  return found->second;
}

void UserObjects::retain(UserObject& object, std::uint64_t count) {
  check_count(count);
  object.references += count;
}

void UserObjects::release(UserObject& object, std::uint64_t count) {
  check_count(count);
  if (count > object.references)
    invalid("the user object has ", object.references, " references, and ", count, " are released");
  object.references -= count;
  if (object.references > 0) return;
  call_later(object.destroy, object.data);
  all_.erase(object.handle);
}

UserObjectReferences::UserObjectReferences(const UserObjectReferences& other) : objects_(other.objects_) { add(other); }

UserObjectReferences::~UserObjectReferences() {
  for (const auto& [handle, count] : counts_)
    objects_->release(objects_->find(reinterpret_cast<CUuserObject>(handle)), count);
}

void UserObjectReferences::add(UserObject& object, std::uint64_t count, bool is_moved) {
  check_count(count);
  if (is_moved && count > object.references)
    invalid("the user object has ", object.references, " references, and ", count, " are moved");
  if (!is_moved) objects_->retain(object, count);
  counts_[object.handle] += count;
}

void UserObjectReferences::add(const UserObjectReferences& other) {
  for (const auto& [handle, count] : other.counts_) {
    objects_->find(reinterpret_cast<CUuserObject>(handle)).references += count;
    counts_[handle] += count;
  }
}

void UserObjectReferences::remove(UserObject& object, std::uint64_t count) {
  check_count(count);
  const auto found = counts_.find(object.handle);
  if (found == counts_.end() || found->second < count)
    invalid("the graph has ", found == counts_.end() ? 0 : found->second, " references to the user object, and ", count,
            " are released");
  found->second -= count;
  if (found->second == 0) counts_.erase(found);
  objects_->release(object, count);
}

}  // namespace memlake::emulator
