#pragma once

// Driver: the CUDA driver functions of functions.inc as one abstract class, and the only way to a device. One class
// loads a library (LoadedDriver); the others wrap a Driver (CountingDriver, FailingDriver).

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "driver/cuda_abi.hpp"

namespace memlake {

// CUDA's own names, inside memlake's namespace, so that they do not clash with a real cuda.h.
using namespace cuda;

/// One value per driver function, so that calls are named without strings.
enum class Call : std::uint8_t {
#define F(name, symbol, need, parameters, arguments) name,
#include "driver/functions.inc"
#undef F
};

inline constexpr std::array call_names{
#define F(name, symbol, need, parameters, arguments) #name,
#include "driver/functions.inc"
#undef F
};

constexpr std::size_t index_of(Call call) noexcept { return static_cast<std::size_t>(call); }
constexpr const char* name_of(Call call) noexcept { return call_names[index_of(call)]; }

/// The function with this CUDA name, if the driver layer has it.
std::optional<Call> find_call(std::string_view name) noexcept;

/// Why a call failed, beyond its code.
struct Explanation {
  std::string detail;         ///< "" if there is none
  bool is_violation = false;  ///< the emulator refused a call that would crash or corrupt memory on a real driver
};

class Driver {
 public:
  Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  virtual ~Driver() = default;

#define F(name, symbol, need, parameters, arguments) virtual CUresult name parameters = 0;
#include "driver/functions.inc"
#undef F

  /// Explains the calling thread's latest call, which was `call` and returned `result`. pre: no driver call since.
  virtual Explanation explain(Call call, CUresult result) const = 0;
};

}  // namespace memlake
