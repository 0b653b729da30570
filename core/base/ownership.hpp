#pragma once

// Ownership: the right to make an owner's undo call. Only one thread can take it. If close() fails, the owner keeps it.

#include <atomic>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/process.hpp"
#include "base/undo_failure.hpp"

namespace memlake {

/// Can be moved like its owner: the object moved from owns nothing.
class Ownership {
 public:
  Ownership() = default;
  Ownership(Ownership&& other) noexcept : is_held_(other.is_held_.exchange(false)) {}
  Ownership& operator=(Ownership&&) = delete;

  bool is_held() const noexcept { return is_held_.load(); }

  void require(const char* noun) const {
    if (!is_held()) throw Error(ErrorKind::closed, std::string(noun) + " is closed");
  }

  /// Takes the right to undo; Error(invalid_free) if it was taken before. The caller undoes or gives the right back.
  void take(const char* noun) {
    if (!is_held_.exchange(false)) throw Error(ErrorKind::invalid_free, std::string(noun) + " is closed already");
  }
  void give_back() noexcept { is_held_.store(true); }

  /// For close(): runs `undo`. If `undo` throws, the owner keeps the right and passes the error on, so that close() can
  /// be called again.
  template <class Undo>
  void end(const char* noun, Undo&& undo) {
    take(noun);
    try {
      std::forward<Undo>(undo)();
    } catch (...) {
      give_back();
      throw;
    }
  }

  /// For destructors: runs `undo` unless the right was taken before or the process exits. Reports failures to the hook.
  template <class Undo>
  void end_quietly(Undo&& undo) noexcept {
    if (!is_held_.exchange(false) || is_exiting()) return;
    try {
      std::forward<Undo>(undo)();
    } catch (const Error& error) {
      report_undo_failure(error);
    }
  }

  /// end_quietly() for an object that another one may close later: if `undo` fails, the owner has the right again, and
  /// `keep` moves the owner to where it is kept.
  template <class Undo, class Keep>
  void end_or_keep(Undo&& undo, Keep&& keep) noexcept {
    if (!is_held_.exchange(false) || is_exiting()) return;
    try {
      std::forward<Undo>(undo)();
    } catch (const Error& error) {
      report_undo_failure(error);
      give_back();
      std::forward<Keep>(keep)();
    }
  }
  /// The right is gone without an undo call.
  void give_up() noexcept { is_held_.store(false); }

 private:
  std::atomic<bool> is_held_{true};
};

}  // namespace memlake
