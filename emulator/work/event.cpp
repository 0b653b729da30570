#include "work/event.hpp"

#include <utility>

#include "basics/handles.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint64_t kEventBase = 0x0E7'0000'0000'0000;  // a distinct range; values are never reused

}  // namespace

Event& Events::create(Context& context, unsigned flags, const Origin& origin) {
  if ((flags & ~(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)) != 0)
    invalid("event flags ", flags, " are unknown");
  if ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0)
    invalid("an INTERPROCESS event must have DISABLE_TIMING as well");
  std::shared_ptr<SharedEvent> shared;
  if ((flags & CU_EVENT_INTERPROCESS) != 0) shared = SharedEvent::make(context.device->ordinal);
  return add(context, flags, std::move(shared), origin);
}

Event& Events::add(const Context& context, unsigned flags, std::shared_ptr<SharedEvent> shared, const Origin& origin) {
  const std::uint64_t handle = kEventBase + kHandleStep * next_++;
  Event made{handle, context.handle, context.device->ordinal, flags, origin};
  made.shared = std::move(shared);
  return all_.emplace(handle, std::move(made)).first->second;
}

Event& Events::open(Context& context, const void* handle, const Origin& origin) {
  std::shared_ptr<SharedEvent> shared = SharedEvent::open(handle);
  if (shared->device() != context.device->ordinal)
    refuse(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "the event belongs to device ", shared->device(),
           ", the current context to device ", context.device->ordinal);
  return add(context, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, std::move(shared), origin);
}

void Events::write_handle(const Event& event, void* handle) {
  if (event.shared == nullptr)
    refuse(CUDA_ERROR_INVALID_HANDLE, "the event was made without INTERPROCESS and DISABLE_TIMING");
  if (event.shared->is_imported())
    refuse(CUDA_ERROR_INVALID_HANDLE, "the event was opened from another process, which gives handles to it");
  event.shared->write_handle(handle);
}

void Events::destroy(Event& event) {
  if (event.shared != nullptr && !event.shared->is_imported()) event.shared->note_destroyed();
  all_.erase(event.handle);
}

void Events::check_not_destroyed(const Event& event) const {
  const Context* context = contexts_.find(event.context);
  if (event.shared == nullptr || !event.shared->is_imported() || context == nullptr ||
      context->device->config.relaxes(Switch::inflight_unmap))
    return;
  if (event.shared->is_destroyed())
    violate("event ", Hex{event.handle}, " is used after the process that made it has destroyed it");
}

Event& Events::find(CUevent handle) {
  const auto value = reinterpret_cast<std::uint64_t>(handle);
  const auto found = all_.find(value);
  if (found == all_.end()) refuse(CUDA_ERROR_INVALID_HANDLE, "there is no event ", Hex{value}, " (any more)");
  contexts_.check_alive(found->second.context);
  return found->second;
}

void Events::record(Event& event, Stream& stream, const Origin& origin) {
  if (event.context != stream.context)
    refuse(CUDA_ERROR_INVALID_HANDLE, "the event belongs to device ", event.device, ", the stream to device ",
           stream.device->ordinal, "; both must be of one context");
  streams_.capture_rules.check_not_capturing(stream);
  check_not_destroyed(event);
  event.capture.reset();
  event.capture_tips.clear();
  if (event.shared != nullptr) {
    // A marker of its own, which tells the other processes when it is reached.
    const std::uint64_t number = event.shared->begin_record();
    try {
      event.recorded =
          streams_.when_reached(stream, origin, [shared = event.shared, number] { shared->finish_record(number); });
    } catch (...) {
      event.shared->finish_record(number);
      throw;
    }
    if (event.recorded->is_done) event.shared->finish_record(number);
    event.own_record = number;
    told_others_.merge(stream.before);
    told_others_.forget([&](std::uint64_t handle) { return order_.is_closed(handle); });
  } else {
    event.recorded = streams_.mark(stream, "cuEventRecord", origin);
  }
  event.before = stream.before;
}

void Events::wait(Stream& stream, const Event& event, const Origin& origin) {
  streams_.capture_rules.check_not_capturing(stream);
  check_not_destroyed(event);
  if (const std::uint64_t record = event.foreign_record(); record != 0) {
    const auto is_over = [shared = event.shared, record] { return shared->is_over(record); };
    if (!is_over())
      streams_.enqueue(stream, Work{.name = "cuStreamWaitEvent",
                                    .origin = origin,
                                    .body = [shared = event.shared, record] { shared->wait(record); },
                                    .is_awaited = is_over});
    stream.before.merge(told_others_);
    streams_.next_moment(stream);
  } else if (is_pending(event.recorded)) {
    streams_.enqueue(stream, Work{.name = "cuStreamWaitEvent", .origin = origin, .waits = {event.recorded}});
    stream.before.merge(event.before);
  } else if (event.recorded != nullptr) {
    stream.before.merge(event.before);  // first: the wait is done at once only if the host has seen the event
    streams_.take_turn(stream, origin);
  }
}

bool Events::query(const Event& event) {
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

Clock Events::synchronize(Lock& lock, const Event& event) {
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
  if (event.recorded != nullptr) streams_.wait(lock, CompletionRef(event.recorded));
  order_.see(point);
  return point;
}

void Events::drop_context(const Context& context) {
  std::erase_if(all_, [&](const auto& entry) { return entry.second.context == context.handle; });
}

Events::PassingStream Events::passing_stream(Context& context, const Origin& origin) {
  return {&streams_.create(context, 0, CU_STREAM_NON_BLOCKING, 0, origin),
          [this](Stream* stream) { streams_.destroy(*stream); }};
}

void Events::record_group(Event& event, Context& context, std::uint64_t group, const Origin& origin) {
  if (event.context != context.handle)
    refuse(CUDA_ERROR_INVALID_HANDLE, "the event belongs to device ", event.device, ", the context to device ",
           context.device->ordinal, "; both must be of one context");
  streams_.capture_rules.check_none_captures(group);
  check_not_destroyed(event);
  Streams::Reached reached = streams_.reached_by(group);
  // A stream of its own comes behind all others, and orders none of them behind another.
  const PassingStream behind_all = passing_stream(context, origin);
  if (!reached.pending.empty())
    streams_.enqueue(*behind_all, Work{.name = origin.call, .origin = origin, .waits = std::move(reached.pending)});
  behind_all->before.merge(reached.point);
  record(event, *behind_all, origin);
}

void Events::wait_group(Context& context, std::uint64_t group, const Event& event, const Origin& origin) {
  streams_.capture_rules.check_none_captures(group);
  if (event.capture != nullptr && !event.capture->has_ended) {
    event.capture->is_invalidated = true;
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the event is part of a capture, which is spoilt");
  }
  Streams::Reached reached;
  {
    const PassingStream waiting = passing_stream(context, origin);
    wait(*waiting, event, origin);
    reached.point = waiting->before;
    if (is_pending(waiting->last)) reached.pending.push_back(waiting->last);
  }
  streams_.wait_all(group, reached, origin);
}

}  // namespace memlake::emulator
