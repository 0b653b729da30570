// Every sentence that the check of a pool can say by itself.

#include "emulated.hpp"
#include "guards.hpp"
#include "policies/lake/lake_space.hpp"
#include "policies/torch/graph_rules.hpp"
#include "policies/torch/torch_rules.hpp"
#include "replay/trace_events.hpp"
#include "sabotage_pool.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::change;

const char* const kDevice = "devices=1,memory=512MiB,backing=none";

test::Check check_of(const Pool& pool) {
  return [&pool] { return pool.find_broken_invariant(); };
}

TEST(every_sentence_of_the_check_of_a_pool_is_reported) {
  const test::EmulatedDevices devices(kDevice);
  TraceEvents events(EventMode::lag, 1000);
  Pool pool(devices[0], std::make_unique<TorchRules>(TorchOptions{}), events, TorchOptions::kUnlimited);
  const test::PoolSabotage sabotage{pool};
  Block* live = pool.allocate(MiB * 4, 0);
  Block* pending = pool.allocate(MiB * 4, 0);
  pool.record_use(pending, 1);
  pool.free(pending);
  Block foreign{};
  const PoolStats stats = sabotage.stats();

  test::expect_reported(
      check_of(pool),
      {"core/pool/pool_check.cpp",
       {{"I6: * events are awaited, but * are counted", "too many events are counted",
         [&] { return change(sabotage.awaited_count(), 2); }},
        {"I6: * events are awaited, but * are counted", "an event is counted as one that a request may skip",
         [&] { return change(sabotage.reusable_here(), 1); }},
        {"I6: * waits for * events, * are on their way", "a block waits for an event that no stream will bring",
         [&] { return change(live->awaited, 1); }},
        {"I6: * has events to wait for but is not pending", "a block is in use again too early",
         [&] { return change(pending->state, BlockState::live); }},
        {"I6: * is pending, but no event will set it free", "a block is pending for no reason",
         [&] { return change(live->state, BlockState::pending); }},
        {"I6: * events are awaited, but only * for blocks that the pool has",
         "an event is awaited for a block of no pool", [&] { return sabotage.await(1, foreign); }},
        {"I7: * is smaller than its request", "more was requested than the block has",
         [&] { return change(live->requested, live->size + Bytes{1}); }},
        {"I7: the spaces of the pool hold * bytes, but its budget says *", "the budget counts too much",
         [&] { return change(sabotage.held_by_budget(), sabotage.held_by_budget() + KiB); }},
        {"I7: live * + pending * + free * is not what is held, *", "a block is neither in use nor free",
         [&] { return change(live->state, BlockState::lent); }},
        {"I7: the counters of live and pending bytes disagree with the blocks", "too much is counted as live",
         [&] { return change(sabotage.stats().allocated.now, stats.allocated.now + KiB); }},
        {"I7: the counters of live and pending bytes disagree with the blocks", "too much is counted as active",
         [&] { return change(sabotage.stats().active.now, stats.active.now + KiB); }},
        {"I7: the counters of live and pending bytes disagree with the blocks", "too little is counted as requested",
         [&] { return change(live->requested, Bytes{1}); }},
        {"I8: a live or pending block changed although nobody allocated or freed it", "a block is another allocation's",
         [&] { return change(live->id, 77); }}}});
}

TEST(every_sentence_of_the_check_of_graph_pools_is_reported) {
  const test::EmulatedDevices devices(kDevice);
  TraceEvents events(EventMode::immediate, 0, devices[0]);
  Pool pool(devices[0], std::make_unique<TorchRules>(TorchOptions{}), events, TorchOptions::kUnlimited);
  pool.graphs().use({1, 0});
  Space& space = pool.graphs().space({1, 0}, 0, [&](std::shared_ptr<GraphPool> graph_pool) {
    return make_graph_space(pool.spaces().policy(), {devices[0]}, 0, events, std::move(graph_pool));
  });
  pool.allocate(space, MiB * 4, 0);
  GraphPool& graph_pool = *space.graph_pool();
  test::expect_reported(check_of(pool),
                        {"core/pool/pool_graphs.cpp",
                         {{"I7: the graph pool * has * live bytes, but counts *", "too much is counted as live",
                           [&] { return change(graph_pool.live.now, graph_pool.live.now + KiB); }},
                          {"I4: the graph pool * holds * bytes, but graphs use *", "memory of a graph is gone",
                           [&] { return change(graph_pool.kept, graph_pool.kept + MiB); }}}});
}

TEST(the_check_of_a_pool_ends_where_links_of_blocks_lead_back) {
  const test::EmulatedDevices devices(kDevice);
  TraceEvents events(EventMode::immediate, 0);
  Pool pool(std::make_unique<LakeSpace>(std::vector{devices[0]}, LakeOptions{}, events,
                                        std::make_shared<Budget>(TorchOptions::kUnlimited)),
            events);
  Block* block = pool.allocate(MiB * 4, 0);
  test::expect_reported(check_of(pool), {"core/policies/lake/lake_check.cpp",
                                         {{"I1: * leaves a gap or overlaps what is below it", "a link leads back",
                                           [&] { return change(block->previous->next, block->previous); }}}});
}

}  // namespace
}  // namespace memlake
