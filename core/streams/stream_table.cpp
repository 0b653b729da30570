#include "streams/stream_table.hpp"

#include <atomic>

#include "base/error.hpp"

namespace memlake {

std::uint64_t this_thread_number() noexcept {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t number = ++last;
  return number;
}

bool StreamTable::is_same(const Entry& entry, const StreamName& stream) {
  if (entry.handle != stream.handle || entry.device != stream.device || entry.thread != stream.thread) return false;
  // Two owners never hold one handle at the same time, so an owner that is gone had another stream.
  if (entry.end == nullptr) return true;
  const auto owner = entry.owner.lock();
  return stream.owner != nullptr ? owner == stream.owner : owner != nullptr && owner->is_open();
}

std::optional<StreamId> StreamTable::known_number_of(const StreamName& stream) const {
  if (stream.device == 0 && (stream.handle == nullptr || stream.handle == kLegacyStream)) return 0;
  // From the back: of two streams with one handle the newer is meant. Programs use a handful of streams.
  for (std::size_t i = streams_.size(); i-- > 1;)
    if (is_same(streams_[i], stream)) return static_cast<StreamId>(i);
  return std::nullopt;
}

StreamId StreamTable::number_of(const StreamName& stream) {
  if (stream.handle == kPerThreadStream && stream.thread == 0)
    throw Error(ErrorKind::config,
                "the per-thread default stream is another stream in every thread, so a pool cannot order memory by it; "
                "make a stream and use that");
  if (const auto known = known_number_of(stream)) return *known;
  const CUstream handle = stream.handle == kLegacyStream ? nullptr : stream.handle;
  streams_.push_back({.handle = handle,
                      .device = stream.device,
                      .owner = stream.owner,
                      .end = stream.owner == nullptr ? nullptr : stream.owner->end(),
                      .thread = stream.thread});
  latest_ = 0;  // of two streams with one handle the newer is meant
  return static_cast<StreamId>(streams_.size() - 1);
}

StreamUse StreamTable::use(StreamId stream) const {
  const Entry& entry = streams_[stream];
  return {entry.handle, entry.end.get(), entry.thread != 0 && entry.thread != this_thread_number()};
}

std::optional<StreamId> StreamTable::find(CUstream created) const {
  const auto found = known_number_of(StreamName{.handle = created});
  latest_ = found.value_or(0);
  return found;
}

void StreamTable::note_end(StreamId stream) {
  Entry& entry = streams_[stream];
  if (entry.end != nullptr) return;
  entry.end = std::make_shared<StreamEnd>();
  entry.end->is_over = true;
}

void StreamTable::note_complete(StreamId stream) {
  if (const auto& end = streams_[stream].end; end != nullptr && end->is_over) end->is_complete.store(true);
}

}  // namespace memlake
