#include "work/capture_rules.hpp"

#include <utility>

#include "basics/refusal.hpp"
#include "basics/this_thread.hpp"

namespace memlake::emulator {

void CaptureRules::check_not_implicit(const Stream& stream) const {
  if (stream.kind != Stream::Kind::legacy || count_ == 0) return;
  for (const auto& [handle, other] : streams_)
    if (other->capture != nullptr && other->group() == stream.group() && other->is_blocking())
      refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the default stream would wait for a stream that is capturing");
}

void CaptureRules::check_usable(Stream& stream) {
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

void CaptureRules::check_not_capturing(Stream& stream) {
  check_usable(stream);
  if (stream.capture == nullptr) return;
  stream.capture->is_invalidated = true;
  refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is capturing, and this call cannot be captured; the ",
         "capture is spoilt");
}

void CaptureRules::check_safe() {
  if (count_ == 0) return;
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

void CaptureRules::begin(Stream& stream, CUstreamCaptureMode mode, std::uint64_t graph, bool owns_graph,
                         CaptureTips tips) {
  stream.capture = std::make_shared<Capture>(Capture{.id = next_++,
                                                     .mode = mode,
                                                     .thread = this_thread_id(),
                                                     .origin = stream.handle,
                                                     .graph = graph,
                                                     .owns_graph = owns_graph});
  stream.capture_tips = std::move(tips);
  ++count_;
}

void CaptureRules::end(const CaptureRef& capture) {
  const CaptureRef ended = capture;  // the caller's may be the one of a stream
  ended->has_ended = true;
  --count_;
  for (const auto& [handle, stream] : streams_) {
    if (stream->capture != ended) continue;
    stream->capture.reset();
    stream->capture_tips.clear();
  }
}

void CaptureRules::check_none_captures(std::uint64_t group) {
  bool is_capturing = false;
  for (const auto& [handle, stream] : streams_) {
    if (!stream->is_of(group) || stream->capture == nullptr) continue;
    stream->capture->is_invalidated = true;
    is_capturing = true;
  }
  if (is_capturing)
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a stream of the context is capturing; the capture is spoilt");
}

}  // namespace memlake::emulator
