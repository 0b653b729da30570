#include "memory/arena.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "basics/refusal.hpp"
#include "devices/config.hpp"
#include "system/kernel_limits.hpp"

namespace memlake::emulator {

namespace {

// Far from the addresses at which Linux puts programs, heaps, libraries and stacks, so that a person can recognise a
// device pointer.
constexpr std::uint64_t kUsualBase = 0x2000'0000'0000;
constexpr std::uint64_t kUsualSize = std::uint64_t{32} << 40;
constexpr std::uint64_t kSmallestSize = std::uint64_t{16} << 30;
constexpr int kInaccessible = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

AddressSpace claim_window() {
  for (std::uint64_t size = kUsualSize; size >= kSmallestSize; size /= 2) {
    void* at = mmap(pointer(kUsualBase), size, PROT_NONE, kInaccessible | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == MAP_FAILED) at = mmap(nullptr, size, PROT_NONE, kInaccessible, -1, 0);
    if (at == MAP_FAILED) continue;
    const auto base = reinterpret_cast<std::uint64_t>(at);
    const std::uint64_t aligned = (base + kLargestGranularity - 1) & ~(kLargestGranularity - 1);
    return {aligned, size - (aligned - base)};
  }
  refuse(CUDA_ERROR_OUT_OF_MEMORY, "the system gives no address space for device memory: ", std::strerror(errno),
         " (is there a ulimit -v?)");
}

}  // namespace

Arena::Arena() : addresses_(claim_window()) {}

View::View(View&& other) noexcept
    : arena_(std::exchange(other.arena_, nullptr)), address_(other.address_), size_(other.size_) {}

View& View::operator=(View&& other) noexcept {
  std::swap(arena_, other.arena_);
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

View::~View() {
  if (arena_ == nullptr) return;
  munmap(pointer(address_), size_);
  --arena_->views_;
}

View Arena::view(std::uint64_t size, int fd) {
  check_room(1);
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) refuse(CUDA_ERROR_OUT_OF_MEMORY, "the system cannot map host memory: ", std::strerror(errno));
  madvise(at, size, MADV_DONTFORK);
  ++views_;
  return View(*this, reinterpret_cast<std::uint64_t>(at), size);
}

void Arena::check_room(std::size_t needed) const {
  if (kernel_mappings() + needed <= most_mappings()) return;
  refuse(CUDA_ERROR_OUT_OF_MEMORY, "this process uses ", kernel_mappings(),
         " memory mappings for device memory, near the ",
         "kernel's limit (vm.max_map_count); use larger chunks, backing=none, or raise the limit with sysctl");
}

void Arena::check_room_to_show(std::uint64_t address, std::uint64_t size) const {
  const auto next = runs_.lower_bound(address);
  const bool touches_next = next != runs_.end() && next->first == address + size;
  const bool touches_previous = next != runs_.begin() && std::prev(next)->second == address;
  check_room(touches_next || touches_previous ? 1 : 2);
}

void Arena::cut() {
  check_room(1);
  ++shown_;
}

void Arena::show(std::uint64_t address, std::uint64_t size, int fd, std::uint64_t offset) {
  void* at =
      mmap(pointer(address), size, PROT_NONE, MAP_FIXED | MAP_SHARED | MAP_NORESERVE, fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED) refuse(CUDA_ERROR_OUT_OF_MEMORY, "the system cannot map device memory: ", std::strerror(errno));
  madvise(at, size, MADV_DONTFORK);  // a forked child must not share device memory: it faults instead
  ++shown_;
  auto next = runs_.lower_bound(address);
  std::uint64_t end = address + size;
  if (next != runs_.end() && next->first == end) {
    end = next->second;
    next = runs_.erase(next);
  }
  if (next != runs_.begin() && std::prev(next)->second == address) {
    std::prev(next)->second = end;
  } else {
    runs_.emplace_hint(next, address, end);
  }
}

void Arena::protect(std::uint64_t address, std::uint64_t size, unsigned access) {
  const int protection = access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                         : access == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                      : PROT_NONE;
  if (mprotect(pointer(address), size, protection) != 0)
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "the system cannot change the access to device memory: ", std::strerror(errno));
}

void Arena::hide(std::uint64_t address, std::uint64_t size, std::size_t pieces) {
  if (mmap(pointer(address), size, PROT_NONE, kInaccessible | MAP_FIXED, -1, 0) == MAP_FAILED) {
    // At the kernel's limit of mappings a replacing mmap fails, but munmap works, and then there is room again. The
    // hole is open for an instant: another thread's mmap could take it, so the window is only claimed back where it is
    // free.
    munmap(pointer(address), size);
    mmap(pointer(address), size, PROT_NONE, kInaccessible | MAP_FIXED_NOREPLACE, -1, 0);
  }
  shown_ -= pieces;
  const std::uint64_t end = address + size;
  auto run = std::prev(runs_.upper_bound(address));
  while (run != runs_.end() && run->first < end) {
    const auto [run_start, run_end] = *run;
    run = runs_.erase(run);
    if (run_start < address) runs_.emplace(run_start, address);
    if (run_end > end) runs_.emplace(end, run_end);
  }
}

}  // namespace memlake::emulator
