#pragma once

// FailureReport: the moment at which a request of PyTorch's own allocator has failed. That allocator tells the profiler
// of the calling thread first, and the observers then. So as long as the report is under way, it takes the place of the
// profiler, which hears everything from it.

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace memlake_torch {

class FailureReport {
 public:
  /// The allocated and the held bytes of both allocators.
  using Levels = std::function<std::pair<uint64_t, uint64_t>()>;

  /// Calls `failed` when a request of the calling thread has failed, under the lock of PyTorch's own allocator.
  void begin(std::function<void()> failed, Levels levels) {
    const auto kind = c10::DebugInfoKind::PROFILER_STATE;
    auto* const profiler = static_cast<c10::MemoryReportingInfoBase*>(c10::ThreadLocalDebugInfo::get(kind));
    listener_ = std::make_shared<Listener>(*this, profiler, std::move(failed), std::move(levels));
    guard_.emplace(kind, listener_);
  }
  /// The thread has its own profiler again.
  void end() { guard_.reset(); }

 private:
  class Listener final : public c10::MemoryReportingInfoBase {
   public:
    Listener(FailureReport& report, c10::MemoryReportingInfoBase* profiler, std::function<void()> failed, Levels levels)
        : report_(report), profiler_(profiler), failed_(std::move(failed)), levels_(std::move(levels)) {}

    void reportMemoryUsage(void* address, int64_t size, size_t allocated, size_t held, c10::Device device) override {
      if (profiler_ != nullptr) profiler_->reportMemoryUsage(address, size, allocated, held, device);
    }
    void reportOutOfMemory(int64_t size, size_t, size_t, c10::Device device) override {
      report_.end();  // the observers that are called next find the profiler itself
      failed_();
      if (profiler_ == nullptr) return;
      const auto [allocated, held] = levels_();
      profiler_->reportOutOfMemory(size, allocated, held, device);
    }
    bool memoryProfilingEnabled() const override { return profiler_ != nullptr && profiler_->memoryProfilingEnabled(); }

   private:
    FailureReport& report_;
    c10::MemoryReportingInfoBase* const profiler_;  // null: none; PyTorch owns it
    const std::function<void()> failed_;
    const Levels levels_;
  };

  std::shared_ptr<Listener> listener_;
  std::optional<c10::DebugInfoGuard> guard_;
};

}  // namespace memlake_torch
