// Graph pools inside a pool: what they keep, what they share, and how their memory comes back.

#include <map>
#include <memory>
#include <random>
#include <vector>

#include "emulated.hpp"
#include "policies/registry/registry.hpp"
#include "policies/torch/graph_rules.hpp"
#include "pool/pool.hpp"
#include "replay/trace_events.hpp"
#include "runtime/live_pool.hpp"
#include "test.hpp"

namespace memlake {
namespace {

constexpr GraphPoolId kGraph{1, 0};
constexpr GraphPoolId kOther{0, 2};
constexpr const char* kPolicies[] = {"lake", "stitch", "caching", "expandable", "direct"};

/// A pool with the events of a trace.
struct Pooled {
  explicit Pooled(const char* policy, Bytes limit = MiB * 128)
      : pool(choose_policy(policy).space_maker()({devices[0]}, events, std::make_shared<Budget>(limit)), events) {}

  Space& space(GraphPoolId id) {
    return pool.graphs().space(id, 0, [&](std::shared_ptr<GraphPool> graph_pool) {
      return make_graph_space(pool.spaces().policy(), {devices[0]}, 0, events, std::move(graph_pool));
    });
  }
  Block* allocate(GraphPoolId id, Bytes size, StreamId stream = 0) { return pool.allocate(space(id), size, stream); }
  [[nodiscard]] Bytes held(GraphPoolId id) const {
    const GraphPool* graph_pool = pool.graphs().find(id);
    return graph_pool == nullptr ? Bytes{0} : pool.graphs().held_by(*graph_pool);
  }
  void expect_sound() const { EXPECT_EQ(pool.find_broken_invariant().value_or(""), std::string()); }

  test::EmulatedDevices devices{"devices=1,memory=256MiB,backing=none"};
  TraceEvents events{EventMode::immediate, 0, devices[0]};
  Pool pool;
};

TEST(free_memory_of_a_graph_pool_serves_that_graph_pool_and_nothing_else) {
  for (const char* policy : kPolicies) {
    Pooled p(policy);
    p.pool.graphs().use(kGraph);
    p.pool.graphs().use(kOther);
    Block* block = p.allocate(kGraph, MiB * 30);
    const Address place = block->address;
    p.pool.free(block);
    EXPECT(p.held(kGraph) >= MiB * 30);
    Block* elsewhere = p.pool.allocate(MiB * 30, 0);
    Block* other = p.allocate(kOther, MiB * 30);
    EXPECT(elsewhere->address != place && other->address != place);
    EXPECT_EQ(p.allocate(kGraph, MiB * 30)->address, place);
    EXPECT_EQ(p.pool.figures().stats().graph_held.now, p.held(kGraph) + p.held(kOther));
    EXPECT_EQ(p.pool.figures().stats().graph_live.now, MiB * 60);
    p.expect_sound();
  }
}

TEST(nothing_takes_memory_of_a_graph_pool_while_a_graph_uses_it) {
  for (const char* policy : kPolicies) {
    Pooled p(policy);
    p.pool.graphs().use(kGraph);
    p.pool.graphs().use(kGraph);  // two graphs share it
    p.pool.free(p.allocate(kGraph, MiB * 60));
    const Bytes held = p.held(kGraph);
    EXPECT(held >= MiB * 60);
    for (const bool is_second : {false, true}) {
      p.pool.trim({0});
      p.pool.release_cached();
      EXPECT(p.pool.allocate(MiB * 100, 0) == nullptr);
      EXPECT_EQ(p.held(kGraph), held);
      p.expect_sound();
      p.pool.release_graph_pool(kGraph, false);
      EXPECT_EQ(p.pool.graphs().find(kGraph)->uses, is_second ? 0u : 1u);
    }
    // Only now it comes back.
    Block* block = p.pool.allocate(MiB * 100, 0);
    EXPECT(block != nullptr);
    EXPECT(p.pool.graphs().find(kGraph) == nullptr);
    EXPECT_EQ(p.pool.spaces().size(), 1u);
    EXPECT_EQ(p.pool.figures().stats().graph_held.now, Bytes{0});
    p.expect_sound();
    EXPECT_ERROR(invalid_free, p.pool.release_graph_pool(kGraph, false));
  }
}

TEST(memory_of_released_graphs_comes_back_before_the_pool_gives_up_its_own) {
  Pooled p("caching");
  p.pool.graphs().use(kGraph);
  p.pool.free(p.allocate(kGraph, MiB * 60));
  Block* cached = p.pool.allocate(MiB * 40, 0);
  const Address place = cached->address;
  p.pool.free(cached);
  p.pool.release_graph_pool(kGraph, true);
  p.pool.release_ended_graphs(true);
  EXPECT_EQ(p.pool.figures().stats().held.now, MiB * 40);
  EXPECT(p.pool.allocate(MiB * 60, 0) != nullptr);  // its own cached memory stays
  EXPECT_EQ(p.pool.allocate(MiB * 40, 0)->address, place);
}

TEST(a_block_that_is_live_when_its_graph_pool_is_released_stays_until_it_is_freed) {
  for (const char* policy : kPolicies) {
    Pooled p(policy);
    p.pool.graphs().use(kGraph);
    Block* kept = p.allocate(kGraph, MiB * 30);
    p.pool.free(p.allocate(kGraph, MiB * 60));
    p.pool.release_graph_pool(kGraph, true);
    p.pool.release_ended_graphs(true);
    EXPECT(p.held(kGraph) >= MiB * 30);
    EXPECT(p.held(kGraph) < MiB * 60);
    EXPECT_EQ(kept->state, BlockState::live);
    p.expect_sound();
    // A graph may take it back before that.
    p.pool.graphs().use(kGraph);
    p.pool.free(kept);
    p.pool.trim({0});
    EXPECT(p.held(kGraph) >= MiB * 30);
    p.pool.release_graph_pool(kGraph, true);
    p.pool.release_ended_graphs(true);
    EXPECT(p.pool.graphs().find(kGraph) == nullptr);
    p.expect_sound();
  }
}

TEST(a_graph_pool_gets_what_the_pool_caches_and_no_more_than_its_limit) {
  for (const char* policy : kPolicies) {
    Pooled p(policy, MiB * 100);
    p.pool.free(p.pool.allocate(MiB * 80, 0));
    p.pool.graphs().use(kGraph);
    Block* block = p.allocate(kGraph, MiB * 80);
    EXPECT(block != nullptr);
    const Bytes held = p.pool.figures().stats().held.now;
    EXPECT(held <= MiB * 100);
    EXPECT(p.allocate(kGraph, MiB * 30) == nullptr);
    EXPECT_EQ(p.pool.figures().stats().held.now, held);
    p.expect_sound();
    const Address place = block->address;
    p.pool.free(block);
    EXPECT_EQ(p.allocate(kGraph, MiB * 60)->address, place);  // within the graph pool it is reused
  }
}

TEST(a_thousand_graph_pools_one_after_another_leave_nothing) {
  Pooled p("lake");
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    p.pool.graphs().use({i, 0});
    p.pool.free(p.allocate({i, 0}, MiB));
    p.pool.release_graph_pool({i, 0}, true);
    p.pool.release_ended_graphs(true);
  }
  EXPECT_EQ(p.pool.spaces().size(), 1u);
  EXPECT_EQ(p.pool.figures().stats().held.now, Bytes{0});
  p.expect_sound();
  EXPECT_ERROR(invalid_argument, p.pool.graphs().use({}));
}

TEST(a_graph_pool_of_several_devices_has_memory_of_the_device_of_the_stream) {
  const test::EmulatedDevices devices("devices=2,memory=256MiB,backing=none");
  const auto pool = LivePool::make({devices[0], devices[1]}, choose_policy("lake").space_maker(), Budget::kUnlimited);
  const std::uint64_t number = pool->graphs().begin_requests(kGraph, [](CUstream) { return true; });
  {
    const auto stream = std::make_shared<StreamOwner>(devices[1], true, 0);
    const StreamName name{.handle = stream->handle(), .owner = stream, .device = 1};
    Shortage shortage;
    auto lease = pool->allocate(MiB * 30, name, shortage);
    EXPECT(lease.has_value());
    const auto pieces = lease->pieces();
    EXPECT_EQ(pieces.size(), 1u);
    EXPECT_EQ(pieces.front().first, 1u);
    EXPECT_EQ(pool->find_broken_invariant().value_or(""), std::string());
    EXPECT_ERROR(invalid_argument, pool->graphs().release(kGraph, true));
    lease->close();
  }
  pool->graphs().end_requests(number);
  pool->graphs().release(kGraph, true);
  EXPECT_EQ(pool->figures().stats().pool.held.now, Bytes{0});
}

TEST(a_fault_at_any_call_of_a_graph_pool_leaves_nothing_behind) {
  for (const char* policy : kPolicies)
    for (const Call call :
         {Call::cuMemCreate, Call::cuMemMap, Call::cuMemSetAccess, Call::cuMemAddressReserve, Call::cuMemAlloc}) {
      Pooled p(policy);
      p.pool.graphs().use(kGraph);
      Block* before = p.allocate(kGraph, MiB * 5);
      const Bytes held = p.pool.figures().stats().held.now;
      FailingDriver& failing = test::emulator().failing();
      // The second time, too: what other memory of the pool could have helped is not there.
      for (const std::uint64_t nth : {std::uint64_t{1}, std::uint64_t{2}})
        failing.fail(call, nth, CUDA_ERROR_OUT_OF_MEMORY);
      Block* block = p.allocate(kGraph, MiB * 50);
      failing.clear();
      if (block == nullptr) EXPECT_EQ(p.pool.figures().stats().held.now, held);
      p.expect_sound();
      if (block != nullptr) p.pool.free(block);
      EXPECT(p.allocate(kGraph, MiB * 50) != nullptr);
      p.pool.free(before);
      p.expect_sound();
    }
}

TEST(states_of_a_graph_pool_that_are_set_again_at_random_keep_every_invariant) {
  for (const char* policy : kPolicies) {
    for (unsigned seed = 0; seed < 8; ++seed) {
      std::mt19937 random(seed);
      Pooled p(policy);
      p.pool.graphs().use(kGraph);
      std::map<Address, Block*> live;
      std::vector<EarlierBlock> saved;
      for (int step = 0; step < 200; ++step) {
        const unsigned choice = random() % 20;
        if (choice < 12) {
          const Bytes size{(random() % 2 == 0 ? 512 : 256 * 1024) * (1 + random() % 12) - random() % 400};
          if (Block* block = p.allocate(kGraph, size, random() % 3)) live.emplace(block->address, block);
        } else if (choice < 18) {
          if (live.empty()) continue;
          const auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
          p.pool.free(victim->second);
          live.erase(victim);
        } else if (choice < 19) {
          saved.clear();
          for (const auto& [address, block] : live)
            saved.push_back({{address, block->size}, block->requested, block->user});
        } else {
          std::vector<Block*> freed;
          for (const auto& [address, block] : live) freed.push_back(block);
          live.clear();
          const std::vector<Block*> taken = p.pool.restore(kGraph, freed, saved, [] {});
          EXPECT_EQ(taken.size(), saved.size());
          for (std::size_t i = 0; i < taken.size(); ++i) {
            EXPECT(taken[i]->address == saved[i].range.begin && taken[i]->size == saved[i].range.size);
            live.emplace(taken[i]->address, taken[i]);
          }
        }
        p.expect_sound();
      }
      for (const auto& [address, block] : live) p.pool.free(block);
      p.pool.release_graph_pool(kGraph, false);
      p.pool.release_ended_graphs(true, kOther);
      EXPECT(p.held(kGraph).count > 0);  // another one was meant
      p.pool.release_ended_graphs(true, kGraph);
      EXPECT_EQ(p.held(kGraph), Bytes{0});
      p.expect_sound();
    }
  }
}

}  // namespace
}  // namespace memlake
