#pragma once

// What a pool takes its segments from: the memory of a device, host memory, or managed memory.

#include <cstdint>
#include <string>
#include <variant>

#include "devices/device.hpp"

namespace memlake::emulator {

class Supply {
 public:
  explicit Supply(Device& device) : of_(&device) {}
  explicit Supply(HostMemory& host) : of_(&host) {}
  explicit Supply(ManagedMemory& managed) : of_(&managed) {}

  [[nodiscard]] std::uint64_t total() const;
  [[nodiscard]] std::uint64_t free() const;
  void take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);

  /// The usual size of a segment.
  [[nodiscard]] std::uint64_t segment() const;
  /// Whether new memory is filled with a pattern.
  [[nodiscard]] bool is_poisoned() const;
  /// For messages: "device 0".
  [[nodiscard]] std::string name() const;

 private:
  std::variant<Device*, HostMemory*, ManagedMemory*> of_;
};

}  // namespace memlake::emulator
