#include "work/streams.hpp"

#include <algorithm>
#include <utility>

#include "basics/handles.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kStreamBase = 0x05D'0000'0000'0000;  // a distinct range; values are never reused

CompletionRef done_now() {
  auto completion = std::make_shared<Completion>();
  completion->finish();
  return completion;
}

}  // namespace

Stream& Streams::add(Context& context, std::uint64_t view, Stream::Kind kind, unsigned flags, int priority,
                     const Origin& origin) {
  const std::uint64_t handle = kStreamBase + kHandleStep * next_stream_++;
  std::shared_ptr<Stream> stream(new Stream{.handle = handle,
                                            .kind = kind,
                                            .context = context.handle,
                                            .device = context.device,
                                            .flags = flags,
                                            .priority = priority,
                                            .made_by = origin,
                                            .view = view});
  order_.begin(handle);
  Stream& made = *streams_.emplace(handle, std::move(stream)).first->second;
  for (const std::uint64_t group : {context.handle, view})
    if (const auto awaited = awaited_.find(group); awaited != awaited_.end()) wait_for(made, awaited->second, origin);
  return made;
}

Stream& Streams::create(Context& context, std::uint64_t view, unsigned flags, int priority, const Origin& origin) {
  if (flags > CU_STREAM_NON_BLOCKING) invalid("stream flags ", flags, " are not 0 or 1 (NON_BLOCKING)");
  return add(context, view, Stream::Kind::created, flags, std::clamp(priority, kGreatestPriority, kLeastPriority),
             origin);
}

Stream& Streams::default_stream(Context& context, std::uint64_t view, Stream::Kind kind) {
  const Key key{view != 0 ? view : context.handle, kind == Stream::Kind::legacy ? 0 : this_thread_id()};
  auto& stream = defaults_[key];
  if (stream == nullptr) stream = &add(context, view, kind, CU_STREAM_DEFAULT, 0, Origin{.call = "the driver"});
  return *stream;
}

Stream& Streams::find(CUstream handle) {
  const auto value = reinterpret_cast<std::uint64_t>(handle);
  if (value <= CU_STREAM_PER_THREAD) {
    const bool is_per_thread = value == CU_STREAM_PER_THREAD || (value == 0 && this_thread.default_is_per_thread);
    return default_stream(contexts_.current(), contexts_.current_view(),
                          is_per_thread ? Stream::Kind::per_thread : Stream::Kind::legacy);
  }
  const auto found = streams_.find(value);
  if (found != streams_.end() && !found->second->is_destroyed) {
    contexts_.check_alive(found->second->context);
    return *found->second;
  }
  if (of_dropped_green_.contains(value))
    refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the green context of the stream ", Hex{value}, " was destroyed");
  const bool was_issued = value > kStreamBase && value < kStreamBase + kHandleStep * next_stream_;
  if (!was_issued || of_dropped_contexts_.contains(value))
    refuse(CUDA_ERROR_INVALID_HANDLE, "there is no stream ", Hex{value},
           was_issued ? "; its context was destroyed" : "");
  throw Violation{text("stream ", Hex{value}, " is used after cuStreamDestroy"), CUDA_ERROR_INVALID_HANDLE};
}

void Streams::destroy(Stream& stream) {
  if (stream.kind != Stream::Kind::created) refuse(CUDA_ERROR_INVALID_HANDLE, "a default stream cannot be destroyed");
  stream.is_destroyed = true;
  wake_worker(stream);
  erase_if_finished(stream);
}

void Streams::erase_if_finished(const Stream& stream) {
  if (!stream.is_destroyed || !stream.queue.empty()) return;
  const std::uint64_t handle = stream.handle;  // the stream may go with its entry
  // The legacy stream waits for blocking streams, also for those that are gone.
  if (stream.is_blocking() && contexts_.find(stream.context) != nullptr) {
    Clock& gone = of_gone_streams_[stream.group()];
    gone.merge(stream.before);
    if (gone.size() > kMostGoneStreams) gone.forget([&](std::uint64_t other) { return order_.is_closed(other); });
  }
  order_.end(handle, stream.position, stream.group());
  streams_.erase(handle);
}

std::vector<CompletionRef> Streams::implicit_waits(const Stream& stream) const {
  std::vector<CompletionRef> waits;
  if (!stream.is_blocking()) return waits;
  for (const auto& [handle, other] : streams_)
    if (is_legacy_pair(stream, *other) && is_pending(other->last)) waits.push_back(other->last);
  return waits;
}

bool Streams::is_legacy_pair(const Stream& one, const Stream& other) {
  return (one.kind == Stream::Kind::legacy) != (other.kind == Stream::Kind::legacy) && one.group() == other.group() &&
         one.is_blocking() && other.is_blocking();
}

const Clock& Streams::before(Stream& stream) {
  if (stream.is_blocking())
    for (const auto& [handle, other] : streams_)
      if (is_legacy_pair(stream, *other) && !stream.before.covers(handle, other->position))
        stream.before.merge(other->before);
  if (stream.kind == Stream::Kind::legacy)
    if (const auto gone = of_gone_streams_.find(stream.group()); gone != of_gone_streams_.end()) {
      stream.before.merge(gone->second);
      of_gone_streams_.erase(gone);
    }
  return stream.before;
}

bool Streams::comes_before(Stream& stream, std::uint64_t other, std::uint64_t position) {
  return order_.has_seen(other, position) || before(stream).covers(other, position);
}

std::uint64_t Streams::next_position(Stream& stream) {
  before(stream);
  stream.before.note(stream.handle, ++stream.position);
  if (stream.before.size() > stream.sweep_above) {
    stream.before.forget([&](std::uint64_t handle) { return order_.is_closed(handle); });
    stream.sweep_above = std::max(kMostGoneStreams, 2 * stream.before.size());
  }
  return stream.position;
}

std::uint64_t Streams::next_moment(Stream& stream) {
  const bool is_done_at_once = order_.has_seen(before(stream));
  const std::uint64_t position = next_position(stream);
  if (is_done_at_once) order_.see(stream.handle, position);
  return position;
}

std::uint64_t Streams::take_turn(Stream& stream, const Origin& origin) {
  capture_rules.check_not_capturing(stream);
  // A moment is never pending. Work of other streams that it comes after must be: who waits for the moment, waits for
  // it.
  if (implicit_waits(stream).empty()) return next_moment(stream);
  enqueue(stream, Work{.name = origin.call, .origin = origin});
  return stream.position;
}

CompletionRef Streams::when_reached(Stream& stream, const Origin& origin, std::function<void()> at_end) {
  if (!is_done(stream)) {
    Work marker{.name = origin.call, .origin = origin, .at_end = std::move(at_end)};
    const CompletionRef completion = marker.completion;
    enqueue(stream, std::move(marker));
    return completion;
  }
  next_moment(stream);
  return done_now();
}

CompletionRef Streams::mark(Stream& stream, const char* name, const Origin& origin) {
  if (!implicit_waits(stream).empty()) {
    Work marker{.name = name, .origin = origin};
    CompletionRef completion = marker.completion;
    enqueue(stream, std::move(marker));
    return completion;
  }
  // An operation like any other, whether the work before it has finished or not.
  next_moment(stream);
  return is_pending(stream.last) ? stream.last : done_now();
}

Streams::Reached Streams::reached_by(std::uint64_t group) const {
  Reached reached{.point = order_.ended_of(group), .pending = {}};
  for (const auto& [view, green] : contexts_.all_green())
    if (green.primary == group) reached.point.merge(order_.ended_of(view));
  for (const auto& [handle, stream] : streams_) {
    if (!stream->is_of(group)) continue;
    reached.point.merge(stream->before);
    if (is_pending(stream->last)) reached.pending.push_back(stream->last);
  }
  return reached;
}

void Streams::wait_all(std::uint64_t group, const Reached& reached, const Origin& origin) {
  std::vector<std::shared_ptr<Stream>> streams;
  for (const auto& [handle, stream] : streams_)
    if (stream->is_of(group) && !stream->is_destroyed) streams.push_back(stream);
  for (const auto& stream : streams) wait_for(*stream, reached, origin);
  Reached& later = awaited_[group];
  std::erase_if(later.pending, [](const CompletionRef& completion) { return !is_pending(completion); });
  later.point.forget([&](std::uint64_t handle) { return order_.is_closed(handle); });
  later.point.merge(reached.point);
  later.pending.insert(later.pending.end(), reached.pending.begin(), reached.pending.end());
}

void Streams::wait_for(Stream& stream, const Reached& reached, const Origin& origin) {
  std::vector<CompletionRef> pending;
  for (const CompletionRef& completion : reached.pending)
    if (is_pending(completion)) pending.push_back(completion);
  if (!pending.empty()) enqueue(stream, Work{.name = origin.call, .origin = origin, .waits = std::move(pending)});
  stream.before.merge(reached.point);
  take_turn(stream, origin);
}

}  // namespace memlake::emulator
