#include "code/jit_options.hpp"

#include <algorithm>
#include <cstring>

namespace memlake::emulator {

namespace {

// CUjit_option.
constexpr int kWallTime = 2;
constexpr int kInfoLog = 3;
constexpr int kInfoLogSize = 4;
constexpr int kErrorLog = 5;
constexpr int kErrorLogSize = 6;
constexpr int kLastOption = 36;  // of CUDA 13

}  // namespace

JitOptions::JitOptions(unsigned count, const int* options, void** values) : values_(values) {
  if (count == 0) return;
  options_ = {&required(options, "options"), count};
  required(values, "option values");
  for (const int option : options_)
    if (option < 0 || option > kLastOption) invalid("compiler option ", option, " is unknown");
}

void JitOptions::write_logs(const std::string& error) const {
  write_log(kInfoLog, kInfoLogSize, "");
  write_log(kErrorLog, kErrorLogSize, error);
  for (std::size_t i = 0; i < options_.size(); ++i)
    if (options_[i] == kWallTime) std::memset(&values_[i], 0, sizeof(float));
}

void JitOptions::write_log(int buffer_option, int size_option, const std::string& text) const {
  char* buffer = nullptr;
  void** size = nullptr;
  for (std::size_t i = 0; i < options_.size(); ++i) {
    if (options_[i] == buffer_option) buffer = static_cast<char*>(values_[i]);
    if (options_[i] == size_option) size = &values_[i];
  }
  if (size == nullptr) return;
  const auto room = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(*size));
  const std::size_t length = buffer == nullptr || room == 0 ? 0 : std::min<std::size_t>(text.size(), room - 1);
  if (buffer != nullptr && room > 0) {
    std::memcpy(buffer, text.data(), length);
    buffer[length] = '\0';
  }
  *size = reinterpret_cast<void*>(length);
}

}  // namespace memlake::emulator
