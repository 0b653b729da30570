#pragma once

// The options of the driver's compiler and linker. The emulator compiles nothing: it checks the options, and writes the
// logs, in which programs look for the reason of an error.

#include <span>
#include <string>

#include "basics/refusal.hpp"

namespace memlake::emulator {

class JitOptions {
 public:
  /// Throws 1 if there are options without values, or an option is unknown.
  JitOptions(unsigned count, const int* options, void** values);

  /// Runs `body`. Then writes the logs: empty ones, or the sentence of a Refusal as the error log.
  template <class Body>
  void log(Body&& body) const {
    try {
      body();
    } catch (const Refusal& refusal) {
      write_logs(refusal.sentence);
      throw;
    }
    write_logs("");
  }

 private:
  void write_logs(const std::string& error) const;
  void write_log(int buffer_option, int size_option, const std::string& text) const;

  std::span<const int> options_;
  void** values_;
};

}  // namespace memlake::emulator
