#pragma once

// Outlook: what a space could have done for a request that it has just refused. The policy's share of the answer to
// "why is there no memory"; pool/shortage.hpp has the whole answer.

#include <string>

#include "base/bytes.hpp"

namespace memlake {

struct Outlook {
  Bytes page{1};              ///< new memory for such a request comes in multiples of this
  Bytes room{0};              ///< new memory that the limit and the driver leave to the space
  Bytes free_for_it{0};       ///< free memory that the request may take: of its stream and its group
  Bytes grows_from{0};        ///< of the range below: the free memory in it
  Bytes in_one_range{0};      ///< the most that the space could have shown in one range, new memory included
  bool is_there_now = false;  ///< a free block fits: a wait set it free, and the policy had searched before
  std::string advice = {};    ///< what helps where enough memory is free and yet none of it fits
};

// Other policies are named only where what they can do was counted.

/// What a policy that moves memory can move at once, on the devices of today.
inline constexpr Bytes kMovable = MiB * 2;

/// Ends an advice. `movable`: free memory in whole pieces of kMovable, and room for new memory.
std::string advice_about_moving(Bytes rounded, Bytes movable);

}  // namespace memlake
