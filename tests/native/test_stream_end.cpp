// Streams end while other threads allocate. The work of a stream that has ended may still be queued: no memory may be
// unmapped under it. The environment variable MEMLAKE_ROUNDS says how many streams end in each test.

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "gate_driver.hpp"
#include "lake_variants.hpp"
#include "lakes.hpp"

namespace memlake {
namespace {

using test::ask;
using test::expect_sound;
using test::make_lake;
using test::OwnStream;

// Several pools, so that each variant also begins anew.
constexpr int kRoundsPerPool = 5000;

/// The streams that end in one pool after the other, with each variant.
std::vector<int> rounds() {
  const char* wanted = std::getenv("MEMLAKE_ROUNDS");
  const int all = wanted == nullptr ? 600 : std::atoi(wanted);
  std::vector<int> rounds;
  for (int left = all / static_cast<int>(test::lake_variants().size()); left > 0; left -= kRoundsPerPool)
    rounds.push_back(std::min(left, kRoundsPerPool));
  return rounds;
}

/// A thread that asks for most of the device's memory, again and again.
class Asking {
 public:
  explicit Asking(LivePool& pool) : thread_([this, &pool] { run(pool); }) {}
  ~Asking() {
    if (thread_.joinable()) stop();
  }

  /// No more requests until wait_for_a_request().
  void pause() {
    is_paused_ = true;
    while (is_asking_) std::this_thread::yield();
  }
  /// Until one more request was answered that began after this call.
  void wait_for_a_request() {
    is_paused_ = false;
    const std::uint64_t before = begun_;
    while (answered_ <= before) std::this_thread::yield();
  }
  /// The number of requests that were served.
  std::uint64_t stop() {
    is_over_ = true;
    thread_.join();
    EXPECT_EQ(errors_, 0);
    return served_;
  }

 private:
  void run(LivePool& pool) {
    while (!is_over_) {
      is_asking_ = true;  // before the look at is_paused_: pause() looks in the other order
      if (is_paused_) {
        is_asking_ = false;
        std::this_thread::yield();
        continue;
      }
      ++begun_;
      try {
        if (ask(pool, MiB * 10)) ++served_;
      } catch (const Error&) {
        ++errors_;
      }
      answered_ = begun_.load();
      is_asking_ = false;
    }
  }

  std::atomic<bool> is_over_{false};
  std::atomic<bool> is_paused_{false};
  std::atomic<bool> is_asking_{false};
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<std::uint64_t> answered_{0};
  std::uint64_t served_ = 0;
  int errors_ = 0;
  std::thread thread_;  // the last member: it uses the others
};

/// Whether all free memory is given back before a round.
bool is_trimmed(int round) { return round % 3 == 0; }

/// A stream gets memory, often of a stream that has ended, frees it under queued work, and ends. `hold` is called
/// before the work is queued, and `wait` after the free, in every other round.
template <class Hold, class Wait>
void use_streams(LivePool& pool, const std::shared_ptr<Device>& device, int round, Hold&& hold, Wait&& wait) {
  if (is_trimmed(round)) pool.trim({0});  // the next memory is made anew, with addresses of the stream that asks for it
  {
    const OwnStream gone(device);
    static_cast<void>(ask(pool, MiB * 8, gone.name()));
  }
  const OwnStream stream(device);
  {
    // There is room for 4 MiB more. Else the stream gets a part of the memory of the one that has ended.
    const auto lease = ask(pool, MiB * (round % 4 < 2 ? 3 : 5), stream.name());
    if (!lease) return;
    hold(stream.owner->handle());
    fill(*device, lease->address(), 1, lease->size(), stream.owner->handle());
  }
  if (round % 2 == 0) wait();
}

TEST(streams_that_end_while_other_threads_allocate_lose_nothing) {
  const std::size_t violations = test::ledger_count("violations");
  for (const LakeOptions& options : test::lake_variants())
    for (const int count : rounds()) {
      if (test::running_test_has_failed()) return;
      const test::EmulatedDevices devices("devices=1,memory=12MiB,backing=none");
      const auto pool = make_lake({devices[0]}, options);
      Asking asking(*pool);
      for (int i = 0; i < count; ++i) use_streams(*pool, devices[0], i, [](CUstream) {}, [] {});
      asking.stop();
      expect_sound(*pool);
      EXPECT_EQ(test::ledger_count("violations"), violations);
    }
}

TEST(work_of_a_stream_that_has_ended_keeps_its_memory_until_a_thread_waits_for_it) {
  const std::size_t violations = test::ledger_count("violations");
  std::uint64_t served = 0;
  for (const LakeOptions& options : test::lake_variants())
    for (const int count : rounds()) {
      if (test::running_test_has_failed()) return;
      const test::EmulatedDevices devices("devices=1,memory=12MiB,backing=none");
      test::GateDriver driver(test::emulator().driver());
      const auto device = std::make_shared<Device>(devices[0], driver);
      const auto pool = make_lake({device}, options);
      Asking asking(*pool);
      for (int i = 0; i < count; ++i) {
        // The request finds the work still queued, unless the pool waits for it.
        const auto wait = [&] { asking.wait_for_a_request(); };
        if (is_trimmed(i)) asking.pause();  // else the thread would take the memory that is made anew
        use_streams(*pool, device, i, [&](CUstream stream) { driver.hold(stream); }, wait);
        wait();
        driver.open_all();
      }
      served += asking.stop();
      expect_sound(*pool);
      EXPECT_EQ(test::ledger_count("violations"), violations);
    }
  EXPECT(served > 0);
}

}  // namespace
}  // namespace memlake
