#include "work.hpp"

#include <chrono>

#include "refusal.hpp"

namespace memlake::emulator {

void Completion::finish() {
  static const auto start = std::chrono::steady_clock::now();
  is_done = true;
  stream = nullptr;
  milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::string Work::describe() const { return text(name, " (call ", origin.sequence, ", thread ", origin.thread, ")"); }

const Work* InFlight::user_of(std::uint64_t address, std::uint64_t size, bool only_running) const {
  for (const Work* work : all_) {
    if (only_running && !work->is_running) continue;
    for (const Touch& touch : work->touches)
      if (touch.overlaps(address, size)) return work;
  }
  return nullptr;
}

const Work* InFlight::user_not_before(const Clock& point, std::uint64_t address, std::uint64_t size) const {
  for (const Work* work : all_) {
    if (point.covers(work->stream, work->position)) continue;
    for (const Touch& touch : work->touches)
      if (touch.overlaps(address, size)) return work;
  }
  return nullptr;
}

}  // namespace memlake::emulator
