#pragma once

// Neighbours: the pools of this process, so that one that is refused memory can tell how much the others hold. Read
// only then. Takes no pool's lock: every pool publishes what it holds as one atomic number.

#include <memory>

#include "driver/device.hpp"
#include "supply/budget.hpp"

namespace memlake {

/// One pool among the others, until this object is gone. In a forked child it does nothing.
class Neighbour {
 public:
  /// `devices`: those that the pool's memory lies on; none if it lies on the host.
  Neighbour(Devices devices, std::shared_ptr<const Budget> budget);
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;
  ~Neighbour();

  /// What the other pools hold on the devices of this one. Of a pool over several devices all counts that it holds,
  /// also on other devices.
  [[nodiscard]] Bytes held_by_others() const;

 private:
  struct Street;
  /// Of this process: a forked child begins with an empty one.
  static Street& street();
  [[nodiscard]] bool shares_device_with(const Neighbour& other) const;

  const Devices devices_;
  const std::shared_ptr<const Budget> budget_;
  Street& street_;
};

}  // namespace memlake
