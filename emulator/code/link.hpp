#pragma once

// The driver's linker. The emulator translates nothing: it reads the inputs and hands them out together.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "basics/refusal.hpp"

namespace memlake::emulator {

struct Link {
  std::uint64_t handle;
  std::vector<std::vector<char>> inputs = {};
  std::vector<char> output = {};  ///< valid until the link is destroyed; empty before it is complete
};

class Links {
 public:
  Link& create();
  void destroy(CUlinkState handle);

  /// Throws 400 for a handle that is no link (any more).
  Link& find(CUlinkState handle);

 private:
  std::unordered_map<std::uint64_t, Link> all_;  // references to values stay valid
  std::uint64_t next_ = 1;
};

}  // namespace memlake::emulator
