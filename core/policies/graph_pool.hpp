#pragma once

// GraphPool: the state of a graph pool, the private memory of CUDA graphs inside a pool. A captured graph uses the
// addresses that it saw during its capture whenever it is launched. So the memory of a graph pool stays where it is as
// long as a graph uses it, also where nothing is allocated any more.

#include <compare>
#include <cstdint>
#include <string>

#include "supply/level.hpp"

namespace memlake {

/// The name of a graph pool inside its pool: two numbers, as in PyTorch. {0, 0} is no graph pool.
struct GraphPoolId {
  std::uint64_t first = 0;
  std::uint64_t second = 0;

  auto operator<=>(const GraphPoolId&) const = default;
  /// As PyTorch writes it: "(1, 7)".
  [[nodiscard]] std::string text() const;
};

struct GraphPool {
  GraphPoolId id;
  std::uint64_t uses = 0;      ///< graphs that share it; 0: it is released
  bool may_run = false;        ///< it is released, but the devices may still run its graphs
  std::uint64_t releases = 0;  ///< how often the last graph gave it up
  Level live = {};             ///< blocks that callers have, with slack
  Bytes kept = {};             ///< what it must hold at least, because graphs use it
  bool is_captured = true;     ///< a graph may use its free memory; else only the program does
  bool gives_back = false;     ///< its free memory is being released on request; only while it is not captured

  /// Whether none of its free memory may be released.
  [[nodiscard]] bool keeps_memory() const { return may_run || (uses > 0 && !gives_back); }
};

}  // namespace memlake
