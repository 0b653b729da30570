#include "driver/loaded_driver.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "driver/result.hpp"

namespace memlake {
namespace {

enum class Need { required, optional };

void* find_symbol(const SharedObject& library, const char* symbol) {
  if (void* found = library.symbol(symbol)) return found;
  // Drivers before 11.4 have only the older name, which is as good where a device is not divided (MIG).
  if (std::string_view(symbol) == "cuDeviceGetUuid_v2") return library.symbol("cuDeviceGetUuid");
  return nullptr;
}

/// Fills one function pointer; notes the name of a required function that is not there.
template <class Function>
void resolve(const SharedObject& library, Need need, const char* symbol, Function& function,
             std::vector<std::string>& missing) {
  function = reinterpret_cast<Function>(find_symbol(library, symbol));
  if (function == nullptr && need == Need::required) missing.emplace_back(symbol);
}

/// The names, or the first few of them: a library that is no driver at all misses every one.
std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t enough = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), enough); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > enough) text += " and " + std::to_string(names.size() - enough) + " more";
  return text;
}

}  // namespace

LoadedDriver::LoadedDriver(SharedObject library) : library_(std::move(library)), emulator_(library_) {
  std::vector<std::string> missing;
#define F(name, symbol, need, parameters, arguments) resolve(library_, Need::need, symbol, name##_, missing);
#include "driver/functions.inc"
#undef F
  if (!missing.empty()) {
    throw Error(
        ErrorKind::config,
        "'" + library_.file() + "' is not a CUDA driver memlake can use: it does not export " + list_of(missing));
  }
}

// The test costs a predicted branch; only optional functions can fail it.
#define F(name, symbol, need, parameters, arguments) \
  CUresult LoadedDriver::name parameters {           \
    if (name##_ == nullptr) [[unlikely]]             \
      return CUDA_ERROR_NOT_SUPPORTED;               \
    return name##_ arguments;                        \
  }
#include "driver/functions.inc"
#undef F

bool LoadedDriver::has(Call call) const noexcept {
  switch (call) {
#define F(name, symbol, need, parameters, arguments) \
  case Call::name:                                   \
    return name##_ != nullptr;
#include "driver/functions.inc"
#undef F
  }
  return false;
}

Explanation LoadedDriver::explain(Call call, CUresult result) const {
  if (!has(call)) return {"'" + library_.file() + "' does not export it", false};
  if (emulator_.is_present()) return emulator_.explain();
  // A driver newer than our list of results has words for its own.
  const char* text = nullptr;
  if (is_known(result) || cuGetErrorString_(result, &text) != CUDA_SUCCESS || text == nullptr) return {};
  return {text, false};
}

}  // namespace memlake
