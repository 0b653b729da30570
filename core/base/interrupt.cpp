#include "base/interrupt.hpp"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

namespace memlake {

thread_local InterruptScope::Check InterruptScope::current_ = nullptr;

namespace {

// How long a signal may go unnoticed. A wait that ends is noticed at once.
constexpr std::chrono::milliseconds kBetweenChecks{20};

struct Waiting {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_over = false;
  std::exception_ptr error;
};

}  // namespace

void wait_interruptibly(const std::function<void()>& wait) {
  const InterruptScope::Check is_interrupted = InterruptScope::current();
  if (is_interrupted == nullptr) return wait();
  const auto waiting = std::make_shared<Waiting>();
  std::thread([waiting, wait = wait]() mutable {
    std::exception_ptr error;
    try {
      wait();
    } catch (...) {
      error = std::current_exception();
    }
    wait = nullptr;  // the caller may end what it keeps as soon as it goes on
    const std::lock_guard lock(waiting->mutex);
    waiting->error = error;
    waiting->is_over = true;
    waiting->changed.notify_one();
  }).detach();
  std::unique_lock lock(waiting->mutex);
  while (!waiting->changed.wait_for(lock, kBetweenChecks, [&] { return waiting->is_over; })) {
    lock.unlock();
    if (is_interrupted()) throw Interrupted{};
    lock.lock();
  }
  if (waiting->error != nullptr) std::rethrow_exception(waiting->error);
}

}  // namespace memlake
