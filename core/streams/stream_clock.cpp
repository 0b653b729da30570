#include "streams/stream_clock.hpp"

#include "base/error.hpp"

namespace memlake {
namespace {

/// The answer is that this memory cannot be had now.
[[noreturn]] void refuse_because_of_capture() {
  throw Error(ErrorKind::out_of_memory, "free memory belongs to a stream that is capturing a graph");
}

}  // namespace

void StreamClock::end_epoch(StreamId stream, OfStream& of, Stamp stamp) {
  if (stamp < of.open) return;
  of.ended.emplace_back(of.open, events_.record_point(stream));
  ++of.open;
}

bool StreamClock::has_passed(StreamId stream, Stamp stamp) {
  OfStream& known = of(stream);
  if (stamp <= known.passed) return true;
  if (stamp >= known.open && !events_.progress().can_record(stream)) return false;
  end_epoch(stream, known, stamp);
  while (!known.ended.empty() && events_.is_done(known.ended.front().second)) {
    known.passed = known.ended.front().first;
    known.ended.pop_front();
  }
  return stamp <= known.passed;
}

void StreamClock::look(StreamId stream) {
  OfStream& known = of(stream);
  if (!events_.progress().is_idle(stream)) return;
  for (const auto& [stamp, ticket] : known.ended) events_.drop(ticket);
  known.ended.clear();
  known.passed = known.open++;
}

StreamClock::Reuse StreamClock::known_reuse(StreamId stream, const Freed& freed, const ReuseRules& rules) const {
  if (freed.stream == stream) return Reuse::own;
  if (rules.follow_event_dependencies && events_.progress().is_behind(stream, freed.stream, freed.at.tick))
    return Reuse::ordered;
  return events_.progress().was_waited_for(freed.stream, freed.at.tick) ? Reuse::seen : Reuse::none;
}

StreamClock::Reuse StreamClock::reuse(StreamId stream, const Freed& freed, const ReuseRules& rules) {
  const Reuse known = known_reuse(stream, freed, rules);
  const bool may_ask = known == Reuse::none && rules.allow_opportunistic;
  return may_ask && has_passed(freed) ? Reuse::passed : known;
}

bool StreamClock::wait(StreamId stream, Stamp stamp) {
  OfStream& known = of(stream);
  if (stamp <= known.passed) return true;
  if (stamp >= known.open && events_.progress().is_capturing(stream)) return false;
  end_epoch(stream, known, stamp);
  while (stamp > known.passed) {
    if (!events_.has_point(known.ended.front().second)) return false;
    events_.wait(known.ended.front().second);
    known.passed = known.ended.front().first;
    known.ended.pop_front();
  }
  return true;
}

void StreamClock::wait_or_refuse(const Freed& freed) {
  if (!wait(freed)) refuse_because_of_capture();
}

void StreamClock::let_wait(StreamId waiter, StreamId stream) {
  if (!events_.progress().can_record(stream)) refuse_because_of_capture();
  const EventSource::Ticket ticket = events_.record_point(stream);
  try {
    if (!events_.has_point(ticket)) refuse_because_of_capture();
    events_.let_wait(waiter, ticket);
  } catch (...) {
    events_.drop(ticket);
    throw;
  }
  events_.drop(ticket);  // the wait is queued; the event may be recorded anew
}

}  // namespace memlake
