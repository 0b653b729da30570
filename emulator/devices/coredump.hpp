#pragma once

// The settings of core dumps of a device (cuCoredumpSetAttribute). The emulator keeps them and writes no core dump.

#include <cstddef>
#include <optional>
#include <string>

#include "basics/refusal.hpp"

namespace memlake::emulator {

/// CUcoredumpSettings.
enum class CoredumpSetting : int {
  on_exception = 1,
  trigger_host,
  lightweight,
  user_trigger,
  file,
  pipe,
  generation_flags,
};

/// The settings of the process, or those of a context, which begin as a copy of the process's.
class CoredumpSettings {
 public:
  /// Throws 1 for an unknown setting.
  static CoredumpSetting checked(int setting);

  /// The bytes that a value has; for a text those of the longest one with its NUL.
  static std::size_t size_of(CoredumpSetting setting);

  /// Writes the value. Throws 1 if `size` bytes are too few for it.
  void get(CoredumpSetting setting, void* value, std::size_t size) const;

  /// Throws 1 for a size or a value that the setting cannot have, 800 for a pipe that is in use.
  void set(CoredumpSetting setting, const void* value, std::size_t size);

  [[nodiscard]] bool is_on_exception() const { return is_on_exception_; }
  void enable_on_exception() { is_on_exception_ = true; }

 private:
  [[nodiscard]] bool get_switch(CoredumpSetting setting) const;
  void set_switch(CoredumpSetting setting, bool value);
  [[nodiscard]] std::string get_text(CoredumpSetting setting) const;

  bool is_on_exception_ = false;
  bool triggers_host_ = true;
  bool is_user_triggered_ = false;
  unsigned flags_ = 0;  // CUCoredumpGenerationFlags; all that leave memory out are the setting `lightweight`
  // Empty: the default, which has the number of the process.
  std::optional<std::string> file_;
  std::optional<std::string> pipe_;
};

}  // namespace memlake::emulator
