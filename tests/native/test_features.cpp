// Features: what a device is found to have, and what happens when a driver refuses one in use.

#include <memory>
#include <string>

#include "driver/features.hpp"
#include "emulated.hpp"
#include "policies/registry/registry.hpp"
#include "runtime/live_pool.hpp"
#include "test.hpp"
#include "vmm/feature_probe.hpp"

namespace memlake {
namespace {

const std::string kUsual = "devices=1,memory=64MiB,backing=host";

std::shared_ptr<LivePool> pool_on(const std::shared_ptr<Device>& device, const char* policy) {
  return LivePool::make({device}, choose_policy(policy).space_maker(), {});
}

Lease allocate(LivePool& pool, Bytes size, bool is_single = false) {
  Shortage shortage;
  auto lease = pool.allocate(size, {}, shortage, std::nullopt, is_single);
  EXPECT(lease.has_value());
  return *std::move(lease);
}

TEST(a_feature_is_asked_once_and_the_trial_leaves_nothing) {
  const test::EmulatedDevices devices(kUsual);
  const test::Holdings before;
  EXPECT(!devices[0]->features().find(Feature::second_mapping).has_value());
  EXPECT(has_feature(devices[0], Feature::second_mapping));
  EXPECT(devices[0]->features().has(Feature::second_mapping));
  EXPECT_EQ(test::Holdings{}, before);
}

TEST(the_answers_outlive_the_object_of_a_device) {
  const test::EmulatedDevices devices(kUsual + ",aliasing=whole");
  EXPECT_EQ(proven_aliasing(devices[0]), Aliasing::whole);
  EXPECT(devices[0]->features().find(Feature::partial_mapping).has_value());
}

TEST(the_level_of_aliasing_follows_from_three_trials) {
  EXPECT_EQ(proven_aliasing(test::EmulatedDevices(kUsual)[0]), Aliasing::prefix);
  EXPECT_EQ(proven_aliasing(test::EmulatedDevices(kUsual + ",aliasing=none")[0]), Aliasing::none);
  EXPECT_EQ(proven_aliasing(test::EmulatedDevices(kUsual + ",lacks=shared_bytes")[0]), Aliasing::none);
  // Without bytes nothing can be compared; the emulated device is trusted.
  EXPECT_EQ(proven_aliasing(test::EmulatedDevices("memory=64MiB,backing=none")[0]), Aliasing::prefix);
}

TEST(a_refusal_turns_a_feature_off_and_leaves_one_notice) {
  const test::EmulatedDevices devices(kUsual);
  FeatureTable& table = devices[0]->features();
  EXPECT(has_feature(devices[0], Feature::rdma));
  take_feature_notices();
  table.turn_off(Feature::rdma, devices[0]->ordinal(), "a test");
  EXPECT(!table.has(Feature::rdma));
  EXPECT_EQ(table.find(Feature::rdma)->refusals, 1u);
  EXPECT_EQ(take_feature_notices().size(), 1u);
  EXPECT_EQ(take_feature_notices().size(), 0u);
}

TEST(a_mapping_that_was_refused_in_use_lowers_the_level_of_new_pools) {
  const test::EmulatedDevices devices(kUsual);
  EXPECT_EQ(proven_aliasing(devices[0]), Aliasing::prefix);
  devices[0]->features().turn_off(Feature::partial_mapping, devices[0]->ordinal(), "a test");
  EXPECT_EQ(proven_aliasing(devices[0]), Aliasing::whole);
  devices[0]->features().turn_off(Feature::second_mapping, devices[0]->ordinal(), "a test");
  EXPECT_EQ(proven_aliasing(devices[0]), Aliasing::none);
  take_feature_notices();
}

TEST(a_pool_goes_on_without_what_the_driver_refuses_at_any_call) {
  for (const char* policy : {"lake", "expandable", "stitch"})
    for (const Call call : {Call::cuMemCreate, Call::cuMemSetAccess})
      for (const CUresult code : {CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_UNKNOWN, CUDA_ERROR_INVALID_VALUE}) {
        const test::EmulatedDevices devices(kUsual);
        const auto pool = pool_on(devices[0], policy);
        test::emulator().failing().fail(call, 1, code);
        const Lease lease = allocate(*pool, MiB * 8);
        test::emulator().failing().clear();
        EXPECT_EQ(devices[0]->features().find(Feature::rdma)->refusals, 1u);
        EXPECT(!pool->find_broken_invariant().has_value());
      }
  take_feature_notices();
}

TEST(a_refusal_that_no_feature_explains_reaches_the_caller_and_changes_nothing) {
  const test::EmulatedDevices devices(kUsual + ",lacks=rdma");
  const auto pool = pool_on(devices[0], "lake");
  const test::Holdings before;
  test::emulator().failing().fail(Call::cuMemCreate, 1, CUDA_ERROR_NOT_SUPPORTED);
  Shortage shortage;
  EXPECT_ERROR(other, static_cast<void>(pool->allocate(MiB * 8, {}, shortage)));
  test::emulator().failing().clear();
  EXPECT_EQ(test::Holdings{}.chunks, before.chunks);
  EXPECT(!pool->find_broken_invariant().has_value());
}

TEST(a_policy_for_devices_without_virtual_memory) {
  const test::EmulatedDevices devices(kUsual + ",lacks=vmm");
  EXPECT_EQ(default_policy_on({devices[0]}).name, "caching");
  EXPECT_ERROR(config, static_cast<void>(pool_on(devices[0], "lake")));
  const auto pool = pool_on(devices[0], "caching");
  const Lease lease = allocate(*pool, MiB * 8);
  EXPECT_EQ(lease.handles().size(), 0u);
  EXPECT(lease.is_one_handle());
}

TEST(a_single_handle_is_one_handle_that_is_not_joined_or_divided) {
  const test::EmulatedDevices devices(kUsual);
  const auto pool = pool_on(devices[0], "lake");
  {
    const Lease small = allocate(*pool, MiB * 10, true);
    const Lease other = allocate(*pool, MiB * 10, true);
    EXPECT_EQ(small.handles().size(), 1u);
    EXPECT_EQ(other.handles().size(), 1u);
  }
  // The two free chunks together would do; they are released instead.
  const Lease large = allocate(*pool, MiB * 50, true);
  EXPECT_EQ(large.handles().size(), 1u);
  EXPECT(!pool->find_broken_invariant().has_value());
}

}  // namespace
}  // namespace memlake
