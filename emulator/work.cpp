#include "work.hpp"

#include "refusal.hpp"

namespace memlake::emulator {

std::string Work::describe() const { return text(name, " (call ", origin.sequence, ", thread ", origin.thread, ")"); }

const Work* InFlight::user_of(std::uint64_t address, std::uint64_t size, bool only_running) const {
  for (const Work* work : all_) {
    if (only_running && !work->is_running) continue;
    for (const Touch& touch : work->touches)
      if (touch.overlaps(address, size)) return work;
  }
  return nullptr;
}

}  // namespace memlake::emulator
