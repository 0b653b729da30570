#pragma once

// Mapping: owns one mapping of a chunk at one place of a reservation. It shares both, so both outlive it.

#include <memory>
#include <span>

#include "base/address.hpp"
#include "base/ownership.hpp"
#include "vmm/physical_chunk.hpp"
#include "vmm/reservation.hpp"

namespace memlake {

class Mapping {
 public:
  /// cuMemMap of the chunk's first `size` bytes at `offset`. No device has access yet. A chunk may be mapped several
  /// times.
  Mapping(std::shared_ptr<Reservation> reservation, Bytes offset, std::shared_ptr<PhysicalChunk> chunk, Bytes size);
  Mapping(Mapping&&) noexcept = default;
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping();

  AddressRange range() const noexcept { return range_; }
  /// Null after close().
  const std::shared_ptr<PhysicalChunk>& chunk() const noexcept { return chunk_; }
  bool is_open() const noexcept { return ownership_.is_held(); }

  /// For Leftovers: the memory that is held by this mapping alone.
  [[nodiscard]] Bytes held() const { return chunk_.use_count() == 1 ? chunk_->held() : Bytes{0}; }
  void give_up() noexcept { ownership_.give_up(); }

  /// cuMemUnmap. pre: all work that uses the range is complete as seen by the host. If the call fails, it throws and
  /// the chunk stays mapped.
  void close();

  /// Closes neighbours of one reservation, each beginning where the one before it ends, with one cuMemUnmap. Mappings
  /// on a closed device are gone already; then each run of the others needs one call. A failed call unmaps nothing.
  static void close_run(std::span<Mapping* const> run);

 private:
  bool can_undo() const noexcept { return chunk_->can_undo(); }
  static void require_neighbours(const Mapping& left, const Mapping& right);
  void unmap();
  /// Called after the driver has unmapped it. Drops the chunk and the reservation, so that a closed mapping keeps
  /// neither memory nor addresses alive.
  void forget() noexcept;

  std::shared_ptr<Reservation> reservation_;
  std::shared_ptr<PhysicalChunk> chunk_;
  AddressRange range_;
  Ownership ownership_;
};

}  // namespace memlake
