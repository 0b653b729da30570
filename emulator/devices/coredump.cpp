#include "devices/coredump.hpp"

#include <unistd.h>

#include <cstring>

namespace memlake::emulator {

namespace {

constexpr std::size_t kTextBytes = 1024;      // 1023 characters and a NUL
constexpr unsigned kLightweight = 0b10'1111;  // images, global, shared, local and constant memory are left out
constexpr unsigned kSkipAbort = 1U << 4;
constexpr unsigned kKnownDumpFlags = kLightweight | kSkipAbort;

bool is_text(CoredumpSetting setting) { return setting == CoredumpSetting::file || setting == CoredumpSetting::pipe; }

std::string with_host_and_process(const char* beginning) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return text(beginning, ".", static_cast<const char*>(host), ".", getpid());
}

}  // namespace

CoredumpSetting CoredumpSettings::checked(int setting) {
  if (setting < static_cast<int>(CoredumpSetting::on_exception) ||
      setting > static_cast<int>(CoredumpSetting::generation_flags))
    invalid("core dumps have no setting ", setting);
  return static_cast<CoredumpSetting>(setting);
}

std::size_t CoredumpSettings::size_of(CoredumpSetting setting) {
  if (is_text(setting)) return kTextBytes;
  return setting == CoredumpSetting::generation_flags ? sizeof(unsigned) : sizeof(bool);
}

bool CoredumpSettings::get_switch(CoredumpSetting setting) const {
  switch (setting) {
    case CoredumpSetting::on_exception:
      return is_on_exception_;
    case CoredumpSetting::trigger_host:
      return triggers_host_;
    case CoredumpSetting::user_trigger:
      return is_user_triggered_;
    default:
      return (flags_ & kLightweight) == kLightweight;
  }
}

void CoredumpSettings::set_switch(CoredumpSetting setting, bool value) {
  switch (setting) {
    case CoredumpSetting::on_exception:
      is_on_exception_ = value;
      break;
    case CoredumpSetting::trigger_host:
      triggers_host_ = value;
      break;
    case CoredumpSetting::user_trigger:
      is_user_triggered_ = value;
      break;
    default:
      flags_ = value ? flags_ | kLightweight : flags_ & ~kLightweight;
  }
}

std::string CoredumpSettings::get_text(CoredumpSetting setting) const {
  if (setting == CoredumpSetting::file) return file_ ? *file_ : with_host_and_process("core.cuda");
  return pipe_ ? *pipe_ : with_host_and_process("corepipe.cuda");
}

void CoredumpSettings::get(CoredumpSetting setting, void* value, std::size_t size) const {
  if (is_text(setting)) {
    const std::string found = get_text(setting);
    if (size <= found.size())
      invalid("the text has ", found.size(), " characters and a NUL, the buffer ", size, " bytes");
    std::memcpy(value, found.c_str(), found.size() + 1);
    return;
  }
  if (size < size_of(setting)) invalid("the value has ", size_of(setting), " bytes, the buffer ", size);
  if (setting == CoredumpSetting::generation_flags) {
    std::memcpy(value, &flags_, sizeof flags_);
  } else {
    const bool found = get_switch(setting);
    std::memcpy(value, &found, sizeof found);
  }
}

void CoredumpSettings::set(CoredumpSetting setting, const void* value, std::size_t size) {
  if (is_text(setting)) {
    if (size > kTextBytes) invalid("a text has at most ", kTextBytes, " bytes, not ", size);
    const std::string wanted(static_cast<const char*>(value), strnlen(static_cast<const char*>(value), size));
    if (wanted.empty() || wanted.size() >= kTextBytes)
      invalid("the text has ", wanted.size(), " characters; it must have 1 to ", kTextBytes - 1);
    if (setting == CoredumpSetting::pipe && is_user_triggered_)
      refuse(CUDA_ERROR_NOT_PERMITTED, "the name of the pipe cannot change while core dumps can be triggered by it");
    (setting == CoredumpSetting::file ? file_ : pipe_) = wanted;
    return;
  }
  if (size != size_of(setting)) invalid("the value has ", size_of(setting), " bytes, not ", size);
  if (setting == CoredumpSetting::generation_flags) {
    unsigned wanted = 0;
    std::memcpy(&wanted, value, sizeof wanted);
    if ((wanted & ~kKnownDumpFlags) != 0) invalid("flags ", wanted, " are unknown");
    flags_ = wanted;
  } else {
    set_switch(setting, *static_cast<const unsigned char*>(value) != 0);
  }
}

}  // namespace memlake::emulator
