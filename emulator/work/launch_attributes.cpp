#include "work/launch_attributes.hpp"

#include <algorithm>
#include <cstring>

namespace memlake::emulator {

namespace {

// CUlaunchAttributeID.
constexpr int kIgnore = 0;
constexpr int kClusterDimension = 4;
constexpr int kProgrammaticEvent = 7;
constexpr int kPreferredCluster = 11;
constexpr int kCompletionEvent = 12;
constexpr int kDeviceUpdatable = 13;
constexpr int kLastLaunchAttribute = 16;
/// CU_KERNEL_NODE_ATTRIBUTE_*: the access policy window, clusters, priority, memory domains, and the carve-out.
constexpr std::array kOfNodes{1,  kCooperativeAttribute, kClusterDimension, 5, kPriorityAttribute, 9,
                              10, kPreferredCluster,     kDeviceUpdatable,  14};

constexpr int kSynchronizationPolicy = 3;
constexpr int kMemoryDomains = 9;
/// CU_STREAM_ATTRIBUTE_*: the access policy window, the way of waiting, priority, memory domains.
constexpr std::array kOfStreams{1, kSynchronizationPolicy, kPriorityAttribute, kMemoryDomains, 10};

template <class T>
T first_of(const LaunchAttributeValue& value) {
  T first;
  std::memcpy(&first, value.data(), sizeof first);
  return first;
}

bool is_of_node(int id) { return std::ranges::find(kOfNodes, id) != kOfNodes.end(); }

}  // namespace

void check_is_of_node(int id) {
  if (!is_of_node(id)) invalid("kernel nodes have no attribute ", id);
}

void check_is_of_stream(int id) {
  if (std::ranges::find(kOfStreams, id) == kOfStreams.end()) invalid("streams have no attribute ", id);
}

LaunchAttributeValue default_of_stream(int id, int priority) {
  if (id == kPriorityAttribute) return attribute_value(priority);
  if (id == kSynchronizationPolicy) return attribute_value(1);  // CU_SYNC_POLICY_AUTO
  LaunchAttributeValue value{};
  if (id == kMemoryDomains) value[1] = 1;  // the domain of remote memory; that of other memory is 0
  return value;
}

void check_attribute(int id, const LaunchAttributeValue& value) {
  if (id == kClusterDimension || id == kPreferredCluster)
    for (std::size_t i = 0; i < 3; ++i) {
      unsigned extent = 0;
      std::memcpy(&extent, value.data() + 4 * i, sizeof extent);
      if (extent > 1)
        refuse(CUDA_ERROR_NOT_SUPPORTED,
               "the launch asks for clusters, which the device does not have (CLUSTER_LAUNCH is 0)");
    }
  if (id == kDeviceUpdatable && number_of(value) != 0)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "a kernel node that the device updates is not emulated");
}

LaunchAttributes read_attributes(const CUlaunchConfig& config) {
  LaunchAttributes read;
  if (config.numAttrs > 0) required(config.attrs, "attrs");
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const int id = config.attrs[i].id;
    if (id < kIgnore || id > kLastLaunchAttribute) invalid("launch attribute ", id, " is unknown");
    LaunchAttributeValue value;
    std::memcpy(value.data(), config.attrs[i].value, value.size());
    check_attribute(id, value);
    if (id == kCooperativeAttribute) {
      read.is_cooperative = number_of(value) != 0;
    } else if (is_of_node(id)) {
      read.of_node[id] = value;
    }
    if (id == kProgrammaticEvent || id == kCompletionEvent) read.events.push_back(first_of<CUevent>(value));
  }
  return read;
}

LaunchAttributeValue attribute_value(int number) {
  LaunchAttributeValue value{};
  std::memcpy(value.data(), &number, sizeof number);
  return value;
}

int number_of(const LaunchAttributeValue& value) { return first_of<int>(value); }

}  // namespace memlake::emulator
