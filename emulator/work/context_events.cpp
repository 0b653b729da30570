// Events of a whole context or of a green context: recorded behind the work of all its streams, waited for by all of
// them, also by those that are made later.

#include "work/stream.hpp"

namespace memlake::emulator {

namespace {

bool is_of(const Stream& stream, std::uint64_t group) { return stream.context == group || stream.view == group; }

}  // namespace

Streams::PassingStream Streams::passing_stream(Context& context, const Origin& origin) {
  return {&add(context, 0, Stream::Kind::created, CU_STREAM_NON_BLOCKING, 0, origin),
          [this](Stream* stream) { destroy(*stream); }};
}

void Streams::check_none_captures(std::uint64_t group) {
  bool is_capturing = false;
  for (const auto& [handle, stream] : streams_) {
    if (!is_of(*stream, group) || stream->capture == nullptr) continue;
    stream->capture->is_invalidated = true;
    is_capturing = true;
  }
  if (is_capturing)
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a stream of the context is capturing; the capture is spoilt");
}

void Streams::record_group(Event& event, Context& context, std::uint64_t group, const Origin& origin) {
  if (event.context != context.handle)
    refuse(CUDA_ERROR_INVALID_HANDLE, "the event belongs to device ", event.device, ", the context to device ",
           context.device->ordinal, "; both must be of one context");
  check_none_captures(group);
  check_not_destroyed(event);
  Clock point = order_.ended_of(group);
  for (const auto& [view, green] : contexts_.all_green())
    if (green.primary == group) point.merge(order_.ended_of(view));
  std::vector<CompletionRef> pending;
  for (const auto& [handle, stream] : streams_) {
    if (!is_of(*stream, group)) continue;
    point.merge(stream->before);
    if (is_pending(stream->last)) pending.push_back(stream->last);
  }
  // A stream of its own comes behind all others, and orders none of them behind another.
  const PassingStream behind_all = passing_stream(context, origin);
  if (!pending.empty()) enqueue(*behind_all, Work{.name = origin.call, .origin = origin, .waits = std::move(pending)});
  behind_all->before.merge(point);
  record(event, *behind_all, origin);
}

void Streams::wait_group(Context& context, std::uint64_t group, const Event& event, const Origin& origin) {
  check_none_captures(group);
  if (event.capture != nullptr && !event.capture->has_ended) {
    event.capture->is_invalidated = true;
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the event is part of a capture, which is spoilt");
  }
  Reached reached;
  {
    const PassingStream waiting = passing_stream(context, origin);
    wait_event(*waiting, event, origin);
    reached.point = waiting->before;
    if (is_pending(waiting->last)) reached.pending.push_back(waiting->last);
  }
  std::vector<std::shared_ptr<Stream>> streams;
  for (const auto& [handle, stream] : streams_)
    if (is_of(*stream, group) && !stream->is_destroyed) streams.push_back(stream);
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
