#include "policies/space_devices.hpp"

#include <exception>

#include "base/error.hpp"
#include "base/host_memory.hpp"
#include "base/undo_failure.hpp"
#include "vmm/access.hpp"

namespace memlake {

namespace {

/// Changes the rights of the devices everywhere, or nowhere.
void change_to(Driver& driver, const std::vector<AddressRange>& ranges, const Devices& devices,
               CUmemAccess_flags before, CUmemAccess_flags after) {
  if (devices.empty()) return;
  std::size_t changed = 0;
  try {
    for (; changed < ranges.size(); ++changed) set_access(driver, ranges[changed], devices, after);
  } catch (...) {
    // The one that failed, too: its rights are unknown.
    for (std::size_t i = 0; i <= changed; ++i) {
      try {
        set_access(driver, ranges[i], devices, before);
      } catch (const Error& error) {
        report_undo_failure(error);
      }
    }
    throw;
  }
}

}  // namespace

Devices without(const Devices& some, const Devices& others) {
  Devices left;
  for (const auto& device : some) {
    const auto is_same = [&](const auto& other) { return other->ordinal() == device->ordinal(); };
    if (std::ranges::none_of(others, is_same)) left.push_back(device);
  }
  return left;
}

Devices SpaceDevices::without_own(const Devices& some) const {
  return without(some, {accessors_.begin(), accessors_.begin() + static_cast<std::ptrdiff_t>(own_count_)});
}

void SpaceDevices::set_peers(const Devices& peers) {
  accessors_.resize(own_count_);
  accessors_.insert(accessors_.end(), peers.begin(), peers.end());
}

Bytes SpaceDevices::free_outside() const {
  if (location_ != Location::device) return free_host_memory();
  Bytes sum{0};
  for (std::size_t i = 0; i < own_count_; ++i) sum = sum + accessors_[i]->free_memory();
  return sum;
}

void SpaceDevices::change_rights(const std::vector<AddressRange>& mappings, const Devices& added,
                                 const Devices& removed) const {
  Driver& driver = accessors_.front()->driver();
  change_to(driver, mappings, added, CU_MEM_ACCESS_FLAGS_PROT_NONE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  try {
    change_to(driver, mappings, removed, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    change_to(driver, mappings, added, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    std::rethrow_exception(error);
  }
}

}  // namespace memlake
