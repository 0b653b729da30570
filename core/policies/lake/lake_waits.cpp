#include "policies/lake/lake_waits.hpp"

#include "base/error.hpp"

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
  } else if (!clock.wait(run.freed())) {
    throw Error(ErrorKind::out_of_memory, "free memory belongs to a stream that is capturing a graph");
  }
}

}  // namespace memlake
