#pragma once

// The attributes of launches and of kernel nodes (CUlaunchAttributeID).

#include <array>
#include <map>
#include <vector>

#include "basics/refusal.hpp"

namespace memlake::emulator {

inline constexpr int kCooperativeAttribute = 2;
inline constexpr int kPriorityAttribute = 8;

using LaunchAttributeValue = std::array<char, sizeof(CUlaunchAttribute::value)>;

/// The attributes of a launch. Priorities, memory domains and hints have no effect on the emulator.
struct LaunchAttributes {
  bool is_cooperative = false;
  std::vector<CUevent> events = {};                  ///< that the launch records
  std::map<int, LaunchAttributeValue> of_node = {};  ///< those that a kernel node keeps, without `is_cooperative`
};

/// Throws 1 for an unknown attribute, and 801 for a wish that the device does not fulfil.
[[nodiscard]] LaunchAttributes read_attributes(const CUlaunchConfig& config);

/// Throws 1 for an attribute that kernel nodes do not have.
void check_is_of_node(int id);

/// Throws 1 for an attribute that streams do not have.
void check_is_of_stream(int id);

/// What a stream has for an attribute that nobody has set.
[[nodiscard]] LaunchAttributeValue default_of_stream(int id, int priority);

/// Throws 801 for a value that the device does not fulfil.
void check_attribute(int id, const LaunchAttributeValue& value);

[[nodiscard]] LaunchAttributeValue attribute_value(int number);
[[nodiscard]] int number_of(const LaunchAttributeValue& value);

}  // namespace memlake::emulator
