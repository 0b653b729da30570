#pragma once

// The ledger counts calls and keeps violations and warnings. It has no list of existing objects: their owners are
// queried when the ledger is written (ledger_output.cpp).

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "basics/origin.hpp"
#include "driver/cuda_abi.hpp"

namespace memlake::emulator {

/// Every exported symbol; several symbols can be versions of one function.
enum class Call : unsigned {
#define F(base, symbol, since, parameters, arguments) symbol,
#define S(base, symbol, since, suffix, parameters, arguments) symbol,
#define U(base, symbol, since) symbol,
#define V(base, symbol, since, suffix) symbol,
#include "cuda/functions.inc"
#undef F
#undef S
#undef U
#undef V
  control,  ///< a function of memlake_emulator.h; not counted
  count_
};

/// CUDA's name of the function: the same for all its versions.
const char* name_of(Call call);

struct Remark {
  Origin origin;
  int code;
  std::string sentence;
};

class Ledger {
 public:
  /// Counts a call and returns its origin. Lock-free.
  Origin note_call(Call call, const void* caller) {
    counts_[static_cast<std::size_t>(call)].fetch_add(1, std::memory_order_relaxed);
    return {sequence_.fetch_add(1, std::memory_order_relaxed) + 1, name_of(call), this_thread_id(), caller};
  }

  /// Keeps the sentence and prints it to stderr.
  void note_violation(const Origin& origin, int code, const std::string& sentence);
  void note_warning(const Origin& origin, const std::string& sentence);

  /// A warning about a function that is not emulated: once for each function, because a program may call it in a loop.
  void note_unemulated(Call call, const Origin& origin, const std::string& sentence);

  /// Every later refusal is written to stderr (explain=on).
  void explain_refusals() { explains_ = true; }
  /// Writes a refusal if that was asked for. Lock-free.
  void explain(const char* call, int code, const std::string& sentence) const;

  void reset();

  [[nodiscard]] std::map<std::string, std::uint64_t> calls() const;
  [[nodiscard]] const std::vector<Remark>& violations() const { return violations_; }
  [[nodiscard]] const std::vector<Remark>& warnings() const { return warnings_; }

 private:
  std::atomic<std::uint64_t> sequence_ = 0;
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Call::count_)> counts_{};
  std::vector<Remark> violations_;
  std::vector<Remark> warnings_;
  std::set<Call> unemulated_;  // functions that have a warning
  std::atomic<bool> explains_ = false;
};

}  // namespace memlake::emulator
