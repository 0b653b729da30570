#pragma once

// LiveSettings: what may be changed of a live pool while it is in use: its limits, its rules of reuse, and the devices
// that may use its memory.

#include <memory>
#include <mutex>
#include <optional>

#include "runtime/locked_pool.hpp"
#include "streams/reuse_rules.hpp"

namespace memlake {

class LiveSettings {
 public:
  explicit LiveSettings(LockedPool& locked) : locked_(locked) {}

  /// The one of its limits that may be changed at any time.
  void set_limit(Bytes limit);
  /// The share of the device's memory that PyTorch's setting allows.
  void set_memory_fraction(Bytes fraction);
  /// Also of a closed pool.
  [[nodiscard]] Limits limits() const;

  /// See Space.
  void set_reuse_rules(const ReuseRules& rules);
  /// std::nullopt if the policy has none.
  [[nodiscard]] std::optional<ReuseRules> reuse_rules() const;
  /// How much memory stays held when the program waits. CUDA's own pools apply it themselves; for the other policies
  /// the layer above does, which is told of the waits.
  void set_release_threshold(Bytes threshold);
  /// Also of a closed pool.
  [[nodiscard]] Bytes release_threshold() const;

  /// The devices beside its own that may use its memory; none if the pool is closed.
  [[nodiscard]] Devices peers() const;
  /// See Space. If it takes access away, it waits for the work of the pool's devices and of those that lose it.
  void set_peers(const Devices& peers);
  /// Adds one to them, unless it is one of them. Error(invalid_argument) if it cannot reach the pool's devices.
  void add_peer(const std::shared_ptr<Device>& peer);
  /// Removes one from them, if it is one of them; waits as set_peers() does.
  void remove_peer(const Device& peer);

 private:
  /// set_peers(). pre: changing_peers_ is held, and the pool's lock is not.
  void change_peers(const Devices& peers);

  LockedPool& locked_;
  std::mutex changing_peers_;  // held from the reading of the peers to their change; before the pool's lock
  Bytes release_threshold_ = Budget::kUnlimited;  // the pool's lock guards it
};

}  // namespace memlake
