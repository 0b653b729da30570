#pragma once

// Leftovers: owners whose undo call failed in their destructor. The driver still has what they own, so they are kept,
// counted, and closed later. One object per pool; thread-safe.

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"

namespace memlake {

class Leftovers {
 public:
  Leftovers() = default;
  Leftovers(const Leftovers&) = delete;
  Leftovers& operator=(const Leftovers&) = delete;

  /// Takes an owner with close() and held(), the device memory that it keeps. After end() it takes none.
  template <class Owner>
  void keep(Owner&& owner) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    kept_.push_back(std::make_unique<Kept<std::decay_t<Owner>>>(std::forward<Owner>(owner)));
    has_any_.store(true);
  }

  [[nodiscard]] bool has_any() const noexcept { return has_any_.load(std::memory_order_relaxed); }

  /// Closes what can be closed now.
  void retry() {
    std::vector<std::unique_ptr<Leftover>> tried;
    {
      const std::lock_guard lock(mutex_);
      tried.swap(kept_);
      has_any_.store(false);
    }
    std::erase_if(tried, [](const std::unique_ptr<Leftover>& leftover) {
      try {
        leftover->close();  // may leave something behind in turn
        return true;
      } catch (const Error&) {
        return false;
      }
    });
    const std::lock_guard lock(mutex_);
    for (auto& leftover : tried) kept_.push_back(std::move(leftover));
    has_any_.store(!kept_.empty());
  }

  /// Tries once more, and drops what still cannot be closed.
  void end() {
    retry();
    std::vector<std::unique_ptr<Leftover>> dropped;
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    dropped.swap(kept_);
    for (auto& leftover : dropped) leftover->forget();
    has_any_.store(false);
  }

  /// The device memory that could not be released.
  [[nodiscard]] Bytes held() const {
    const std::lock_guard lock(mutex_);
    Bytes sum{0};
    for (const auto& leftover : kept_) sum = sum + leftover->held();
    return sum;
  }

 private:
  struct Leftover {
    virtual ~Leftover() = default;
    virtual void close() = 0;
    virtual void forget() noexcept = 0;
    [[nodiscard]] virtual Bytes held() const = 0;
  };
  template <class Owner>
  struct Kept final : Leftover {
    explicit Kept(Owner&& kept) : owner(std::move(kept)) {}
    void close() override { owner.close(); }
    void forget() noexcept override { owner.give_up(); }
    [[nodiscard]] Bytes held() const override { return owner.held(); }
    Owner owner;
  };

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Leftover>> kept_;
  bool is_over_ = false;
  std::atomic<bool> has_any_{false};
};

}  // namespace memlake
