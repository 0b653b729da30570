#include "work/shared_event.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <utility>

#include "basics/refusal.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kSlots = 1024;
/// Where the locks of the slots are: behind the bytes of the file.
constexpr std::uint64_t kLocks = std::uint64_t{1} << 20;
/// How long a wait sleeps before it looks whether the other process is still there.
constexpr timespec kPatience{.tv_sec = 0, .tv_nsec = 50'000'000};

}  // namespace

struct SharedEvent::State {
  IpcHeader header;
  std::atomic<std::uint32_t> changes;  ///< a futex
  std::atomic<std::uint32_t> is_destroyed;
  std::atomic<std::uint64_t> newest;
  std::atomic<std::uint64_t> finished[kSlots];  ///< by number modulo kSlots: the last record that finished
};

SharedEvent::SharedEvent(OwnedFile file, const IpcHeader& header, bool is_imported)
    : file_(std::move(file)), header_(header), is_imported_(is_imported) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(State) < kLocks);
  struct stat status{};
  if (fstat(file_.fd(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) < sizeof(State))
    refuse(CUDA_ERROR_INVALID_HANDLE, "the file of the event is damaged");
  void* mapped = mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, file_.fd(), 0);
  if (mapped == MAP_FAILED)
    refuse(kMapFailed, "the system does not map the state of the event: ", std::strerror(errno));
  state_ = static_cast<State*>(mapped);
}

SharedEvent::~SharedEvent() {
  if (state_ != nullptr) munmap(state_, sizeof(State));
}

std::shared_ptr<SharedEvent> SharedEvent::make(int device) {
  IpcHeader header{};
  OwnedFile file = make_ipc_file(IpcKind::event, device, sizeof(State), header);
  return std::shared_ptr<SharedEvent>(new SharedEvent(std::move(file), header, false));
}

std::shared_ptr<SharedEvent> SharedEvent::open(const void* handle) {
  OpenedIpc opened = open_ipc_handle(handle, IpcKind::event);
  return std::shared_ptr<SharedEvent>(new SharedEvent(std::move(opened.file), opened.header, true));
}

std::uint64_t SharedEvent::begin_record() {
  while (true) {
    std::uint64_t newest = state_->newest.load();
    const std::uint64_t number = newest + 1;
    const std::uint64_t slot = number % kSlots;
    if (number > kSlots && (own_.contains(number - kSlots) || !is_over(number - kSlots)))
      refuse(CUDA_ERROR_OUT_OF_MEMORY, "the event has ", kSlots, " records that have not finished");
    // The lock first: a record without an end and without a lock counts as lost.
    note_use(file_.fd(), kLocks + slot, 1, true);
    if (state_->newest.compare_exchange_strong(newest, number)) {
      own_.insert(number);
      return number;
    }
    note_use(file_.fd(), kLocks + slot, 1, false);
  }
}

void SharedEvent::finish_record(std::uint64_t number) noexcept {
  const std::uint64_t slot = number % kSlots;
  own_.erase(number);
  state_->finished[slot].store(number);
  note_use(file_.fd(), kLocks + slot, 1, false);
  wake();
}

void SharedEvent::wake() const noexcept {
  state_->changes.fetch_add(1);
  syscall(SYS_futex, &state_->changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint64_t SharedEvent::newest() const { return state_->newest.load(); }

bool SharedEvent::is_over(std::uint64_t number) const {
  const std::uint64_t slot = number % kSlots;
  if (state_->finished[slot].load() >= number) return true;
  return !is_used_elsewhere(file_.fd(), kLocks + slot, 1);
}

void SharedEvent::wait(std::uint64_t number) const {
  while (true) {
    const std::uint32_t seen = state_->changes.load();
    if (is_over(number)) return;
    syscall(SYS_futex, &state_->changes, FUTEX_WAIT, seen, &kPatience, nullptr, 0);
  }
}

void SharedEvent::note_destroyed() noexcept {
  state_->is_destroyed.store(1);
  wake();
}

bool SharedEvent::is_destroyed() const { return state_->is_destroyed.load() != 0; }

}  // namespace memlake::emulator
