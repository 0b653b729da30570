#pragma once

// Mapping: owns one chunk shown at one place of a reservation. Shares both, so neither can go before it.

#include <memory>
#include <span>

#include "base/address.hpp"
#include "base/ownership.hpp"
#include "vmm/physical_chunk.hpp"
#include "vmm/reservation.hpp"

namespace memlake {

class Mapping {
 public:
  /// cuMemMap of the chunk's first `size` bytes at `offset`. Nobody has access yet. A chunk may be mapped several
  /// times.
  Mapping(std::shared_ptr<Reservation> reservation, Bytes offset, std::shared_ptr<PhysicalChunk> chunk, Bytes size);
  Mapping(Mapping&&) noexcept = default;
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping();

  AddressRange range() const noexcept { return range_; }
  /// Null after close().
  const std::shared_ptr<PhysicalChunk>& chunk() const noexcept { return chunk_; }
  bool is_open() const noexcept { return ownership_.is_held(); }

  /// cuMemUnmap. pre: all work that uses the range is complete as seen by the host. Throws and stays mapped otherwise.
  void close();

  /// Closes neighbours of one reservation, each beginning where the one before it ends, with one cuMemUnmap: all or
  /// nothing. What lived on a closed device is gone already; then there is one call per run of the others.
  static void close_run(std::span<Mapping* const> run);

 private:
  bool can_undo() const noexcept { return chunk_->can_undo(); }
  static void require_neighbours(const Mapping& left, const Mapping& right);
  void unmap();
  /// After the driver unmapped it. A closed mapping that somebody still holds must not keep memory or addresses.
  void forget() noexcept;

  std::shared_ptr<Reservation> reservation_;
  std::shared_ptr<PhysicalChunk> chunk_;
  AddressRange range_;
  Ownership ownership_;
};

}  // namespace memlake
