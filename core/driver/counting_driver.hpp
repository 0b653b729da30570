#pragma once

// CountingDriver: a Driver that counts calls by CUDA name and sums their modelled time (cost_model.hpp). Failed calls
// count, too. Each pool has its own CountingDriver, which also adds to the library's counters, so that a call passes
// only one of them.

#include <array>
#include <atomic>
#include <cstdint>

#include "driver/cost_model.hpp"
#include "driver/driver.hpp"
#include "driver/mapped_handles.hpp"

namespace memlake {

class CountingDriver final : public Driver {
 public:
  /// `total` also gets every count and may get those of other drivers; null if there is none. It must outlive this one.
  explicit CountingDriver(Driver& inner, CountingDriver* total = nullptr) : inner_(inner), total_(total) {}

  std::uint64_t count(Call call) const noexcept { return counts_[index_of(call)].load(std::memory_order_relaxed); }
  /// How many of them had another answer than success.
  std::uint64_t failures(Call call) const noexcept { return failures_[index_of(call)].load(std::memory_order_relaxed); }
  double modelled_us() const noexcept { return modelled_us_.load(std::memory_order_relaxed); }
  /// Sets counts and time to 0. The list of mapped handles stays.
  void reset() noexcept;

#define F(name, symbol, need, parameters, arguments) CUresult name parameters override;
#include "driver/functions.inc"
#undef F

  Explanation explain(Call call, CUresult result) const override { return inner_.explain(call, result); }

 private:
  /// The cost of one kind of call; see the .cpp.
  template <Call call>
  struct Charge;

  void add_call(Call call) noexcept {
    counts_[index_of(call)].fetch_add(1, std::memory_order_relaxed);
    if (total_ != nullptr) total_->add_call(call);
  }
  void add_failure(Call call) noexcept {
    failures_[index_of(call)].fetch_add(1, std::memory_order_relaxed);
    if (total_ != nullptr) total_->add_failure(call);
  }
  void add_us(double microseconds) noexcept {
    modelled_us_.fetch_add(microseconds, std::memory_order_relaxed);
    if (total_ != nullptr) total_->add_us(microseconds);
  }

  Driver& inner_;
  CountingDriver* total_;
  std::array<std::atomic<std::uint64_t>, call_names.size()> counts_{};
  std::array<std::atomic<std::uint64_t>, call_names.size()> failures_{};
  std::atomic<double> modelled_us_{0};
  const CostModel costs_ = cost_model();
  MappedHandles mapped_;
};

}  // namespace memlake
