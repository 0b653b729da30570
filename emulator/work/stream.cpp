#include "work/stream.hpp"

#include <algorithm>
#include <utility>

#include "basics/handles.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kStreamBase = 0x05D'0000'0000'0000;  // a distinct range; values are never reused
constexpr std::uint64_t kEventBase = 0x0E7'0000'0000'0000;

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
  check_not_capturing(stream);
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

void Streams::check_not_implicit(const Stream& stream) const {
  if (stream.kind != Stream::Kind::legacy || captures_ == 0) return;
  for (const auto& [handle, other] : streams_)
    if (other->capture != nullptr && other->group() == stream.group() && other->is_blocking())
      refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the default stream would wait for a stream that is capturing");
}

void Streams::check_usable(Stream& stream) {
  if (stream.capture != nullptr && stream.capture->is_invalidated)
    refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier call has spoilt the capture of the stream; end it");
  try {
    check_not_implicit(stream);
  } catch (const Refusal&) {
    for (const auto& [handle, other] : streams_)
      if (other->capture != nullptr && other->group() == stream.group() && other->is_blocking())
        other->capture->is_invalidated = true;
    throw;
  }
}

void Streams::check_not_capturing(Stream& stream) {
  check_usable(stream);
  if (stream.capture == nullptr) return;
  stream.capture->is_invalidated = true;
  refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is capturing, and this call cannot be captured; the ",
         "capture is spoilt");
}

void Streams::check_safe_during_captures() {
  if (captures_ == 0) return;
  const CUstreamCaptureMode mode = this_thread.capture_mode;
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
  bool is_forbidden = false;
  for (const auto& [handle, stream] : streams_) {
    Capture* capture = stream->capture.get();
    if (capture == nullptr || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    const bool is_own = capture->thread == this_thread_id();
    const bool is_global = mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!is_own && !is_global) continue;
    capture->is_invalidated = true;
    is_forbidden = true;
  }
  if (is_forbidden)
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
           "the call is not safe while a stream is capturing, and this thread is not in relaxed mode; the capture is "
           "spoilt");
}

void Streams::begin_capture(Stream& stream, CUstreamCaptureMode mode, std::uint64_t graph, bool owns_graph,
                            CaptureTips tips) {
  stream.capture = std::make_shared<Capture>(Capture{.id = next_capture_++,
                                                     .mode = mode,
                                                     .thread = this_thread_id(),
                                                     .origin = stream.handle,
                                                     .graph = graph,
                                                     .owns_graph = owns_graph});
  stream.capture_tips = std::move(tips);
  ++captures_;
}

void Streams::end_capture(const CaptureRef& capture) {
  const CaptureRef ended = capture;  // the caller's may be the one of a stream
  ended->has_ended = true;
  --captures_;
  for (const auto& [handle, stream] : streams_) {
    if (stream->capture != ended) continue;
    stream->capture.reset();
    stream->capture_tips.clear();
  }
}

Event& Streams::create_event(Context& context, unsigned flags, const Origin& origin) {
  if ((flags & ~(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)) != 0)
    invalid("event flags ", flags, " are unknown");
  if ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0)
    invalid("an INTERPROCESS event must have DISABLE_TIMING as well");
  std::shared_ptr<SharedEvent> shared;
  if ((flags & CU_EVENT_INTERPROCESS) != 0) shared = SharedEvent::make(context.device->ordinal);
  return add_event(context, flags, std::move(shared), origin);
}

Event& Streams::add_event(const Context& context, unsigned flags, std::shared_ptr<SharedEvent> shared,
                          const Origin& origin) {
  const std::uint64_t handle = kEventBase + kHandleStep * next_event_++;
  Event made{handle, context.handle, context.device->ordinal, flags, origin};
  made.shared = std::move(shared);
  return events_.emplace(handle, std::move(made)).first->second;
}

Event& Streams::open_event(Context& context, const void* handle, const Origin& origin) {
  std::shared_ptr<SharedEvent> shared = SharedEvent::open(handle);
  if (shared->device() != context.device->ordinal)
    refuse(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "the event belongs to device ", shared->device(),
           ", the current context to device ", context.device->ordinal);
  return add_event(context, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, std::move(shared), origin);
}

void Streams::write_handle(const Event& event, void* handle) {
  if (event.shared == nullptr)
    refuse(CUDA_ERROR_INVALID_HANDLE, "the event was made without INTERPROCESS and DISABLE_TIMING");
  if (event.shared->is_imported())
    refuse(CUDA_ERROR_INVALID_HANDLE, "the event was opened from another process, which gives handles to it");
  event.shared->write_handle(handle);
}

void Streams::destroy_event(Event& event) {
  if (event.shared != nullptr && !event.shared->is_imported()) event.shared->note_destroyed();
  events_.erase(event.handle);
}

void Streams::check_not_destroyed(const Event& event) const {
  const Context* context = contexts_.find(event.context);
  if (event.shared == nullptr || !event.shared->is_imported() || context == nullptr ||
      context->device->config.relaxes(Switch::inflight_unmap))
    return;
  if (event.shared->is_destroyed())
    violate("event ", Hex{event.handle}, " is used after the process that made it has destroyed it");
}

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
  check_not_destroyed(event);
  event.capture.reset();
  event.capture_tips.clear();
  if (event.shared != nullptr) {
    // A marker of its own, which tells the other processes when it is reached.
    const std::uint64_t number = event.shared->begin_record();
    try {
      event.recorded = when_reached(stream, origin, [shared = event.shared, number] { shared->finish_record(number); });
    } catch (...) {
      event.shared->finish_record(number);
      throw;
    }
    if (event.recorded->is_done) event.shared->finish_record(number);
    event.own_record = number;
    told_others_.merge(stream.before);
    told_others_.forget([&](std::uint64_t handle) { return order_.is_closed(handle); });
  } else if (!implicit_waits(stream).empty()) {
    Work marker{.name = "cuEventRecord", .origin = origin};
    const CompletionRef completion = marker.completion;
    enqueue(stream, std::move(marker));
    event.recorded = completion;
  } else {
    // An operation like any other, whether the work before it has finished or not.
    next_moment(stream);
    event.recorded = is_pending(stream.last) ? stream.last : done_now();
  }
  event.before = stream.before;
}

void Streams::wait_event(Stream& stream, const Event& event, const Origin& origin) {
  check_not_capturing(stream);
  check_not_destroyed(event);
  if (const std::uint64_t record = event.foreign_record(); record != 0) {
    const auto is_over = [shared = event.shared, record] { return shared->is_over(record); };
    if (!is_over())
      enqueue(stream, Work{.name = "cuStreamWaitEvent",
                           .origin = origin,
                           .body = [shared = event.shared, record] { shared->wait(record); },
                           .is_awaited = is_over});
    stream.before.merge(told_others_);
    next_moment(stream);
  } else if (is_pending(event.recorded)) {
    enqueue(stream, Work{.name = "cuStreamWaitEvent", .origin = origin, .waits = {event.recorded}});
    stream.before.merge(event.before);
  } else if (event.recorded != nullptr) {
    stream.before.merge(event.before);  // first: the wait is done at once only if the host has seen the event
    take_turn(stream, origin);
  }
}

bool Streams::query_event(const Event& event) {
  check_not_destroyed(event);
  if (const std::uint64_t record = event.foreign_record(); record != 0) {
    if (!event.shared->is_over(record)) return false;
    order_.see(told_others_);
    return true;
  }
  if (is_pending(event.recorded)) return false;
  order_.see(event.before);
  return true;
}

Clock Streams::synchronize_event(Lock& lock, const Event& event) {
  check_not_destroyed(event);
  if (const std::uint64_t record = event.foreign_record(); record != 0) {
    const std::shared_ptr<SharedEvent> shared = event.shared;
    Clock told = told_others_;
    lock.unlock();
    shared->wait(record);
    lock.lock();
    order_.see(told);
    return told;
  }
  Clock point = event.before;  // another thread may record the event again or destroy it meanwhile
  if (event.recorded != nullptr) wait(lock, CompletionRef(event.recorded));
  order_.see(point);
  return point;
}

}  // namespace memlake::emulator
