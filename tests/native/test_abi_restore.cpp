// memlake_pool_restore_graph: an earlier state of a graph pool is set again, or nothing changes.

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "abi_results.hpp"
#include "emulated_streams.hpp"
#include "memlake.h"
#include "memlake_emulator.h"
#include "own_process.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::expect_ok;
using test::make_stream;
using Blocks = std::vector<memlake_block_t>;

constexpr std::size_t kMiB = std::size_t{1} << 20;

memlake_pool* make_pool(const std::string& policy) {
  const std::string conf = "policy:" + policy + ",driver:emulated,memory:512MiB,backing:none";
  memlake_pool* const pool = memlake_pool_create(conf.c_str(), 0);
  if (pool == nullptr) test::fail(memlake_last_error(), std::source_location::current());
  expect_ok(memlake_pool_use_graph(pool, 0, 7));
  return pool;
}

void* take(memlake_pool* pool, std::size_t size, void* stream) {
  return memlake_pool_try_allocate_in_graph(pool, 0, 7, size, stream);
}

/// The blocks of the graph pool (0, 7), in the order of their addresses.
Blocks all_blocks(memlake_pool* pool) {
  Blocks found;
  const auto add = [](const memlake_block_t* block, std::uint64_t, std::uint64_t second, void* user) {
    if (second == 7) static_cast<Blocks*>(user)->push_back(*block);
    return 0;
  };
  expect_ok(memlake_pool_visit_graph_blocks(pool, add, &found));
  return found;
}

Blocks live_blocks(memlake_pool* pool) {
  Blocks live = all_blocks(pool);
  std::erase_if(live, [](const memlake_block_t& block) { return block.state != MEMLAKE_BLOCK_LIVE; });
  return live;
}

void expect_same(const Blocks& found, const Blocks& expected) {
  EXPECT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].address, expected[i].address);
    EXPECT_EQ(found[i].size, expected[i].size);
    EXPECT_EQ(found[i].requested, expected[i].requested);
    EXPECT_EQ(found[i].stream, expected[i].stream);
    EXPECT_EQ(found[i].state, expected[i].state);
  }
}

void count(const memlake_block_t*, void* user) { ++*static_cast<int*>(user); }

/// Sets the state; returns how many blocks it freed.
int restore(memlake_pool* pool, const Blocks& earlier) {
  int freed = 0;
  expect_ok(memlake_pool_restore_graph(pool, 0, 7, earlier.data(), earlier.size(), count, &freed));
  return freed;
}

/// Expects that the state cannot be set, for a reason with these words, and that nothing has changed.
void expect_refused(memlake_pool* pool, const Blocks& earlier, const std::string& words,
                    std::source_location where = std::source_location::current()) {
  const Blocks before = all_blocks(pool);
  const memlake_pool_stats_t stats = test::stats_of(pool);
  int freed = 0;
  const int code = memlake_pool_restore_graph(pool, 0, 7, earlier.data(), earlier.size(), count, &freed);
  if (code != MEMLAKE_ERROR_INVALID_ARGUMENT) test::fail("it was not refused", where);
  if (std::string(memlake_last_error()).find(words) == std::string::npos) test::fail(memlake_last_error(), where);
  EXPECT_EQ(freed, 0);
  expect_same(all_blocks(pool), before);
  EXPECT_EQ(test::stats_of(pool).num_frees, stats.num_frees);
  EXPECT_EQ(test::stats_of(pool).num_allocations, stats.num_allocations);
}

void end(memlake_pool* pool) {
  for (const memlake_block_t& block : live_blocks(pool))
    expect_ok(memlake_pool_free(pool, reinterpret_cast<void*>(block.address)));
  expect_ok(memlake_pool_release_graph(pool, 0, 7, 1));
  expect_ok(memlake_pool_destroy(pool));
}

PROCESS_TEST(an_earlier_state_of_a_graph_pool_can_be_set_again) {
  for (const char* policy : {"lake", "caching", "expandable", "stitch", "direct", "driver"}) {
    memlake_pool* const pool = make_pool(policy);
    const cuda::CUstream stream = make_stream();
    std::vector<void*> blocks;
    for (const std::size_t size : {std::size_t{700}, 3 * kMiB, 1000 * std::size_t{1000}, 11 * kMiB, 5 * kMiB})
      blocks.push_back(take(pool, size, stream));
    expect_ok(memlake_pool_free(pool, blocks[1]));
    expect_ok(memlake_pool_free(pool, blocks[3]));
    const Blocks before = live_blocks(pool);
    EXPECT_EQ(before.size(), 3u);
    // Other blocks lie there now.
    for (const std::size_t i : {0U, 2U, 4U}) expect_ok(memlake_pool_free(pool, blocks[i]));
    blocks = {take(pool, 17 * kMiB, stream), take(pool, 100, stream)};
    EXPECT_EQ(restore(pool, before), 2);
    expect_same(live_blocks(pool), before);
    // The same state again: everything is freed and allocated once more.
    EXPECT_EQ(restore(pool, before), 3);
    expect_same(live_blocks(pool), before);
    EXPECT_EQ(restore(pool, {}), 3);
    EXPECT_EQ(live_blocks(pool).size(), 0u);
    end(pool);
  }
}

PROCESS_TEST(states_of_random_programs_can_be_set_in_any_order) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    memlake_pool* const pool = make_pool(seed % 2 == 0 ? "lake" : "caching");
    const std::vector<void*> streams{nullptr, make_stream()};
    std::vector<Blocks> states;
    for (int step = 0; step < 200; ++step) {
      const Blocks live = live_blocks(pool);
      if (random() % 3 > 0) {
        const std::size_t size = random() % 2 == 0 ? 1 + random() % 5000 : 1 + random() % (4 * kMiB);
        EXPECT(take(pool, size, streams[random() % 2]) != nullptr);
      } else if (!live.empty()) {
        expect_ok(memlake_pool_free(pool, reinterpret_cast<void*>(live[random() % live.size()].address)));
      }
      if (step % 20 == 0) states.push_back(live_blocks(pool));
      if (step % 17 == 0) {
        const Blocks& state = states[random() % states.size()];
        const std::size_t freed = live_blocks(pool).size();
        EXPECT_EQ(static_cast<std::size_t>(restore(pool, state)), freed);
        expect_same(live_blocks(pool), state);
      }
    }
    end(pool);
  }
}

PROCESS_TEST(a_state_that_cannot_be_set_leaves_the_graph_pool_as_it_was) {
  memlake_pool* const pool = make_pool("lake");
  const cuda::CUstream stream = make_stream();
  const std::vector<void*> blocks{take(pool, 3 * kMiB, stream), take(pool, 700, stream), take(pool, 5 * kMiB, stream)};
  const Blocks state = live_blocks(pool);
  expect_ok(memlake_pool_free(pool, blocks[0]));
  take(pool, kMiB, stream);
  const auto with = [&](const std::function<void(Blocks&)>& change) {
    Blocks changed = state;
    change(changed);
    return changed;
  };
  expect_refused(pool, with([](Blocks& b) { b.back().address += 1024 * kMiB; }), "are not its memory");
  expect_refused(pool, with([](Blocks& b) { b.back().size += 64 * kMiB; }), "are not its memory");
  expect_refused(pool, with([](Blocks& b) { b.back().address = UINT64_MAX - 511; }), "are not its memory");
  expect_refused(pool, with([](Blocks& b) { b.back().stream = nullptr; }), "are not its memory for this stream");
  expect_refused(pool, with([](Blocks& b) { b.push_back(b.front()); }), "are named twice");
  expect_refused(pool, with([](Blocks& b) { b.back().address += 1; }), "multiple of 512");
  expect_refused(pool, with([](Blocks& b) { b.back().size = b.back().requested = 700; }), "multiple of 512");
  expect_refused(pool, with([](Blocks& b) { b.back().requested = 0; }), "a request of 0 bytes");
  expect_refused(pool, with([](Blocks& b) { b.back().requested = b.back().size + 1; }), "needs a block of at least");
  restore(pool, state);
  expect_same(live_blocks(pool), state);
  end(pool);
}

PROCESS_TEST(memory_that_another_stream_uses_is_not_restored_over) {
  for (const bool is_freed : {false, true}) {
    memlake_pool* const pool = make_pool("lake");
    const cuda::CUstream stream = make_stream();
    const cuda::CUstream other = make_stream();
    void* const first = take(pool, 3 * kMiB, stream);
    const Blocks state = live_blocks(pool);
    void* const second = take(pool, 5 * kMiB, stream);
    std::uint64_t gate = 0;
    EXPECT_EQ(memlakeEmulatorHold(other, &gate), 0);
    expect_ok(memlake_pool_record_stream(pool, first, other));
    if (is_freed) expect_ok(memlake_pool_free(pool, first));
    expect_refused(pool, state, "another stream");
    // What is not used there can be freed.
    expect_ok(memlake_pool_free(pool, second));
    EXPECT_EQ(memlakeEmulatorOpen(gate), 0);
    EXPECT_EQ(cuStreamSynchronize(other), 0);
    restore(pool, state);
    expect_same(live_blocks(pool), state);
    end(pool);
  }
}

PROCESS_TEST(the_state_of_a_graph_pool_that_has_gone_is_refused) {
  memlake_pool* const pool = make_pool("lake");
  void* const block = take(pool, 3 * kMiB, nullptr);
  const Blocks state = live_blocks(pool);
  expect_ok(memlake_pool_free(pool, block));
  expect_ok(memlake_pool_release_graph(pool, 0, 7, 1));
  expect_refused(pool, state, "no graph uses the graph pool (0, 7)");
  // Another one of the same name has other memory.
  expect_ok(memlake_pool_use_graph(pool, 0, 7));
  expect_refused(pool, state, "are not its memory");
  end(pool);
}

}  // namespace
}  // namespace memlake
