#pragma once

// StreamCache: the stream objects that Python passed to a pool, with the numbers of their streams. A stream object that
// comes again needs no Python code.

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/live_pool.hpp"
#include "weak_objects.hpp"

namespace memlake::bindings {

/// All functions need the GIL.
class StreamCache {
 public:
  /// The cache of a pool; made on first use.
  static StreamCache& of(LivePool& pool) {
    std::shared_ptr<void>& attachment = pool.attachment();
    if (attachment == nullptr) attachment = std::make_shared<StreamCache>();
    return *static_cast<StreamCache*>(attachment.get());
  }

  [[nodiscard]] std::optional<KnownStream> find(nb::handle stream) const noexcept {
    const Remembered* found = streams_.find(stream);
    return found == nullptr || found->epoch != epoch_ ? std::nullopt : std::optional(found->stream);
  }
  /// Does nothing for an object that cannot be referenced weakly.
  void remember(nb::handle stream, KnownStream known) { streams_.remember(stream, {known, epoch_}); }
  /// All caches forget everything: a stream object names another stream, or none, from now on.
  static void forget_all() noexcept { ++epoch_; }

 private:
  struct Remembered {
    KnownStream stream;
    std::uint64_t epoch = 0;
  };

  static inline std::uint64_t epoch_ = 1;  // changes with the GIL held
  WeakObjects<Remembered> streams_;
};

}  // namespace memlake::bindings
