#include "policies/lake/lake_waits.hpp"

namespace memlake {

void LakeWaits::let_wait(StreamId waiter, const LakeBlock& run) {
  switch (clock.reuse(waiter, run.freed(), rules)) {
    case StreamClock::Reuse::own:
    case StreamClock::Reuse::seen:
      return;
    case StreamClock::Reuse::ordered:
      ++reused_by_event;
      return;
    case StreamClock::Reuse::passed:
      ++reused_opportunistically;
      return;
    case StreamClock::Reuse::none:
      break;
  }
  if (rules.allow_internal_dependencies) {
    clock.let_wait(waiter, run.stream);
    ++stream_waits;
  } else {
    clock.wait_or_refuse(run.freed());
  }
}

}  // namespace memlake
