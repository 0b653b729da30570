#pragma once

// Outlook: the memory that a space could have provided for a request that it has just refused. It is the policy's part
// of the description of a shortage; pool/shortage.hpp has all of it.

#include <string>

#include "base/bytes.hpp"

namespace memlake {

struct Outlook {
  /// What the policy lacks for the request. The figures are 0 if a space does not know them.
  struct Need {
    Bytes alone{0};        ///< the least limit of an empty pool that allows the request
    Bytes more{0};         ///< what the policy adds to the memory of the pool when it compares it with the limit
    Bytes limit{0};        ///< the least limit with which the policy asks the driver for new memory
    Bytes from_driver{0};  ///< the new memory that the driver then has to give
  };

  Bytes page{1};             ///< new memory for such a request comes in multiples of this
  Bytes room{0};             ///< new memory that the limit and the driver still allow
  Bytes free_and_usable{0};  ///< free memory that the policy may use for the request
  Bytes grows_from{0};       ///< free memory that is part of in_one_range
  Bytes in_one_range{0};     ///< the largest contiguous range that the space could have provided, new memory included
  Need need{};
  bool is_there_now = false;  ///< a free block fits: a wait freed it after the policy's last search
  std::string advice = {};    ///< for the case that there is enough memory, but none of it fits
};

// An advice names another policy only if the figures show that it may help.

/// The unit in which a policy can move memory on current devices.
inline constexpr Bytes kMovable = MiB * 2;

/// The end of an advice. `movable`: free memory in whole pieces of kMovable, plus room for new memory.
std::string advice_about_moving(Bytes rounded, Bytes movable);

}  // namespace memlake
