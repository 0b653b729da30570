#include "replay/trace_events.hpp"

namespace memlake {

EventSource::Ticket TraceEvents::record(StreamId, const Block&) {
  ++records;
  if (mode_ == EventMode::immediate) return 0;
  const Ticket ticket = points_.size();
  points_.push_back({row_, false});
  if (mode_ == EventMode::recorded) of_id_[id_].push_back(ticket);
  return ticket;
}

EventSource::Ticket TraceEvents::record_point(StreamId) {
  ++records;
  if (mode_ == EventMode::immediate) return 0;
  const Ticket ticket = points_.size();
  // A trace tells when other streams had passed an allocation, not how far a stream is: as behind PyTorch's wait for
  // the stream of a block, its own work counts as done.
  points_.push_back({row_, mode_ == EventMode::recorded});
  return ticket;
}

void TraceEvents::let_wait(StreamId, Ticket) { ++stream_waits; }

bool TraceEvents::is_complete(Ticket ticket) const {
  switch (mode_) {
    case EventMode::immediate:
      return true;
    case EventMode::recorded:
      return ticket < done_before_ || points_[ticket].is_done;
    case EventMode::lag:
      return ticket < done_before_ || row_ >= points_[ticket].row + lag_;
  }
  return true;
}

bool TraceEvents::is_done(Ticket ticket) {
  ++queries;
  return is_complete(ticket);
}

void TraceEvents::wait(Ticket ticket) {
  ++synchronisations;
  if (is_complete(ticket)) return;
  ++host_waits;
  all_done();
}

CUstream TraceEvents::Handles::handle_of(StreamId stream) {
  if (device_ == nullptr) return nullptr;
  auto found = streams_.find(stream);
  if (found == streams_.end()) found = streams_.emplace(stream, StreamOwner(device_, true, 0)).first;
  return found->second.handle();
}

void TraceEvents::done(std::uint32_t id) {
  const auto found = of_id_.find(id);
  if (found == of_id_.end()) return;
  for (const Ticket ticket : found->second) points_[ticket].is_done = true;
  of_id_.erase(found);
}

}  // namespace memlake
