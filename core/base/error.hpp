#pragma once

// The one error type of the core. Callers decide by its kind; its text is for users.

#include <exception>
#include <memory>
#include <string>

namespace memlake {

enum class ErrorKind {
  // memlake refused, before any driver call
  config,            ///< a library that cannot be loaded, or settings that make no sense
  invalid_argument,  ///< an argument outside the allowed values
  closed,            ///< use of an owner after close()
  invalid_free,      ///< closed twice, or closed while something in it is still in use
  // the driver answered
  out_of_memory,       ///< physical memory is exhausted: giving some back may help
  address_exhaustion,  ///< addresses are exhausted, or cannot be reserved like this: giving memory back does not help
  sticky,              ///< earlier device work failed and the context is lost: only a new process helps
  contract_violation,  ///< the emulator refused a call that would crash or corrupt memory; nothing was changed
  not_ready,           ///< the work is not complete; an answer, not a failure
  driver_gone,         ///< not initialised, forked, or already shut down: the object is gone, no undo is needed
  invalid_call,        ///< the driver refused the arguments
  other,
};

/// The kind's name as Python shows it.
const char* kind_name(ErrorKind kind) noexcept;

/// The complete answer of the driver to a failed call.
struct DriverAnswer {
  const char* call;     ///< CUDA's name of the function; static
  int code;             ///< the CUresult
  std::string name;     ///< its name in cuda.h
  std::string meaning;  ///< its usual meaning for a user of memlake
  std::string detail;   ///< the driver's own explanation; "" if it gives none
};

class Error : public std::exception {
 public:
  /// memlake refused.
  Error(ErrorKind kind, std::string message);
  /// The driver answered.
  Error(ErrorKind kind, DriverAnswer answer);
  Error(const Error&) noexcept = default;
  Error& operator=(const Error&) noexcept = default;
  ~Error() override;  // defined in the .cpp like what(), so that code that throws need not compile it

  ErrorKind kind() const noexcept { return kind_; }
  /// Null unless the driver answered.
  const DriverAnswer* answer() const noexcept { return answer_.get(); }
  const char* what() const noexcept override;

 private:
  // Shared and constant: copying an exception must not throw.
  ErrorKind kind_;
  std::shared_ptr<const DriverAnswer> answer_;
  std::shared_ptr<const std::string> message_;
};

}  // namespace memlake
