#pragma once

// Reservations of addresses and the mappings in them: sections A3, A5, A6 and A7 of the driver's contract.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "basics/rights.hpp"
#include "memory/arena.hpp"
#include "memory/chunk.hpp"
#include "work/uses.hpp"
#include "work/work.hpp"

namespace memlake::emulator {

struct Reservation {
  std::uint64_t address;
  std::uint64_t size;
  Origin made_by;
  Uses uses_before = {};  ///< of mappings that were removed although the host had not waited (inflight_unmap)
};

/// One handle mapped at one place.
struct Mapping {
  /// A part with its own access rights. A mapping is one part, unless its device is relaxed (set_access_subrange).
  struct Part {
    std::uint64_t address;
    std::uint64_t size;
    Rights rights;
  };

  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t offset;  ///< in the chunk; 0 on CUDA
  Handle* handle;
  std::vector<Part> parts;
  Origin made_by;
  Storage other_bytes = {};           ///< of a second mapping on a device that lacks shared_bytes
  mutable Uses uses = {};             ///< by work of streams; no part of what the program asked for
  mutable bool syncs_memops = false;  ///< CU_POINTER_ATTRIBUTE_SYNC_MEMOPS

  [[nodiscard]] std::uint64_t end() const { return address + size; }
  [[nodiscard]] const Chunk& chunk() const { return *handle->chunk; }
  [[nodiscard]] const Rights& rights_at(std::uint64_t at) const;

  /// The CPU's access to a part. For host memory it is the access that was granted to the host. For device memory it is
  /// the union of all devices' access, so that tests and debuggers can read it.
  [[nodiscard]] unsigned cpu_access(const Rights& rights) const {
    return chunk().device == nullptr ? rights.of(kHost) : rights.of_anybody();
  }
};

class Mappings {
 public:
  using Map = std::map<std::uint64_t, Mapping>;

  Mappings(Devices& devices, Chunks& chunks, Arena& arena, const InFlight& in_flight, const Order& order)
      : devices_(devices), chunks_(chunks), arena_(arena), in_flight_(in_flight), order_(order) {}

  std::uint64_t reserve(std::uint64_t size, std::uint64_t alignment, std::uint64_t hint, std::uint64_t flags,
                        const Origin& origin);
  void free(std::uint64_t address, std::uint64_t size);

  void map(std::uint64_t address, std::uint64_t size, std::uint64_t offset, std::uint64_t handle, std::uint64_t flags,
           const Origin& origin);
  void unmap(std::uint64_t address, std::uint64_t size);

  void set_access(std::uint64_t address, std::uint64_t size, std::span<const CUmemAccessDesc> descriptors);
  unsigned access(const CUmemLocation& location, std::uint64_t address);

  /// Whether work is running on a mapping in this range that may be unmapped nevertheless (switch inflight_unmap).
  [[nodiscard]] bool is_relaxed_and_running(std::uint64_t address, std::uint64_t size) const;

  /// The mapping or reservation that contains an address; null if there is none.
  [[nodiscard]] const Mapping* find(std::uint64_t address) const;
  [[nodiscard]] const Reservation* find_reservation(std::uint64_t address) const;

  /// Removes every mapping of a device's chunks; reservations stay.
  void drop_device(const Device& device);

  [[nodiscard]] const Map& all() const { return mappings_; }
  [[nodiscard]] const std::map<std::uint64_t, Reservation>& reservations() const { return reservations_; }

 private:
  struct Cover {
    Map::iterator first;
    Map::iterator last;  ///< one past
  };

  /// The mappings that tile [address, address + size) without a hole. Throws Refusal that names the hole.
  Cover cover(std::uint64_t address, std::uint64_t size);
  void check_one_reservation(std::uint64_t address, std::uint64_t size, Switch relaxing, const Chunk& chunk,
                             const char* verb) const;
  /// Throws a violation if the host has not seen the end of all work that uses the mapping.
  void check_idle(const Mapping& mapping, const char* verb) const;
  int check_descriptor(const CUmemAccessDesc& descriptor, const Cover& cover);
  void remove(Cover cover);
  /// Splits a part of the mapping at `at`, if that is inside the mapping. Throws Refusal.
  void cut(Mapping& mapping, std::uint64_t at);
  void apply_access(const Cover& cover, std::uint64_t address, std::uint64_t end,
                    std::span<const Rights::Entry> grants);

  Devices& devices_;
  Chunks& chunks_;
  Arena& arena_;
  const InFlight& in_flight_;
  const Order& order_;
  std::map<std::uint64_t, Reservation> reservations_;
  Map mappings_;
};

}  // namespace memlake::emulator
