#include "vmm/mapping.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "driver/result.hpp"

namespace memlake {
namespace {

/// The driver would not mind a range that lies in a neighbour's reservation, so it must be refused here.
AddressRange place_in(const Reservation& reservation, Bytes offset, Bytes size) {
  const std::optional<Bytes> end = checked_add(offset, size);
  if (!end || *end > reservation.range().size) {
    throw Error(ErrorKind::invalid_argument, "the mapping would end outside its reservation");
  }
  return {reservation.range().begin + offset, size};
}

}  // namespace

Mapping::Mapping(std::shared_ptr<Reservation> reservation, Bytes offset, std::shared_ptr<PhysicalChunk> chunk,
                 Bytes size)
    : reservation_(std::move(reservation)), chunk_(std::move(chunk)), range_(place_in(*reservation_, offset, size)) {
  Driver& driver = chunk_->device()->driver();
  if (&driver != &reservation_->device()->driver()) {
    throw Error(ErrorKind::invalid_argument, "the chunk and the reservation are of different drivers");
  }
  const CUmemGenericAllocationHandle handle = chunk_->handle();
  reservation_->move_in();
  const CUresult result = driver.cuMemMap(range_.begin.value, range_.size.count, 0, handle, 0);
  if (result != CUDA_SUCCESS) {
    reservation_->move_out();
    throw driver_error(driver, Call::cuMemMap, result);
  }
}

Mapping::~Mapping() {
  ownership_.end_or_keep([this] { unmap(); }, [this] { chunk_->device()->keep(std::move(*this)); });
}

void Mapping::close() {
  ownership_.end("the mapping", [this] { unmap(); });
}

void Mapping::close_run(std::span<Mapping* const> run) {
  std::size_t taken = 0;
  std::size_t closed = 0;
  try {
    for (; taken < run.size(); ++taken) run[taken]->ownership_.take("the mapping");
    for (std::size_t i = 1; i < run.size(); ++i) require_neighbours(*run[i - 1], *run[i]);
    while (closed < run.size()) {
      std::size_t end = closed;
      while (end < run.size() && run[end]->can_undo()) ++end;
      if (end > closed) {
        const Mapping& first = *run[closed];
        const Bytes size = run[end - 1]->range_.end() - first.range_.begin;
        Driver& driver = first.chunk_->device()->driver();
        check(driver, Call::cuMemUnmap, driver.cuMemUnmap(first.range_.begin.value, size.count));
      }
      // At least one: what ended this run of open devices, if anything, is a mapping of a closed one.
      for (end = std::max(end, closed + 1); closed < end; ++closed) run[closed]->forget();
    }
  } catch (...) {
    while (taken > closed) run[--taken]->ownership_.give_back();
    throw;
  }
}

void Mapping::require_neighbours(const Mapping& left, const Mapping& right) {
  if (left.reservation_ != right.reservation_ || left.range_.end() != right.range_.begin) {
    throw Error(ErrorKind::invalid_argument, "the mappings are not neighbours in one reservation");
  }
}

void Mapping::unmap() {
  if (can_undo()) {
    Driver& driver = chunk_->device()->driver();
    check(driver, Call::cuMemUnmap, driver.cuMemUnmap(range_.begin.value, range_.size.count));
  }
  forget();
}

void Mapping::forget() noexcept {
  reservation_->move_out();
  chunk_.reset();
  reservation_.reset();
}

}  // namespace memlake
