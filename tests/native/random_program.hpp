#pragma once

// A program that uses a pool at random, and what tests of pools have in common.

#include <memory>
#include <random>
#include <source_location>
#include <string>
#include <vector>

#include "driver/transfer.hpp"
#include "runtime/live_pool.hpp"
#include "test.hpp"

namespace memlake::test {

inline Lease take(LivePool& pool, Bytes size, const StreamName& stream = {},
                  std::optional<bool> is_shareable = std::nullopt) {
  Shortage shortage;
  auto lease = pool.allocate(size, stream, shortage, is_shareable);
  EXPECT(lease.has_value());
  return *std::move(lease);
}

inline void expect_sound(const LivePool& pool, std::source_location where = std::source_location::current()) {
  if (const auto broken = pool.find_broken_invariant()) fail(*broken, where);
}

/// What only the pool's policy counts.
inline std::uint64_t counter(const LivePool& pool, const std::string& name) {
  for (const auto& [known, value] : pool.figures().stats().policy_counters)
    if (known == name) return std::get<std::uint64_t>(value);
  fail("no counter " + name, std::source_location::current());
  return 0;
}

/// Calls to the driver that the pool made, of one kind or of all.
inline std::uint64_t calls(const LivePool& pool, const std::string& name = "") {
  std::uint64_t sum = 0;
  for (const auto& [known, count] : pool.figures().stats().calls)
    if (name.empty() || name == known) sum += count;
  return sum;
}

struct OwnStream {
  std::shared_ptr<StreamOwner> owner;
  explicit OwnStream(const std::shared_ptr<Device>& device) : owner(std::make_shared<StreamOwner>(device, true, 0)) {}
  [[nodiscard]] StreamName name() const { return {.handle = owner->handle(), .owner = owner}; }
};

/// What a random program does: requests of all sizes on three streams, work on them, frees here and there.
class RandomProgram {
 public:
  /// `shares`: some of its memory can be exported, and some of that is.
  RandomProgram(std::shared_ptr<LivePool> pool, std::shared_ptr<Device> device, unsigned seed, bool shares = false)
      : pool_(std::move(pool)), device_(std::move(device)), random_(seed), shares_(shares) {
    names_.emplace_back();
    for (int i = 0; i < 2; ++i) names_.push_back(streams_.emplace_back(device_).name());
  }

  void step() {
    const StreamName& stream = names_[random_() % names_.size()];
    switch (random_() % 10) {
      default: {
        const std::uint64_t scale = std::uint64_t{1} << (9 + random_() % 17);
        Shortage shortage;
        const Bytes size{1 + random_() % scale};
        const bool is_shareable = shares_ && random_() % 2 == 0;
        if (auto lease = pool_->allocate(size, stream, shortage, is_shareable)) {
          if (is_shareable && random_() % 4 == 0) static_cast<void>(lease->export_memory());
          fill(*device_, lease->address(), 7, lease->size(), stream.handle);
          live_.push_back(std::make_unique<Lease>(*std::move(lease)));
        }
        break;
      }
      case 4:
      case 5:
      case 6:
      case 7:
        if (!live_.empty()) {
          take_one().close();
        }
        break;
      case 8:
        if (!live_.empty()) {
          Lease& lease = *live_[random_() % live_.size()];
          fill(*device_, lease.address(), 8, lease.size(), stream.handle);
          lease.record_use(stream);
        }
        break;
      case 9:
        if (random_() % 50 == 0) pool_->trim({random_() % (MiB * 256).count});
        if (!live_.empty()) {
          Lease lease = take_one();
          stream_synchronize(*device_, lease.stream_name().handle);  // so that `stream` is behind its work
          fill(*device_, lease.address(), 9, lease.size(), stream.handle);
          try {
            lease.close(stream);
          } catch (const Error&) {
            stream_synchronize(*device_, stream.handle);  // it will be freed in the order of its own stream
            throw;
          }
        }
        break;
    }
  }

 private:
  Lease take_one() {
    const std::size_t index = random_() % live_.size();
    std::unique_ptr<Lease> lease = std::move(live_[index]);
    live_[index] = std::move(live_.back());
    live_.pop_back();
    return std::move(*lease);
  }

  std::shared_ptr<LivePool> pool_;
  std::shared_ptr<Device> device_;
  std::mt19937 random_;
  bool shares_;
  std::vector<OwnStream> streams_;
  std::vector<StreamName> names_;
  std::vector<std::unique_ptr<Lease>> live_;
};

}  // namespace memlake::test
