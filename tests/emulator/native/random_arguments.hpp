#pragma once

// Random arguments for every exported function: handles that exist, existed or never did, numbers at and beyond their
// limits, null pointers. What a real driver would read or write without asking is valid memory: an array has as many
// elements as a count can say, and ends where an inaccessible page begins.

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "abi.hpp"

namespace memlake::test {

/// One parameter of a function, as the list of functions writes it.
struct Parameter {
  std::string function;
  std::string type;  ///< "const CUgraphNode*"
  std::string name;  ///< "dependencies"
};

/// Reads "(const CUgraphNode* dependencies, size_t count)".
std::vector<Parameter> parse_parameters(const char* function, const std::string& text);

/// How often a pointer is null.
enum class Nulls { sometimes, always };

/// The largest count of elements, and how many elements an array has.
inline constexpr std::size_t kMostElements = 16;

/// The memory of the program that copies read and write.
inline constexpr std::size_t kDataBytes = 8 * kMiB;

class RandomArguments {
 public:
  /// `devices` ordinals exist, from `first_device` on. `with_pinned`: addresses of pinned memory are device addresses,
  /// too. Only for one thread: when another thread has freed it, an address of pinned memory is any address.
  RandomArguments(std::uint64_t seed, int first_device, int devices, bool with_pinned);
  ~RandomArguments();
  RandomArguments(const RandomArguments&) = delete;
  RandomArguments& operator=(const RandomArguments&) = delete;

  Nulls nulls = Nulls::sometimes;

  /// One of [0, below).
  std::size_t choose(std::size_t below) { return below == 0 ? 0 : random_() % below; }
  bool happens_once_in(std::size_t times) { return choose(times) == 0; }

  /// Calls the function with random arguments, and keeps what it made.
  template <class... Arguments>
  int call(CUresult (*function)(Arguments...), const std::vector<Parameter>& parameters) {
    results_.clear();
    next_zone_ = 0;
    const int code = apply(function, parameters, std::index_sequence_for<Arguments...>{});
    if (code == CUDA_SUCCESS) keep_results(parameters.empty() ? "" : parameters.front().function);
    return code;
  }

  /// A value of this type that a call has made, newest first; 0 if there is none.
  [[nodiscard]] std::uint64_t made(const std::string& type, std::size_t age = 0) const;

 private:
  struct Result {
    std::string type;
    const std::uint64_t* value;
  };

  template <class... Arguments, std::size_t... kIndex>
  int apply(CUresult (*function)(Arguments...), [[maybe_unused]] const std::vector<Parameter>& parameters,
            std::index_sequence<kIndex...>) {
    // Braces: the arguments are made from left to right, so that a seed means the same calls everywhere.
    const std::tuple<Arguments...> arguments{make<Arguments>(parameters[kIndex])...};
    return std::apply(function, arguments);
  }

  template <class T>
  T make(const Parameter& parameter) {
    if constexpr (std::is_pointer_v<T>) {
      using Value = std::remove_cv_t<std::remove_pointer_t<T>>;
      if constexpr (std::is_function_v<Value>) {
        return is_null() ? nullptr : known_function(T{});
      } else if constexpr (std::is_void_v<Value>) {
        return is_null() ? nullptr : static_cast<T>(memory(parameter));
      } else if constexpr (std::is_same_v<T, const char*>) {
        return is_null() ? nullptr : text(parameter);
      } else if constexpr (!requires { sizeof(Value); }) {
        return reinterpret_cast<T>(handle(parameter.type));
      } else {
        return is_null() ? nullptr : array<Value>(parameter);
      }
    } else if constexpr (std::is_class_v<T>) {
      T value{};
      fill(value);
      return value;
    } else {
      return static_cast<T>(number(parameter));
    }
  }

  template <class Value>
  Value* array(const Parameter& parameter) {
    auto* elements = static_cast<Value*>(zone(kMostElements * sizeof(Value)));
    Parameter element = parameter;
    element.type = element_type(parameter.type);
    for (std::size_t i = 0; i < kMostElements; ++i) {
      if constexpr (std::is_pointer_v<Value>) {
        elements[i] = element_pointer<Value>(element, i);
      } else if constexpr (std::is_class_v<Value>) {
        elements[i] = Value{};
        fill(elements[i]);
      } else {
        elements[i] = static_cast<Value>(element_number(element, i));
      }
    }
    if constexpr (sizeof(Value) == sizeof(std::uint64_t))
      if (!parameter.type.starts_with("const"))
        results_.push_back({element.type, reinterpret_cast<const std::uint64_t*>(elements)});
    return elements;
  }

  template <class Value>
  Value element_pointer(const Parameter& element, std::size_t index) {
    using Pointed = std::remove_pointer_t<Value>;
    if constexpr (requires { sizeof(Pointed); } || std::is_void_v<std::remove_cv_t<Pointed>>) {
      return reinterpret_cast<Value>(pointer_value(element, index));
    } else {
      return reinterpret_cast<Value>(handle(element.type));
    }
  }

  [[nodiscard]] bool is_null() { return nulls == Nulls::always || happens_once_in(15); }
  static std::string element_type(const std::string& pointer);

  /// Zeroed memory of this size; the byte behind it is inaccessible.
  void* zone(std::size_t size);
  void* memory(const Parameter& parameter);
  const char* text(const Parameter& parameter);
  std::uint64_t handle(const std::string& type);
  std::uint64_t pick(const std::string& type);
  std::uint64_t address(const std::string& function = "");
  std::uint64_t number(const Parameter& parameter);
  std::uint64_t element_number(const Parameter& element, std::size_t index);
  std::uint64_t pointer_value(const Parameter& parameter, std::size_t index);
  std::uint64_t size();
  std::uint64_t one_of(std::initializer_list<std::uint64_t> values);
  int device();
  void keep_results(const std::string& function);

  static CUhostFn known_function(CUhostFn);
  static CUstreamCallback known_function(CUstreamCallback);
  static CUoccupancyB2DSize known_function(CUoccupancyB2DSize);

  template <class T>
  T handle_of(const char* type) {
    return reinterpret_cast<T>(handle(type));
  }
  template <class E>
  E up_to(int most) {
    return static_cast<E>(static_cast<int>(choose(static_cast<std::size_t>(most) + 2)) - 1);
  }
  template <class Copy>
  void fill_copy(Copy& copy);
  template <class Node>
  void fill_kernel(Node& node);

  void fill(CUmemLocation& value);
  void fill(CUmemAccessDesc& value);
  void fill(CUmemAllocationProp& value);
  void fill(CUmemPoolProps& value);
  void fill(CUmemPoolPtrExportData& value);
  void fill(CUipcMemHandle& value);
  void fill(CUipcEventHandle& value);
  void fill(CUuuid& value);
  void fill(CUcheckpointLockArgs& value);
  void fill(CUcheckpointReservedArgs& value);
  void fill(CUcheckpointRestoreArgs& value);
  void fill(CUlaunchConfig& value);
  void fill(LaunchAttributeValue& value);
  void fill(CUDA_MEMCPY2D& value);
  void fill(CUDA_MEMCPY3D& value);
  void fill(CUDA_MEMCPY3D_PEER& value);
  void fill(CUmemcpyAttributes& value);
  void fill(CUmemcpy3DOperand& value);
  void fill(CUDA_MEMCPY3D_BATCH_OP& value);
  void fill(CUDA_ARRAY_DESCRIPTOR& value);
  void fill(CUDA_ARRAY3D_DESCRIPTOR& value);
  void fill(CUDA_RESOURCE_DESC& value);
  void fill(CUDA_TEXTURE_DESC& value);
  void fill(CUDA_RESOURCE_VIEW_DESC& value);
  void fill(CUdevResource& value);
  void fill(CUgraphEdgeData& value);
  void fill(CUDA_MEMSET_NODE_PARAMS& value);
  void fill(CUDA_HOST_NODE_PARAMS& value);
  void fill(CUDA_MEM_ALLOC_NODE_PARAMS& value);
  void fill(CUDA_KERNEL_NODE_PARAMS& value);
  void fill(CUDA_KERNEL_NODE_PARAMS_v1& value);
  void fill(CUgraphNodeParams& value);
  void fill(CUDA_GRAPH_INSTANTIATE_PARAMS& value);
  void fill(CUgraphExecUpdateResultInfo& value);

  std::mt19937_64 random_;
  int first_device_;
  int devices_;
  bool with_pinned_;
  char* zones_;  // one after another, each with an inaccessible page behind it
  std::size_t next_zone_ = 0;
  char* data_;  // memory of the program, for copies
  std::map<std::string, std::vector<std::uint64_t>> made_;
  std::vector<Result> results_;
};

}  // namespace memlake::test
