#pragma once

// Descriptor: owns a file descriptor. Memory that was exported lives as long as one is open, in any process.

#include <utility>

namespace memlake {

class Descriptor {
 public:
  /// Takes it over; programs that this one starts do not inherit it.
  explicit Descriptor(int fd) noexcept;
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, kNone)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();

  [[nodiscard]] int get() const noexcept { return fd_; }
  /// Now the caller closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, kNone); }

 private:
  static constexpr int kNone = -1;
  int fd_;
};

}  // namespace memlake
