#pragma once

// Exchange: memlake's memory for torch.multiprocessing. The sender gives the size and a descriptor of each chunk under
// a tensor, and its process number. The receiver fetches the descriptors with pidfd_getfd and maps the chunks.
// PyTorch's expandable segments do the same, but their format knows chunks of one size only.
//
// PyTorch keeps a tensor that was sent until its receivers have dropped it, so its chunks stay under it that long.

#include <memlake.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "torch_types.hpp"

namespace memlake_torch {

/// A descriptor that this process owns.
class OwnedFd {
 public:
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&&) = delete;
  ~OwnedFd() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

class Exchange {
 public:
  /// `conf`: as for memlake_pool_create(); the driver of memory that is received.
  void configure(const std::string& conf) {
    const std::lock_guard lock(mutex_);
    conf_ = conf;
  }

  static bool is_of_memlake(const std::string& handle) {
    return handle.size() >= sizeof(Header) && std::memcmp(handle.data(), kMagic, sizeof(kMagic)) == 0;
  }

  /// What another process needs to open this memory. Valid until drop().
  ShareableHandle sent(const void* address, int device) {
    const std::lock_guard lock(mutex_);
    if (const auto found = sent_.find(address); found != sent_.end()) return found->second.handle;
    std::vector<Chunk> chunks;
    uint64_t offset = 0;
    const int code = memlake_torch_export(
        address, device, &offset,
        [](int fd, uint64_t size, void* list) {
          static_cast<std::vector<Chunk>*>(list)->push_back({size, OwnedFd(fd)});
        },
        &chunks);
    TORCH_CHECK(code == MEMLAKE_OK, "memlake: this tensor cannot be sent to another process by torch.multiprocessing: ",
                memlake_last_error(), kOtherWays);
    std::string text = bytes_of(Header{.pid = static_cast<uint64_t>(getpid()), .count = chunks.size()});
    for (const Chunk& chunk : chunks) text += bytes_of(Entry{.size = chunk.size, .fd = chunk.fd.get()});
    ShareableHandle handle{static_cast<std::ptrdiff_t>(offset), std::move(text)};
    sent_.emplace(address, Sent{handle, std::move(chunks)});
    has_sent_.store(true);
    return handle;
  }

  /// To be called when memory is freed.
  void drop(const void* address) {
    if (!has_sent_.load(std::memory_order_relaxed)) [[likely]]
      return;
    const std::lock_guard lock(mutex_);
    sent_.erase(address);
    has_sent_.store(!sent_.empty());
  }

  /// Maps memory that another process has sent; it is unmapped when the last owner of the result is gone.
  std::shared_ptr<void> received(const std::string& handle, int device) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<void>& known = received_[{device, handle}];
    if (std::shared_ptr<void> memory = known.lock()) return memory;
    std::shared_ptr<void> memory = open(handle, device);
    known = memory;
    for (auto entry = received_.begin(); entry != received_.end();)
      entry = entry->second.expired() ? received_.erase(entry) : std::next(entry);
    return memory;
  }

 private:
#if TORCH_VERSION_MINOR >= 10
  static constexpr const char* kOtherWays =
      ". Allocate it inside `with torch.cuda.use_mem_pool(torch.cuda.MemPool(no_split=True)):`, whose memory is "
      "PyTorch's own, or share a buffer with memlake.sharing";
#else
  static constexpr const char* kOtherWays = ". Share a buffer with memlake.sharing";
#endif
  static constexpr char kMagic[8] = {'m', 'e', 'm', 'l', 'a', 'k', 'e', '1'};  // PyTorch's own handles begin otherwise

  struct Header {
    char magic[8] = {'m', 'e', 'm', 'l', 'a', 'k', 'e', '1'};
    uint64_t pid;
    uint64_t count;
  };
  struct Entry {
    uint64_t size;
    int64_t fd;
  };
  struct Chunk {
    uint64_t size;
    OwnedFd fd;
  };
  struct Sent {
    ShareableHandle handle;
    std::vector<Chunk> chunks;  // as long as they are open, another process can fetch them
  };

  template <class T>
  static std::string bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
  }

  std::shared_ptr<void> open(const std::string& handle, int device) const {
    Header header;
    std::memcpy(&header, handle.data(), sizeof(header));
    TORCH_CHECK(handle.size() == sizeof(Header) + header.count * sizeof(Entry),
                "memlake: a tensor came from another process with a damaged handle");
    const OwnedFd process(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(header.pid), 0)));
    require_fetched(process, header.pid);
    std::vector<OwnedFd> owned;
    std::vector<int> fds;
    std::vector<uint64_t> sizes;
    for (uint64_t i = 0; i < header.count; ++i) {
      Entry entry;
      std::memcpy(&entry, handle.data() + sizeof(Header) + i * sizeof(Entry), sizeof(entry));
      owned.emplace_back(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), static_cast<int>(entry.fd), 0)));
      require_fetched(owned.back(), header.pid);
      fds.push_back(owned.back().get());
      sizes.push_back(entry.size);
    }
    void* address = nullptr;
    memlake_import* const import =
        memlake_torch_import(conf_.c_str(), device, fds.size(), fds.data(), sizes.data(), &address);
    TORCH_CHECK(import != nullptr, "memlake: memory of process ", header.pid,
                " cannot be used here: ", memlake_last_error());
    return {address, [import](void*) { memlake_torch_end_import(import); }};
  }

  static void require_fetched(const OwnedFd& fd, uint64_t pid) {
    TORCH_CHECK(fd.get() >= 0, "memlake: memory of process ", pid, " cannot be fetched: ", std::strerror(errno),
                ". The process must still run and have the tensor, and this one must be allowed to trace it (the same "
                "user; in a container: --cap-add=SYS_PTRACE), on Linux 5.6 or newer");
  }

  std::atomic<bool> has_sent_{false};
  std::mutex mutex_;  // guards the members below
  std::string conf_;
  std::map<const void*, Sent> sent_;
  std::map<std::pair<int, std::string>, std::weak_ptr<void>> received_;
};

}  // namespace memlake_torch
