#include "stream.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kStreamBase = 0x05D'0000'0000'0000;  // looks like nothing else; values are never used twice
constexpr std::uint64_t kEventBase = 0x0E7'0000'0000'0000;
constexpr std::uint64_t kHandleStep = 16;

double now_in_milliseconds() {
  static const auto start = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

CompletionRef done_now() {
  auto completion = std::make_shared<Completion>();
  completion->is_done = true;
  completion->milliseconds = now_in_milliseconds();
  return completion;
}

bool is_pending(const CompletionRef& completion) { return completion != nullptr && !completion->is_done; }

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
  auto stream = std::make_unique<Stream>(Stream{.handle = handle,
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
  return add(context, Stream::Kind::created, flags, priority, origin);
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
    if (const Context* context = contexts_.find(found->second->context);
        context != nullptr && context->sticky != CUDA_SUCCESS)
      refuse(context->sticky, "earlier work on device ", context->device->ordinal, " failed; its context is lost");
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

void Streams::erase_if_finished(Stream& stream) {
  // A worker erases its own stream, when it has seen that there is nothing left to do.
  if (stream.is_destroyed && stream.queue.empty() && !stream.has_worker) streams_.erase(stream.handle);
}

std::vector<CompletionRef> Streams::implicit_waits(const Stream& stream) const {
  std::vector<CompletionRef> waits;
  if (!stream.is_blocking()) return waits;
  for (const auto& [handle, other] : streams_) {
    const bool is_legacy_pair = (stream.kind == Stream::Kind::legacy) != (other->kind == Stream::Kind::legacy);
    if (is_legacy_pair && other->context == stream.context && other->is_blocking() && is_pending(other->last))
      waits.push_back(other->last);
  }
  return waits;
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

void Streams::begin_capture(Stream& stream) {
  if (stream.kind == Stream::Kind::legacy)
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the legacy default stream cannot be captured");
  if (stream.capture != CU_STREAM_CAPTURE_STATUS_NONE) invalid("the stream is capturing already");
  stream.capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  stream.capture_id = next_capture_++;
}

void Streams::end_capture(Stream& stream) {
  const auto capture = std::exchange(stream.capture, CU_STREAM_CAPTURE_STATUS_NONE);
  if (capture == CU_STREAM_CAPTURE_STATUS_NONE) invalid("the stream is not capturing");
  if (capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
    refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "work was refused during the capture");
  refuse(CUDA_ERROR_NOT_SUPPORTED, "the capture ended; the emulator has no graphs");
}

void Streams::enqueue(Stream& stream, Work work) {
  check_not_capturing(stream);
  for (auto& wait : implicit_waits(stream)) work.waits.push_back(std::move(wait));
  work.completion->stream = &stream;
  stream.last = work.completion;
  auto queued = std::make_unique<Queued>(Queued{std::move(work), {}});
  queued->place = in_flight_.add(queued->work);
  stream.queue.push_back(std::move(queued));
  if (!stream.is_manual()) start_worker(stream);
  changed_.notify_all();
}

void Streams::run_and_wait(Lock& lock, Stream& stream, Work work) {
  const CompletionRef completion = work.completion;
  const bool is_alone = stream.queue.empty() && implicit_waits(stream).empty();
  if (!is_alone) {
    enqueue(stream, std::move(work));
    wait(lock, completion);
    return;
  }
  // Nothing is in the way: run it here. It is queued all the same, so that everybody sees it while it runs; `is_busy`
  // keeps the stream's own worker away from it.
  check_not_capturing(stream);
  work.completion->stream = &stream;
  stream.last = work.completion;
  stream.queue.push_back(std::make_unique<Queued>(Queued{std::move(work), {}}));
  stream.queue.front()->place = in_flight_.add(stream.queue.front()->work);
  run_first(lock, stream);
}

bool Streams::is_ready(const Stream& stream) const {
  if (stream.is_busy || stream.queue.empty()) return false;
  const Work& work = stream.queue.front()->work;
  return !closed_gates_.contains(work.gate) && std::ranges::none_of(work.waits, is_pending);
}

bool Streams::is_stuck(const Stream& stream) const {
  if (stream.is_busy || stream.queue.empty()) return false;
  const Work& work = stream.queue.front()->work;
  if (closed_gates_.contains(work.gate)) return true;
  return std::ranges::any_of(work.waits,
                             [&](const CompletionRef& wait) { return is_pending(wait) && is_stuck(*wait->stream); });
}

void Streams::run_first(Lock& lock, Stream& stream) {
  Work& work = stream.queue.front()->work;
  stream.is_busy = true;
  work.is_running = true;
  Context* context = contexts_.find(stream.context);
  const bool is_lost = context == nullptr || context->sticky != CUDA_SUCCESS;
  const std::string refusal = is_lost || !work.check ? "" : work.check();
  if (!refusal.empty()) {
    context->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    on_failure_(text(work.describe(), " on device ", stream.device->ordinal, ": ", refusal));
  } else if (work.body && !is_lost) {
    lock.unlock();
    work.body();
    lock.lock();
  }
  stream.is_busy = false;
  finish_first(stream);
}

void Streams::finish_first(Stream& stream) {
  const auto& queued = stream.queue.front();
  queued->work.completion->is_done = true;
  queued->work.completion->stream = nullptr;
  queued->work.completion->milliseconds = now_in_milliseconds();
  in_flight_.remove(queued->place);
  stream.queue.pop_front();
  changed_.notify_all();
}

void Streams::start_worker(Stream& stream) {
  if (stream.has_worker) return;
  stream.has_worker = true;
  std::thread([this, &stream] { work_loop(stream); }).detach();
}

void Streams::work_loop(Stream& stream) {
  Lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_ready(stream) || (stream.is_destroyed && stream.queue.empty()); });
    if (stream.queue.empty()) break;
    run_first(lock, stream);
  }
  stream.has_worker = false;
  erase_if_finished(stream);
  changed_.notify_all();
}

/// Runs one piece of manual work that `completion` needs; false if it cannot go on by running manual work.
bool Streams::advance(Lock& lock, const CompletionRef& completion) {
  Stream& stream = *completion->stream;
  if (stream.queue.empty() || stream.is_busy) return false;
  const Work& work = stream.queue.front()->work;
  for (const CompletionRef& wait : work.waits)
    if (is_pending(wait)) return advance(lock, CompletionRef(wait));
  if (!stream.is_manual() || closed_gates_.contains(work.gate)) return false;
  run_first(lock, stream);
  return true;
}

void Streams::wait(Lock& lock, const CompletionRef& completion) {
  while (is_pending(completion)) {
    if (advance(lock, completion)) continue;
    if (is_pending(completion) && completion->stream->is_manual() && is_stuck(*completion->stream))
      violate("this wait would never end: ", completion->stream->queue.front()->work.describe(),
              " is behind a closed gate, and no thread works on manual streams");
    changed_.wait(lock);
  }
}

bool Streams::is_done(Stream& stream) {
  check_not_capturing(stream);
  return !is_pending(stream.last) && implicit_waits(stream).empty();
}

void Streams::synchronize(Lock& lock, Stream& stream) {
  check_not_capturing(stream);
  // What the stream would have to wait for is part of it: the legacy stream ends when the blocking streams do.
  const std::vector<CompletionRef> implicit = implicit_waits(stream);
  const CompletionRef last = stream.last;
  if (last != nullptr) wait(lock, last);
  for (const auto& completion : implicit) wait(lock, completion);
}

void Streams::synchronize_context(Lock& lock, const Context& context) {
  std::vector<CompletionRef> pending;
  for (const auto& [handle, stream] : streams_)
    if (stream->context == context.handle && is_pending(stream->last)) pending.push_back(stream->last);
  for (const auto& completion : pending) wait(lock, completion);
}

void Streams::synchronize_device(Lock& lock, const Device& device) {
  std::vector<CompletionRef> pending;
  for (const auto& [handle, stream] : streams_)
    if (stream->device == &device && is_pending(stream->last)) pending.push_back(stream->last);
  for (const auto& completion : pending) wait(lock, completion);
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
}

void Streams::wait_event(Stream& stream, const Event& event, const Origin& origin) {
  check_not_capturing(stream);
  if (!is_pending(event.recorded)) return;
  enqueue(stream, Work{.name = "cuStreamWaitEvent", .origin = origin, .waits = {event.recorded}});
}

std::uint64_t Streams::hold(Stream& stream, const Origin& origin) {
  const std::uint64_t gate = next_gate_++;
  closed_gates_.insert(gate);
  try {
    enqueue(stream, Work{.name = text("gate ", gate), .origin = origin, .gate = gate});
  } catch (...) {
    closed_gates_.erase(gate);
    throw;
  }
  return gate;
}

void Streams::open(std::uint64_t gate) {
  if (closed_gates_.erase(gate) == 0) invalid("gate ", gate, " is not closed");
  changed_.notify_all();
}

std::size_t Streams::step(Lock& lock, Stream& stream, std::size_t count) {
  if (!stream.is_manual()) invalid("only streams of devices with streams=manual can be stepped");
  std::size_t ran = 0;
  while (ran < count && is_ready(stream)) {
    run_first(lock, stream);
    ++ran;
  }
  return ran;
}

void Streams::drop_context(Lock& lock, const Context& context) {
  std::vector<Stream*> dropped;
  for (const auto& [handle, stream] : streams_)
    if (stream->context == context.handle) dropped.push_back(stream.get());
  for (Stream* stream : dropped) {
    while (!stream->queue.empty()) {
      if (is_stuck(*stream)) {
        while (!stream->queue.empty()) finish_first(*stream);
      } else if (!advance(lock, CompletionRef(stream->queue.front()->work.completion))) {
        changed_.wait(lock);
      }
    }
  }
  for (Stream* stream : dropped) {
    of_dropped_contexts_.insert(stream->handle);
    stream->is_destroyed = true;
    changed_.notify_all();
    erase_if_finished(*stream);
  }
  std::erase_if(defaults_, [&](const auto& entry) { return entry.first.first == context.handle; });
  std::erase_if(events_, [&](const auto& entry) { return entry.second.context == context.handle; });
}

}  // namespace memlake::emulator
