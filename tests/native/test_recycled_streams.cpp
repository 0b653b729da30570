// Streams of other libraries that were destroyed, and whose handles CUDA gave to new streams.

#include "driver/event.hpp"
#include "driver/stream_order.hpp"
#include "emulated.hpp"
#include "lakes.hpp"
#include "policies/registry/registry.hpp"
#include "random_program.hpp"
#include "recycling_driver.hpp"

namespace memlake {
namespace {

using test::expect_sound;
using test::take;

constexpr const char* kPolicies[] = {"lake", "expandable", "caching", "stitch", "direct", "driver"};

/// A device whose driver gives handles out again, and streams on it as another library makes them.
struct World {
  test::EmulatedDevices devices{"devices=1,memory=64MiB,backing=none,streams=manual"};
  test::RecyclingDriver driver{test::emulator().driver()};
  std::shared_ptr<Device> device = std::make_shared<Device>(devices[0], driver);

  CUstream create_stream() {
    const CurrentContext current(*device);
    CUstream stream = nullptr;
    EXPECT_EQ(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
  }
  void destroy(CUstream stream) { EXPECT_EQ(driver.cuStreamDestroy(stream), CUDA_SUCCESS); }
  std::shared_ptr<LivePool> make_pool(const char* policy) {
    return LivePool::make({device}, choose_policy(policy).space_maker(), Budget::kUnlimited);
  }
  /// Frees memory under queued work of the stream; returns its address.
  Address use_and_free(LivePool& pool, CUstream stream) {
    Lease lease = take(pool, MiB * 8, {.handle = stream});
    const Address place = lease.address();
    fill(*device, place, 1, MiB * 8, stream);
    lease.close();
    return place;
  }
};

TEST(a_wait_for_a_new_stream_is_no_wait_for_the_one_that_had_its_handle) {
  for (const char* policy : {"lake", "expandable", "caching", "stitch"}) {
    World world;
    const auto pool = world.make_pool(policy);
    const CUstream gone = world.create_stream();
    const Address place = world.use_and_free(*pool, gone);
    world.destroy(gone);
    const auto owner = std::make_shared<StreamOwner>(world.device, true, 0);
    EXPECT(owner->handle() == gone);
    StreamOrder::synchronize_stream(*world.device, owner->handle());
    {
      const Lease elsewhere = take(*pool, MiB * 8);
      EXPECT(elsewhere.address() != place);
      const Lease on_it = take(*pool, MiB * 8, {.handle = gone, .owner = owner});
      EXPECT(on_it.address() != place);
    }
    static_cast<void>(pool->trim({0}));
    world.device->synchronize();
    expect_sound(*pool);
  }
}

TEST(a_new_stream_is_not_ordered_like_the_one_that_had_its_handle) {
  for (const bool has_owner : {false, true}) {
    World world;
    const auto pool = world.make_pool("lake");
    const CUstream busy = world.create_stream();
    const CUstream waiter = world.create_stream();
    take(*pool, MiB * 2, {.handle = waiter}).close();
    const Address place = world.use_and_free(*pool, busy);
    const EventOwner event(world.device, false);
    StreamOrder::record(*world.device, event.handle(), busy);
    StreamOrder::wait(*world.device, waiter, event.handle());
    world.destroy(waiter);
    const auto owner = has_owner ? std::make_shared<StreamOwner>(world.device, true, 0) : nullptr;
    const CUstream heir = has_owner ? owner->handle() : world.create_stream();
    EXPECT(heir == waiter);
    {
      const Lease other = take(*pool, MiB * 8, {.handle = heir, .owner = owner});
      EXPECT(other.address() != place);
    }
    world.device->synchronize();
    expect_sound(*pool);
  }
}

TEST(a_gone_stream_whose_handle_came_again_leaves_its_memory_to_others) {
  for (const char* policy : kPolicies) {
    World world;
    const auto pool = world.make_pool(policy);
    for (int round = 0; round < 200; ++round) {
      const CUstream stream = world.create_stream();
      static_cast<void>(world.use_and_free(*pool, stream));
      world.destroy(stream);
    }
    take(*pool, MiB * 56).close();
    expect_sound(*pool);
  }
}

}  // namespace
}  // namespace memlake
