#pragma once

// An event of several processes (CU_EVENT_INTERPROCESS): its records, in a file that every process maps.
//
// Each record has a number, and a slot where its end is noted. While a record is unfinished, the process that made it
// holds a file lock for the slot. The kernel drops the lock when the process dies, and the record counts as finished.

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>

#include "system/ipc_handle.hpp"

namespace memlake::emulator {

class SharedEvent {
 public:
  /// Makes an event for other processes. Throws Refusal.
  static std::shared_ptr<SharedEvent> make(int device);
  /// Opens an event of another process. Throws Refusal as open_ipc_handle().
  static std::shared_ptr<SharedEvent> open(const void* handle);
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;

  void write_handle(void* bytes) const { write_ipc_handle(bytes, file_, header_); }
  [[nodiscard]] int device() const { return header_.device; }
  [[nodiscard]] bool is_imported() const { return is_imported_; }

  /// Begins a record, which is the newest one from now on; returns its number. Throws Refusal if too many are
  /// unfinished.
  std::uint64_t begin_record();
  void finish_record(std::uint64_t number) noexcept;

  /// The number of the newest record of any process; 0 if there is none.
  [[nodiscard]] std::uint64_t newest() const;
  /// Whether a record of another process has finished, or died with its process.
  [[nodiscard]] bool is_over(std::uint64_t number) const;
  /// Waits until is_over(). Must be called without the driver's lock.
  void wait(std::uint64_t number) const;

  /// The process that made the event has destroyed it.
  void note_destroyed() noexcept;
  [[nodiscard]] bool is_destroyed() const;

 private:
  struct State;

  SharedEvent(OwnedFile file, const IpcHeader& header, bool is_imported);
  void wake() const noexcept;

  OwnedFile file_;
  IpcHeader header_;
  bool is_imported_;
  State* state_ = nullptr;
  std::set<std::uint64_t> own_;  // unfinished records of this process
};

}  // namespace memlake::emulator
