#pragma once

// Neighbours: the list of all pools of this process. A pool reads it only when it is refused memory, to report how much
// the other pools hold. That takes no pool's lock: every pool publishes its held bytes per device as atomic numbers.

#include <memory>
#include <utility>
#include <vector>

#include "driver/device.hpp"
#include "supply/budget.hpp"

namespace memlake {

/// The entry of one pool in the list, as long as this object lives. In a forked child it does nothing.
class Neighbour {
 public:
  /// `devices`: the devices of the pool's memory, in the order of the budget's places; empty if it lies on the host.
  /// `policy`: its name, which exists as long as the process.
  Neighbour(Devices devices, std::shared_ptr<const Budget> budget, const char* policy);
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;
  ~Neighbour();

  /// How much each other pool holds on the devices of this one, by the names of their policies, most first; without
  /// those that hold nothing.
  [[nodiscard]] std::vector<std::pair<const char*, Bytes>> held_by_others() const;

 private:
  struct PoolsOfProcess;
  /// The list of this process; a forked child begins with an empty one.
  static PoolsOfProcess& pools_of_process();
  [[nodiscard]] bool has(Device& device) const;

  const Devices devices_;
  const std::shared_ptr<const Budget> budget_;
  const char* const policy_;
  PoolsOfProcess& all_;
};

}  // namespace memlake
