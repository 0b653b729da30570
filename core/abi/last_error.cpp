#include "abi/last_error.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/live_pool.hpp"

namespace memlake::abi {
namespace {

// Of fixed size and without a destructor: a thread may fail while it ends, and a failure for lack of memory needs none.
struct LastError {
  int code;
  std::array<char, 2048> sentence;
};

LastError& of_this_thread() noexcept {
  thread_local LastError last{MEMLAKE_OK, {}};
  return last;
}

}  // namespace

void remember(int code, const char* sentence) noexcept {
  LastError& last = of_this_thread();
  last.code = code;
  const std::size_t length = std::min(std::strlen(sentence), last.sentence.size() - 1);
  std::memcpy(last.sentence.data(), sentence, length);
  last.sentence[length] = '\0';
}

int code_of(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::config:
      return MEMLAKE_ERROR_CONFIG;
    case ErrorKind::invalid_argument:
      return MEMLAKE_ERROR_INVALID_ARGUMENT;
    case ErrorKind::closed:
      return MEMLAKE_ERROR_CLOSED;
    case ErrorKind::invalid_free:
      return MEMLAKE_ERROR_INVALID_FREE;
    case ErrorKind::out_of_memory:
      return MEMLAKE_ERROR_OUT_OF_MEMORY;
    case ErrorKind::driver_gone:
      return MEMLAKE_ERROR_DRIVER_GONE;
    case ErrorKind::address_exhaustion:
    case ErrorKind::sticky:
    case ErrorKind::contract_violation:
    case ErrorKind::not_ready:
    case ErrorKind::invalid_call:
    case ErrorKind::other:
      return MEMLAKE_ERROR_DRIVER;
  }
  return MEMLAKE_ERROR_UNKNOWN;
}

static void remember_shortage(const Shortage& shortage) noexcept {
  try {
    remember(MEMLAKE_ERROR_OUT_OF_MEMORY, to_text(shortage).c_str());
  } catch (...) {
    remember(MEMLAKE_ERROR_OUT_OF_MEMORY, "no memory, neither on the device nor on the host to say why");
  }
}

int remember_current() noexcept {
  int code = MEMLAKE_ERROR_UNKNOWN;
  try {
    throw;
  } catch (const Error& error) {
    code = code_of(error.kind());
    remember(code, error.what());
  } catch (const NoMemory& error) {
    code = MEMLAKE_ERROR_OUT_OF_MEMORY;
    remember_shortage(error.shortage);
  } catch (const std::bad_alloc&) {
    remember(code, "the host has no memory left for the pool's own books");
  } catch (const std::exception& error) {
    remember(code, error.what());
  } catch (...) {
    remember(code, "an unknown failure inside memlake");
  }
  return code;
}

}  // namespace memlake::abi

extern "C" {

int memlake_abi_version(void) { return MEMLAKE_ABI_VERSION; }

const char* memlake_last_error(void) { return memlake::abi::of_this_thread().sentence.data(); }

int memlake_last_error_code(void) { return memlake::abi::of_this_thread().code; }
}
