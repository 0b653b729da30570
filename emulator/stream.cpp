#include "stream.hpp"

#include <algorithm>
#include <utility>

#include "handles.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kStreamBase = 0x05D'0000'0000'0000;  // a distinct range; values are never reused
constexpr std::uint64_t kEventBase = 0x0E7'0000'0000'0000;
constexpr std::size_t kMostGoneStreams = 64;  // that a clock may remember before it is swept

CompletionRef done_now() {
  auto completion = std::make_shared<Completion>();
  completion->finish();
  return completion;
}

}  // namespace

bool& default_is_per_thread() {
  static thread_local bool is_per_thread = false;
  return is_per_thread;
}

bool& is_in_host_function() {
  static thread_local bool is_in = false;
  return is_in;
}

Stream& Streams::add(Context& context, Stream::Kind kind, unsigned flags, int priority, const Origin& origin) {
  const std::uint64_t handle = kStreamBase + kHandleStep * next_stream_++;
  auto stream = std::make_shared<Stream>(Stream{.handle = handle,
                                                .kind = kind,
                                                .context = context.handle,
                                                .device = context.device,
                                                .flags = flags,
                                                .priority = priority,
                                                .made_by = origin});
  return *streams_.emplace(handle, std::move(stream)).first->second;
}

Stream& Streams::create(Context& context, unsigned flags, int priority, const Origin& origin) {
  if (flags > CU_STREAM_NON_BLOCKING) invalid("stream flags ", flags, " are not 0 or 1 (NON_BLOCKING)");
  return add(context, Stream::Kind::created, flags, std::clamp(priority, kGreatestPriority, kLeastPriority), origin);
}

Stream& Streams::default_stream(Context& context, Stream::Kind kind) {
  const Key key{context.handle, kind == Stream::Kind::legacy ? 0 : this_thread_id()};
  auto& stream = defaults_[key];
  if (stream == nullptr) stream = &add(context, kind, CU_STREAM_DEFAULT, 0, Origin{.call = "the driver"});
  return *stream;
}

Stream& Streams::find(CUstream handle) {
  const auto value = reinterpret_cast<std::uint64_t>(handle);
  if (value <= CU_STREAM_PER_THREAD) {
    const bool is_per_thread = value == CU_STREAM_PER_THREAD || (value == 0 && default_is_per_thread());
    return default_stream(contexts_.current(), is_per_thread ? Stream::Kind::per_thread : Stream::Kind::legacy);
  }
  const auto found = streams_.find(value);
  if (found != streams_.end() && !found->second->is_destroyed) {
    contexts_.check_alive(found->second->context);
    return *found->second;
  }
  const bool was_issued = value > kStreamBase && value < kStreamBase + kHandleStep * next_stream_;
  if (!was_issued || of_dropped_contexts_.contains(value))
    refuse(CUDA_ERROR_INVALID_HANDLE, "there is no stream ", Hex{value},
           was_issued ? "; its context was destroyed" : "");
  throw Violation{text("stream ", Hex{value}, " is used after cuStreamDestroy"), CUDA_ERROR_INVALID_HANDLE};
}

void Streams::destroy(Stream& stream) {
  if (stream.kind != Stream::Kind::created) refuse(CUDA_ERROR_INVALID_HANDLE, "a default stream cannot be destroyed");
  stream.is_destroyed = true;
  changed_.notify_all();
  erase_if_finished(stream);
}

void Streams::erase_if_finished(const Stream& stream) {
  if (!stream.is_destroyed || !stream.queue.empty()) return;
  const std::uint64_t handle = stream.handle;  // the stream may go with its entry
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
  return (one.kind == Stream::Kind::legacy) != (other.kind == Stream::Kind::legacy) && one.context == other.context &&
         one.is_blocking() && other.is_blocking();
}

const Clock& Streams::before(Stream& stream) {
  if (stream.is_blocking())
    for (const auto& [handle, other] : streams_)
      if (is_legacy_pair(stream, *other) && !stream.before.covers(handle, other->position))
        stream.before.merge(other->before);
  return stream.before;
}

std::uint64_t Streams::next_position(Stream& stream) {
  before(stream);
  stream.before.note(stream.handle, ++stream.position);
  if (stream.before.size() > kMostGoneStreams + streams_.size())
    stream.before.forget([&](std::uint64_t handle) { return !streams_.contains(handle); });
  return stream.position;
}

std::uint64_t Streams::take_turn(Stream& stream) {
  check_not_capturing(stream);
  return next_position(stream);
}

CompletionRef Streams::when_reached(Stream& stream, const Origin& origin, std::function<void()> at_end) {
  if (!is_done(stream)) {
    Work marker{.name = origin.call, .origin = origin, .at_end = std::move(at_end)};
    const CompletionRef completion = marker.completion;
    enqueue(stream, std::move(marker));
    return completion;
  }
  next_position(stream);
  return done_now();
}

void Streams::check_not_capturing(Stream& stream) {
  if (stream.capture != CU_STREAM_CAPTURE_STATUS_NONE) {
    stream.capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is capturing, and the emulator cannot record graphs");
  }
  if (stream.kind != Stream::Kind::legacy) return;
  for (const auto& [handle, other] : streams_)
    if (other->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE && other->context == stream.context && other->is_blocking())
      refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the default stream would wait for a stream that is capturing");
}

CUstreamCaptureMode& capture_mode_of_this_thread() {
  static thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

void Streams::check_safe_during_captures() {
  const CUstreamCaptureMode mode = capture_mode_of_this_thread();
  if (captures_ == 0 || mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
  bool is_forbidden = false;
  for (const auto& [handle, stream] : streams_) {
    if (stream->capture == CU_STREAM_CAPTURE_STATUS_NONE || stream->is_destroyed ||
        stream->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
      continue;
    const bool is_own = stream->capture_thread == this_thread_id();
    const bool is_global =
        mode == CU_STREAM_CAPTURE_MODE_GLOBAL && stream->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!is_own && !is_global) continue;
    stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    is_forbidden = true;
  }
  if (is_forbidden)
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
           "the call is not safe while a stream is capturing, and this thread is not in relaxed mode; the capture is "
           "spoilt");
}

void Streams::begin_capture(Stream& stream, CUstreamCaptureMode mode) {
  if (stream.kind == Stream::Kind::legacy)
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the legacy default stream cannot be captured");
  if (stream.capture != CU_STREAM_CAPTURE_STATUS_NONE) invalid("the stream is capturing already");
  stream.capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  stream.capture_id = next_capture_++;
  stream.capture_mode = mode;
  stream.capture_thread = this_thread_id();
  ++captures_;
}

void Streams::end_capture(Stream& stream) {
  const auto capture = std::exchange(stream.capture, CU_STREAM_CAPTURE_STATUS_NONE);
  if (capture == CU_STREAM_CAPTURE_STATUS_NONE) invalid("the stream is not capturing");
  --captures_;
  if (capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
    refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "work was refused during the capture");
  refuse(CUDA_ERROR_NOT_SUPPORTED, "the capture ended; the emulator has no graphs");
}

Event& Streams::create_event(Context& context, unsigned flags, const Origin& origin) {
  if ((flags & ~(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)) != 0)
    invalid("event flags ", flags, " are unknown");
  if ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0)
    invalid("an INTERPROCESS event must have DISABLE_TIMING as well");
  const std::uint64_t handle = kEventBase + kHandleStep * next_event_++;
  return events_.emplace(handle, Event{handle, context.handle, context.device->ordinal, flags, origin}).first->second;
}

void Streams::destroy_event(Event& event) { events_.erase(event.handle); }

Event& Streams::find_event(CUevent handle) {
  const auto value = reinterpret_cast<std::uint64_t>(handle);
  const auto found = events_.find(value);
  if (found == events_.end()) refuse(CUDA_ERROR_INVALID_HANDLE, "there is no event ", Hex{value}, " (any more)");
  contexts_.check_alive(found->second.context);
  return found->second;
}

void Streams::record(Event& event, Stream& stream, const Origin& origin) {
  if (event.context != stream.context)
    refuse(CUDA_ERROR_INVALID_HANDLE, "the event belongs to device ", event.device, ", the stream to device ",
           stream.device->ordinal, "; both must be of one context");
  check_not_capturing(stream);
  if (!implicit_waits(stream).empty()) {
    Work marker{.name = "cuEventRecord", .origin = origin};
    const CompletionRef completion = marker.completion;
    enqueue(stream, std::move(marker));
    event.recorded = completion;
  } else {
    event.recorded = is_pending(stream.last) ? stream.last : done_now();
  }
  event.before = before(stream);
}

void Streams::wait_event(Stream& stream, const Event& event, const Origin& origin) {
  check_not_capturing(stream);
  if (is_pending(event.recorded))
    enqueue(stream, Work{.name = "cuStreamWaitEvent", .origin = origin, .waits = {event.recorded}});
  stream.before.merge(event.before);
}

}  // namespace memlake::emulator
