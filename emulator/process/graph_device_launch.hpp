#pragma once

// The rules for graphs that code on a device may launch (CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH). The emulator runs
// no code on devices, so only the host launches such a graph.

#include "process/driver.hpp"

namespace memlake::emulator {

/// Throws 1, after it has set `failure`, if the graph breaks a rule.
void check_device_launch(Driver& driver, const Graph& graph, InstantiateFailure& failure);

/// The rule that one node breaks, which is not a child graph; "" if it breaks none.
[[nodiscard]] std::string why_not_on_device(Driver& driver, const NodeParams& params);

}  // namespace memlake::emulator
