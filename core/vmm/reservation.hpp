#pragma once

// Reservation: owns a range of addresses with nothing behind it yet, and gives it back exactly as it was made.

#include <atomic>
#include <cstddef>
#include <memory>

#include "base/address.hpp"
#include "base/ownership.hpp"
#include "driver/device.hpp"

namespace memlake {

class Reservation {
 public:
  /// cuMemAddressReserve. Alignment 0 gives the device's own; a hint of 0 is none, and any hint may be ignored.
  Reservation(std::shared_ptr<Device> device, Bytes size, Bytes alignment, Address hint);
  /// pre: nothing is mapped in `other`.
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&&) = delete;
  /// Keeps the addresses reserved if a mapping could not be undone: giving them away would be worse than losing them.
  ~Reservation();

  AddressRange range() const noexcept { return range_; }
  const std::shared_ptr<Device>& device() const noexcept { return device_; }
  bool is_open() const noexcept { return ownership_.is_held(); }
  /// How many mappings live in it.
  std::size_t mapping_count() const noexcept { return mapping_count_.load(); }

  /// cuMemAddressFree. Throws Error(invalid_free) while mappings live in it.
  void close();

 private:
  friend class Mapping;
  /// A mapping moves in; throws Error(closed). Counted first and checked second, close() the other way round: whatever
  /// the interleaving, addresses are never given back under a mapping.
  void move_in();
  void move_out() noexcept { mapping_count_.fetch_sub(1); }

  void free();

  std::shared_ptr<Device> device_;
  AddressRange range_;
  std::atomic<std::size_t> mapping_count_{0};
  Ownership ownership_;
};

}  // namespace memlake
