#pragma once

// Descriptor: owns a file descriptor. Exported memory lives as long as a descriptor of it is open in any process.

#include <utility>

namespace memlake {

class Descriptor {
 public:
  /// Takes ownership of `fd` and sets close-on-exec.
  explicit Descriptor(int fd) noexcept;
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, kNone)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();

  [[nodiscard]] int get() const noexcept { return fd_; }
  /// Gives up ownership; the caller closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, kNone); }

 private:
  static constexpr int kNone = -1;
  int fd_;
};

}  // namespace memlake
