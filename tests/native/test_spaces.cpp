// Several spaces of one policy in one pool: they share its budget, and free memory of one can serve another.

#include <memory>

#include "emulated.hpp"
#include "policies/registry/registry.hpp"
#include "pool/pool.hpp"
#include "replay/trace_events.hpp"
#include "test.hpp"

namespace memlake {
namespace {

TEST(three_spaces_of_a_policy_share_the_budget_of_a_pool) {
  for (const char* policy : {"lake", "stitch", "caching", "expandable", "direct"}) {
    const test::EmulatedDevices devices("devices=1,memory=256MiB,backing=none");
    TraceEvents events(EventMode::immediate, 0, devices[0]);
    const SpaceMaker make = choose_policy(policy).space_maker();
    Pool pool(make({devices[0]}, events, std::make_shared<Budget>(MiB * 128)), events);
    Space& second = pool.spaces().add(make({devices[0]}, events, pool.spaces().budget()), false);
    Space& third = pool.spaces().add(make({devices[0]}, events, pool.spaces().budget()), false);

    Block* first = pool.allocate(MiB * 40, 0);
    Block* other = pool.allocate(second, MiB * 40, 0);
    EXPECT(first != nullptr && other != nullptr);
    EXPECT_EQ(pool.figures().stats().held.now, MiB * 80);
    EXPECT(pool.allocate(third, MiB * 60, 0) == nullptr);
    // The free memory of the first space goes back to the driver, and the third space gets as much.
    pool.free(first);
    Block* last = pool.allocate(third, MiB * 60, 0);
    EXPECT(last != nullptr);
    EXPECT_EQ(pool.figures().stats().held.now, MiB * 100);
    EXPECT_EQ(third.ledger().held(), MiB * 60);
    EXPECT(!pool.find_broken_invariant());
    pool.free(other);
    pool.free(last);
    pool.release_cached();
    EXPECT_EQ(pool.figures().stats().held.now, Bytes{0});
  }
}

TEST(a_pool_refuses_a_space_whose_number_no_block_can_hold) {
  const test::EmulatedDevices devices("devices=1,memory=256MiB,backing=none");
  TraceEvents events(EventMode::immediate, 0, devices[0]);
  const SpaceMaker make = choose_policy("caching").space_maker();
  Pool pool(make({devices[0]}, events, std::make_shared<Budget>(MiB * 128)), events);
  const auto add = [&]() -> Space& {
    return pool.spaces().add(make({devices[0]}, events, pool.spaces().budget()), false);
  };
  for (int i = 1; i < 65535; ++i) add();
  Space& last = add();
  Block* block = pool.allocate(last, MiB * 20, 0);
  EXPECT(&pool.spaces().of(*block) == &last);
  pool.free(block);
  EXPECT_ERROR(config, add());
  EXPECT_EQ(pool.spaces().size(), 65536u);
}

}  // namespace
}  // namespace memlake
