#include "vmm/reservation.hpp"

#include <string>
#include <utility>

#include "driver/result.hpp"

namespace memlake {

namespace {

std::atomic<std::uint64_t> reserved_by_process{0};

}  // namespace

Bytes Reservation::of_process() noexcept { return {reserved_by_process.load(std::memory_order_relaxed)}; }

Reservation::Reservation(std::shared_ptr<Device> device, Bytes size, Bytes alignment, Address hint)
    : device_(std::move(device)), range_{{0}, size} {
  Driver& driver = device_->driver();
  device_->context();
  check(driver, Call::cuMemAddressReserve,
        driver.cuMemAddressReserve(&range_.begin.value, size.count, alignment.count, hint.value, 0));
  reserved_by_process.fetch_add(size.count, std::memory_order_relaxed);
}

Reservation::Reservation(Reservation&& other) noexcept
    : device_(std::move(other.device_)), range_(other.range_), ownership_(std::move(other.ownership_)) {}

Reservation::~Reservation() {
  if (mapping_count() == 0) {
    ownership_.end_or_keep([this] { free(); }, [this] { device_->keep(std::move(*this)); });
  }
}

void Reservation::close() {
  ownership_.end("the reservation", [this] {
    if (const std::size_t count = mapping_count(); count != 0) {
      throw Error(ErrorKind::invalid_free,
                  "the reservation still has " + std::to_string(count) + (count == 1 ? " mapping" : " mappings"));
    }
    free();
  });
}

void Reservation::move_in() {
  mapping_count_.fetch_add(1);
  if (!is_open()) {
    move_out();
    ownership_.require("the reservation");
  }
}

void Reservation::free() {
  // Addresses belong to the process, not to a device: they are given back after their device was closed, too.
  if (!device_->is_of_this_process()) return;
  Driver& driver = device_->driver();
  check(driver, Call::cuMemAddressFree, driver.cuMemAddressFree(range_.begin.value, range_.size.count));
  reserved_by_process.fetch_sub(range_.size.count, std::memory_order_relaxed);
}

}  // namespace memlake
