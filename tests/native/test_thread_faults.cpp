// Threads use one pool while driver calls fail at random. Each run has a new seed, which it prints; MEMLAKE_SEED runs
// one again, as far as the threads meet in the same way.

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <random>
#include <thread>
#include <vector>

#include "driver/transfer.hpp"
#include "emulated.hpp"
#include "policies/registry/registry.hpp"
#include "random_program.hpp"

namespace memlake {
namespace {

constexpr int kThreads = 4;
constexpr int kSteps = 150;
constexpr Call kFaults[] = {Call::cuMemCreate,  Call::cuMemMap,  Call::cuMemSetAccess, Call::cuMemUnmap,
                            Call::cuMemRelease, Call::cuMemFree, Call::cuEventRecord,  Call::cuEventQuery};
constexpr CUresult kAnswers[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN};

unsigned new_seed() {
  const char* wanted = std::getenv("MEMLAKE_SEED");
  return wanted == nullptr ? std::random_device{}() : static_cast<unsigned>(std::strtoul(wanted, nullptr, 10));
}

/// What one thread does: requests, work, frees in any order of streams, streams that end, and faults.
class Worker {
 public:
  Worker(LivePool& pool, std::shared_ptr<Device> device, unsigned seed)
      : pool_(pool), device_(std::move(device)), random_(seed) {}

  void run() {
    for (int step = 0; step < kSteps; ++step) {
      try {
        act();
      } catch (const Error&) {
        // A fault, of this thread or of another one.
      }
    }
    while (!leases_.empty()) drop(leases_.size() - 1);
  }

 private:
  void act() {
    if (random_() % 4 == 0)
      test::emulator().failing().fail(kFaults[random_() % std::size(kFaults)], 1 + random_() % 3,
                                      kAnswers[random_() % std::size(kAnswers)]);
    if (streams_.size() < 2 || random_() % 8 == 0) streams_.emplace_back(device_);
    if (streams_.size() > 4) streams_.erase(streams_.begin());
    const StreamName stream = streams_[random_() % streams_.size()].name();
    if (leases_.size() < 6 && random_() % 3 != 0) {
      Shortage shortage;
      if (auto lease = pool_.allocate(Bytes{1 + random_() % (MiB * 9).count}, stream, shortage)) {
        fill(*device_, lease->address(), 1, lease->size(), stream.handle);
        leases_.push_back(std::make_unique<Lease>(*std::move(lease)));
      }
      return;
    }
    if (leases_.empty()) return;
    const std::size_t which = random_() % leases_.size();
    switch (random_() % 4) {
      case 0:
        leases_[which]->record_use(stream);
        break;
      case 1:
        device_->synchronize();  // all earlier work comes before the stream's later work
        leases_[which]->close(stream);
        drop(which);
        break;
      case 2:
        pool_.trim({0});
        break;
      default:
        drop(which);
    }
  }
  void drop(std::size_t which) { leases_.erase(leases_.begin() + static_cast<std::ptrdiff_t>(which)); }

  LivePool& pool_;
  std::shared_ptr<Device> device_;
  std::mt19937 random_;
  std::vector<test::OwnStream> streams_;
  std::vector<std::unique_ptr<Lease>> leases_;
};

TEST(threads_with_random_faults_lose_nothing) {
  const unsigned seed = new_seed();
  std::cout << "  MEMLAKE_SEED=" << seed << std::endl;
  const std::size_t violations = test::ledger_count("violations");
  for (const char* policy : {"lake", "lake,aliasing:none", "expandable", "caching", "stitch"}) {
    const test::EmulatedDevices devices("devices=1,memory=64MiB,backing=none");
    const std::size_t chunks = test::ledger_count("chunks");
    const std::size_t mappings = test::ledger_count("mappings");
    const auto pool = LivePool::make({devices[0]}, choose_policy(policy).space_maker(), {});
    {
      std::vector<std::unique_ptr<Worker>> workers;
      std::vector<std::thread> threads;
      for (unsigned i = 0; i < kThreads; ++i)
        workers.push_back(std::make_unique<Worker>(*pool, devices[0], seed * kThreads + i));
      for (const auto& worker : workers) threads.emplace_back([&worker] { worker->run(); });
      for (std::thread& thread : threads) thread.join();
      test::emulator().failing().clear();
    }
    test::expect_sound(*pool);
    // Where the last event of a stream was a fault, only a wait tells that its work is complete, and trim() waits for
    // no stream.
    pool->release_cached();
    pool->trim({0});
    test::expect_sound(*pool);
    EXPECT_EQ(pool->figures().stats().live_count, 0u);
    EXPECT_EQ(pool->figures().held().count, 0u);
    EXPECT_EQ(test::ledger_count("chunks"), chunks);
    EXPECT_EQ(test::ledger_count("mappings"), mappings);
    EXPECT_EQ(test::ledger_count("violations"), violations);
  }
}

}  // namespace
}  // namespace memlake
