#pragma once

// Sets of a device's multiprocessors: the resource that a program splits, and that a green context is made of. A
// program keeps them in its own memory, so that each is checked when it comes back.

#include <bitset>
#include <cstdint>
#include <vector>

#include "basics/refusal.hpp"
#include "cuda/green_abi.hpp"

namespace memlake::emulator {

/// The multiprocessors of an emulated device: attribute 16.
inline constexpr unsigned kMultiprocessors = 108;
using Multiprocessors = std::bitset<kMultiprocessors>;

struct SmResource {
  enum class Part : std::uint32_t {
    whole,      ///< of a device or of a green context
    group,      ///< of a split; cannot be split again
    remainder,  ///< of a split
  };

  int device;
  Multiprocessors set;
  Part part = Part::whole;
  std::uint64_t split = 0;  ///< the number of the split that it comes from; 0: none

  /// What a program gets. An empty set has the type INVALID.
  [[nodiscard]] CUdevResource to_program() const;

  /// Throws 914 if the type is another one, 1 if the program has changed it.
  static SmResource from_program(const CUdevResource& resource);
};

struct SmSplit {
  std::vector<SmResource> groups;
  SmResource remainder;
};

/// At most `groups` sets of equal size, each of at least `least` multiprocessors. Throws 1 and 915.
SmSplit split(const SmResource& whole, unsigned groups, unsigned least, unsigned flags, std::uint64_t number);

/// One set of all. Throws 915 if they are of several devices or splits, or overlap.
SmResource united(const std::vector<SmResource>& parts);

}  // namespace memlake::emulator
