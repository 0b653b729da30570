#pragma once

// Reservation: owns an address range without memory. The driver takes it back only as a whole.

#include <atomic>
#include <cstddef>
#include <memory>

#include "base/address.hpp"
#include "base/ownership.hpp"
#include "driver/device.hpp"

namespace memlake {

class Reservation {
 public:
  /// cuMemAddressReserve. Alignment 0 means the driver's default, hint 0 means none. The driver may ignore any hint.
  Reservation(std::shared_ptr<Device> device, Bytes size, Bytes alignment, Address hint);
  /// pre: nothing is mapped in `other`.
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&&) = delete;
  /// If a mapping could not be undone, the addresses stay reserved: to lose them is better than to free mapped ones.
  ~Reservation();

  AddressRange range() const noexcept { return range_; }
  const std::shared_ptr<Device>& device() const noexcept { return device_; }
  bool is_open() const noexcept { return ownership_.is_held(); }
  /// The number of mappings in it.
  std::size_t mapping_count() const noexcept { return mapping_count_.load(); }

  /// For Leftovers: addresses hold no memory.
  [[nodiscard]] Bytes held() const noexcept { return {0}; }
  void give_up() noexcept { ownership_.give_up(); }

  /// cuMemAddressFree. Throws Error(invalid_free) while it has mappings.
  void close();

  /// The addresses that all reservations of this process have, of all drivers.
  [[nodiscard]] static Bytes of_process() noexcept;

 private:
  friend class Mapping;
  /// Counts a new mapping; throws Error(closed). It counts first and then checks that the reservation is open; close()
  /// first ends ownership and then reads the count. So no interleaving frees addresses that have a mapping.
  void move_in();
  void move_out() noexcept { mapping_count_.fetch_sub(1); }

  void free();

  std::shared_ptr<Device> device_;
  AddressRange range_;
  std::atomic<std::size_t> mapping_count_{0};
  Ownership ownership_;
};

}  // namespace memlake
