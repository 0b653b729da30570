#include "streams/stream_arrivals.hpp"

namespace memlake {

namespace {

// Streams of other libraries end without a last event; only a wait for their context tells whether their work is
// complete. So many of them may keep their numbers before the pool waits.
constexpr std::size_t kMostUnknownEnds = 64;

}  // namespace

StreamId StreamArrivals::number_of(StreamName stream) {
  // The owner's stream may be known by its handle already; or another one was, which had the handle before.
  if (stream.owner != nullptr && streams_.has_foreign(stream.handle))
    stream.identity = stream_identity(*places_.devices().front(), stream.handle);
  return streams_.number_of(stream, [this](StreamId ended) { return is_complete(ended); });
}

void StreamArrivals::make_room_for(const StreamName& arriving, const std::function<std::vector<bool>()>& in_use) {
  if (streams_.are_lasting()) return;
  const auto handle = reinterpret_cast<std::uintptr_t>(arriving.handle);
  forgotten_.note_arrival(arriving.identity != 0 ? arriving.identity : handle);
  const auto kept = [this] { return streams_.size() - streams_.forgotten_count(); };
  if (!forgotten_.is_look_due(kept())) return;
  const bool may_wait = forgotten_.is_wait_due(kept());
  if (!forgotten_.do_return()) forget_unused(in_use(), may_wait);
  forgotten_.end_look(kept(), may_wait);
  streams_.begin_period();
}

void StreamArrivals::forget_unused(const std::vector<bool>& in_use, bool may_wait) {
  for (std::size_t i = 1; i < streams_.size(); ++i) {
    const auto stream = static_cast<StreamId>(i);
    // A wait for another context than the primary one is not remembered, and each of them would need its own.
    if (!streams_.may_be_forgotten(stream) || in_use[i] || streams_.context_of(stream) != 0) continue;
    if (!progress_.has_completed(stream)) {
      if (!may_wait) continue;
      if (!waits_.wait_for_context(stream)) break;
    }
    forgotten_.note_forgotten(streams_.identity_of(stream));
    streams_.forget(stream);
  }
}

bool StreamArrivals::is_complete(StreamId ended) {
  if (progress_.has_completed(ended)) return true;
  if (streams_.use(ended).last_event() != nullptr || ++unknown_ends_ < kMostUnknownEnds) return false;
  unknown_ends_ = 0;
  return waits_.wait_for_context(ended);
}

}  // namespace memlake
