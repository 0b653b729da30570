#include "work/work.hpp"

#include <algorithm>
#include <chrono>

#include "basics/refusal.hpp"

namespace memlake::emulator {

void Completion::finish() {
  static const auto start = std::chrono::steady_clock::now();
  is_done = true;
  stream = nullptr;
  milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::string WorkLabel::describe() const {
  return text(name, " (call ", origin.sequence, ", thread ", origin.thread, ")");
}

const Work* InFlight::user_of(std::uint64_t address, std::uint64_t size, bool only_running) const {
  for (const Work* work : all_) {
    if (only_running && !work->is_running) continue;
    for (const Touch& touch : work->touches)
      if (touch.overlaps(address, size)) return work;
  }
  return nullptr;
}

std::vector<CompletionRef> InFlight::users_of(std::uint64_t address, std::uint64_t size) const {
  std::vector<CompletionRef> users;
  for (const Work* work : all_)
    if (std::ranges::any_of(work->touches, [&](const Touch& touch) { return touch.overlaps(address, size); }))
      users.push_back(work->completion);
  return users;
}

}  // namespace memlake::emulator
