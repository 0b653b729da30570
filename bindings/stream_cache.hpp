#pragma once

// StreamCache: the stream objects that Python passed to a pool, with the numbers of their streams. A stream object that
// comes again needs no Python code. It is kept by a weak reference: an object at the address of one that is gone is not
// taken for it.

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <optional>

#include "runtime/live_pool.hpp"

namespace memlake::bindings {

namespace nb = nanobind;

/// All functions need the GIL.
class StreamCache {
 public:
  /// The cache of a pool; made on first use.
  static StreamCache& of(LivePool& pool);

  StreamCache() = default;
  StreamCache(const StreamCache&) = delete;
  StreamCache& operator=(const StreamCache&) = delete;
  /// Takes the GIL.
  ~StreamCache();

  [[nodiscard]] std::optional<KnownStream> find(nb::handle stream) const noexcept {
    for (const Slot& slot : slots_[set_of(stream)])
      if (slot.object == stream.ptr()) {
        if (slot.epoch != epoch_ || !is_alive(slot)) return std::nullopt;
        return slot.stream;
      }
    return std::nullopt;
  }
  /// Does nothing for an object that cannot be referenced weakly.
  void remember(nb::handle stream, KnownStream known);
  /// All caches forget everything: a stream object names another stream, or none, from now on.
  static void forget_all() noexcept { ++epoch_; }

 private:
  struct Slot {
    PyObject* object = nullptr;     // only compared
    PyObject* reference = nullptr;  // a weak reference to it, owned
    KnownStream stream;
    std::uint64_t epoch = 0;
  };
  // The address of an object selects a set. In a full set a new object displaces the oldest one.
  static constexpr std::size_t kSets = 32;
  static constexpr std::size_t kSlotsPerSet = 4;
  using Set = std::array<Slot, kSlotsPerSet>;  // the newest first

  static std::size_t set_of(nb::handle stream) noexcept {
    return (reinterpret_cast<std::uintptr_t>(stream.ptr()) >> 4) % kSets;
  }
  static bool is_alive(const Slot& slot) noexcept;

  static inline std::uint64_t epoch_ = 1;  // changes with the GIL held
  std::array<Set, kSets> slots_{};
};

}  // namespace memlake::bindings
