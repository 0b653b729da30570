// Graph pools through the C functions: captures, launches under pressure, threads, and the functions for PyTorch.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "abi_results.hpp"
#include "emulated_streams.hpp"
#include "memlake.h"
#include "own_process.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::begin_capture;
using test::end_capture;
using test::expect_ok;
using test::make_stream;
using test::stats_of;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr const char* kPolicies[] = {"lake", "caching", "expandable", "stitch", "direct", "driver"};

memlake_pool* make_pool(const std::string& policy, const std::string& more = "") {
  const std::string conf = "policy:" + policy + ",driver:emulated,memory:256MiB,backing:none" + more;
  memlake_pool* const pool = memlake_pool_create(conf.c_str(), 0);
  if (pool == nullptr) test::fail(memlake_last_error(), std::source_location::current());
  return pool;
}

memlake_graph_stats_t graph_of(memlake_pool* pool, std::uint64_t first, std::uint64_t second) {
  memlake_graph_stats_t stats{};
  stats.struct_size = sizeof(stats);
  expect_ok(memlake_pool_graph_stats(pool, first, second, &stats));
  return stats;
}

int is_stream(void* stream, void* user) { return stream == user ? 1 : 0; }

/// The graph pools of all blocks.
int add_pool(const memlake_block_t* block, std::uint64_t first, std::uint64_t second, void* user) {
  auto& held = *static_cast<std::vector<std::uint64_t>*>(user);
  held.at(first != 0 || second != 0 ? 1 : 0) += block->size;
  return 0;
}

PROCESS_TEST(requests_that_a_filter_takes_go_to_the_graph_pool) {
  for (const char* policy : kPolicies) {
    memlake_pool* const pool = make_pool(policy);
    const cuda::CUstream stream = make_stream();
    const cuda::CUstream other = make_stream();
    expect_ok(memlake_pool_begin_graph(pool, 0, 7, is_stream, stream));
    begin_capture(stream);
    void* const first = memlake_pool_allocate(pool, 30 * kMiB, stream);
    void* const outside = memlake_pool_allocate(pool, 5 * kMiB, other);
    EXPECT(first != nullptr && outside != nullptr);
    expect_ok(memlake_pool_free(pool, first));
    // In the order of the capture it is used again.
    EXPECT(memlake_pool_allocate(pool, 30 * kMiB, stream) == first);
    end_capture(stream);
    expect_ok(memlake_pool_end_graph(pool, 0, 7));
    EXPECT_EQ(memlake_pool_end_graph(pool, 0, 7), int{MEMLAKE_ERROR_INVALID_ARGUMENT});
    EXPECT_EQ(graph_of(pool, 0, 7).uses, 1u);
    EXPECT_EQ(graph_of(pool, 0, 7).live, 30 * kMiB);
    EXPECT_EQ(stats_of(pool).graph_live, 30 * kMiB);
    EXPECT_EQ(stats_of(pool).graph_held, graph_of(pool, 0, 7).held);
    std::vector<std::uint64_t> held(2);
    expect_ok(memlake_pool_visit_graph_blocks(pool, add_pool, &held));
    EXPECT_EQ(held[1], graph_of(pool, 0, 7).held);
    EXPECT(held[0] >= 5 * kMiB);

    // Freed after the capture, it goes back to the graph pool, and stays.
    expect_ok(memlake_pool_free(pool, first));
    void* const now = memlake_pool_allocate(pool, 30 * kMiB, stream);
    EXPECT(now != first);
    expect_ok(memlake_pool_free(pool, now));
    expect_ok(memlake_pool_trim(pool, 0));
    EXPECT(graph_of(pool, 0, 7).held >= 30 * kMiB);
    expect_ok(memlake_pool_release_graph(pool, 0, 7, 1));
    EXPECT_EQ(memlake_pool_release_graph(pool, 0, 7, 1), int{MEMLAKE_ERROR_INVALID_FREE});
    EXPECT_EQ(graph_of(pool, 0, 7).held, 0u);
    EXPECT_EQ(stats_of(pool).graph_held, 0u);
    expect_ok(memlake_pool_free(pool, outside));
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(a_use_on_another_stream_of_the_capture_keeps_memory_until_the_capture_ends) {
  for (const char* policy : kPolicies) {
    memlake_pool* const pool = make_pool(policy);
    const cuda::CUstream stream = make_stream();
    const cuda::CUstream second = make_stream();
    expect_ok(memlake_pool_begin_graph(pool, 3, 0, nullptr, nullptr));
    begin_capture(stream);
    begin_capture(second);
    void* const block = memlake_pool_allocate(pool, 20 * kMiB, stream);
    expect_ok(memlake_pool_record_stream(pool, block, second));
    expect_ok(memlake_pool_free(pool, block));
    void* const other = memlake_pool_allocate(pool, 20 * kMiB, stream);
    EXPECT(other != nullptr && other != block);
    end_capture(second);
    end_capture(stream);
    EXPECT(memlake_pool_allocate(pool, 20 * kMiB, stream) == block);
    expect_ok(memlake_pool_end_graph(pool, 3, 0));
    expect_ok(memlake_pool_free(pool, block));
    expect_ok(memlake_pool_free(pool, other));
    expect_ok(memlake_pool_release_graph(pool, 3, 0, 1));
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(released_without_a_wait_the_memory_comes_back_when_it_is_needed) {
  for (const char* policy : kPolicies) {
    memlake_pool* const pool = make_pool(policy, ",limit:128MiB");
    expect_ok(memlake_pool_begin_graph(pool, 1, 0, nullptr, nullptr));
    EXPECT_EQ(memlake_pool_release_graph(pool, 1, 0, 0), int{MEMLAKE_ERROR_INVALID_ARGUMENT});
    expect_ok(memlake_pool_free(pool, memlake_pool_allocate(pool, 100 * kMiB, nullptr)));
    expect_ok(memlake_pool_end_graph(pool, 1, 0));
    EXPECT(memlake_pool_allocate(pool, 100 * kMiB, nullptr) == nullptr);
    expect_ok(memlake_pool_release_graph(pool, 1, 0, 0));
    EXPECT(stats_of(pool).graph_held >= 100 * kMiB);
    void* const block = memlake_pool_allocate(pool, 100 * kMiB, nullptr);
    if (block == nullptr) test::fail(memlake_last_error(), std::source_location::current());
    EXPECT_EQ(stats_of(pool).graph_held, 0u);
    expect_ok(memlake_pool_free(pool, block));
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(memory_of_a_graph_pool_is_not_released_while_its_graph_may_run) {
  memlake_pool* const pool = make_pool("lake", ",limit:128MiB");
  const cuda::CUstream stream = make_stream();  // the pool never sees it
  expect_ok(memlake_pool_begin_graph(pool, 1, 0, nullptr, nullptr));
  void* const block = memlake_pool_allocate(pool, 100 * kMiB, nullptr);
  expect_ok(memlake_pool_free(pool, block));
  expect_ok(memlake_pool_end_graph(pool, 1, 0));
  std::uint64_t gate = 0;
  EXPECT_EQ(memlakeEmulatorHold(stream, &gate), 0);
  EXPECT_EQ(cuMemsetD8Async(reinterpret_cast<std::uint64_t>(block), 1, 100 * kMiB, stream), 0);
  expect_ok(memlake_pool_release_graph(pool, 1, 0, 0));
  expect_ok(memlake_pool_trim(pool, 0));
  EXPECT(stats_of(pool).graph_held >= 100 * kMiB);  // a trim waits for nobody
  std::thread opener([&] { EXPECT_EQ(memlakeEmulatorOpen(gate), 0); });
  expect_ok(memlake_pool_free(pool, memlake_pool_allocate(pool, 100 * kMiB, nullptr)));
  opener.join();
  EXPECT_EQ(stats_of(pool).graph_held, 0u);
  expect_ok(memlake_pool_destroy(pool));
}

PROCESS_TEST(threads_that_capture_into_graph_pools_and_threads_that_do_not_leave_nothing) {
  for (const char* policy : kPolicies) {
    memlake_pool* const pool = make_pool(policy);
    std::vector<std::thread> threads;
    for (std::uint64_t number = 1; number <= 3; ++number)
      threads.emplace_back([&, number] {
        const cuda::CUstream stream = make_stream();
        for (int round = 0; round < 30; ++round) {
          expect_ok(memlake_pool_begin_graph(pool, number, 0, is_stream, stream));
          begin_capture(stream);
          std::vector<void*> blocks;
          for (const std::size_t size : {std::size_t{700}, 3 * kMiB, 11 * kMiB})
            if (void* const block = memlake_pool_allocate(pool, size, stream)) blocks.push_back(block);
          for (void* block : blocks) expect_ok(memlake_pool_free(pool, block));
          end_capture(stream);
          expect_ok(memlake_pool_end_graph(pool, number, 0));
          if (round % 3 == 2)
            for (int i = 0; i < 3; ++i) expect_ok(memlake_pool_release_graph(pool, number, 0, i % 2));
        }
      });
    threads.emplace_back([&] {
      const cuda::CUstream stream = make_stream();
      for (int round = 0; round < 300; ++round) {
        if (void* const block = memlake_pool_allocate(pool, 20 * kMiB, stream))
          expect_ok(memlake_pool_free(pool, block));
        if (round % 10 == 0) expect_ok(memlake_pool_trim(pool, 0));
      }
    });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(stats_of(pool).graph_live, 0u);
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(a_capture_of_another_thread_survives_new_pools_and_streams_that_end) {
  for (const char* policy : {"lake", "caching"}) {
    memlake_pool* const pool = make_pool(policy);
    const cuda::CUstream capturing = make_stream();
    std::vector<cuda::CUstream> streams;
    for (int i = 0; i < 70; ++i) streams.push_back(make_stream());
    for (const cuda::CUstream stream : streams)
      expect_ok(memlake_pool_free(pool, memlake_pool_allocate(pool, kMiB, stream)));
    begin_capture(capturing, 0);  // global
    std::thread([&] {
      for (const cuda::CUstream stream : streams) EXPECT_EQ(cuStreamDestroy_v2(stream), 0);
      for (int i = 0; i < 70; ++i) expect_ok(memlake_pool_free(pool, memlake_pool_allocate(pool, kMiB, make_stream())));
      EXPECT(memlake_pool_allocate(pool, 1000 * kMiB, nullptr) == nullptr);
      memlake_pool* const another = make_pool(policy);
      expect_ok(memlake_pool_free(another, memlake_pool_allocate(another, 30 * kMiB, nullptr)));
      expect_ok(memlake_pool_destroy(another));
    }).join();
    end_capture(capturing);
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(graph_pools_of_pytorch_follow_its_device_and_stay_in_their_pool) {
  memlake_pool* const pool = make_pool("lake");
  expect_ok(memlake_torch_set_pool(0, pool));
  const cuda::CUstream stream = make_stream();
  EXPECT_EQ(memlake_torch_graph_uses(0, 0, 5), 0);
  expect_ok(memlake_torch_use_graph(0, 0, 5));
  expect_ok(memlake_torch_begin_graph(0, 0, 5, is_stream, stream));
  EXPECT_EQ(memlake_torch_graph_uses(0, 0, 5), 2);
  void* const block = memlake_torch_malloc(static_cast<ssize_t>(4 * kMiB), 0, stream);
  EXPECT(block != nullptr);
  EXPECT_EQ(graph_of(pool, 0, 5).live, 4 * kMiB);
  memlake_pool* const next = make_pool("caching");
  expect_ok(memlake_torch_set_pool(0, next));
  expect_ok(memlake_torch_end_graph(0, 0, 5));
  memlake_torch_free(block, 0, 0, stream);
  EXPECT_EQ(graph_of(pool, 0, 5).live, 0u);
  expect_ok(memlake_torch_release_graph(0, 0, 5, 0));
  EXPECT_EQ(memlake_torch_graph_uses(0, 0, 5), 1);
  expect_ok(memlake_torch_release_graph(0, 0, 5, 1));
  EXPECT_EQ(memlake_torch_graph_uses(0, 0, 5), 0);
  EXPECT_EQ(stats_of(pool).graph_held, 0u);
  EXPECT_EQ(memlake_torch_release_graph(0, 0, 5, 1), int{MEMLAKE_ERROR_INVALID_FREE});
}

PROCESS_TEST(a_request_can_name_its_graph_pool) {
  for (const char* policy : kPolicies) {
    memlake_pool* const pool = make_pool(policy, ",limit:128MiB");
    const cuda::CUstream stream = make_stream();
    EXPECT(memlake_pool_try_allocate_in_graph(pool, 0, 7, kMiB, stream) == nullptr);
    EXPECT_EQ(memlake_last_error_code(), int{MEMLAKE_ERROR_INVALID_ARGUMENT});
    expect_ok(memlake_pool_use_graph(pool, 0, 7));
    EXPECT(memlake_pool_try_allocate_in_graph(pool, 0, 7, 0, stream) == nullptr);
    begin_capture(stream);
    void* const inside = memlake_pool_try_allocate_in_graph(pool, 0, 7, 30 * kMiB, stream);
    EXPECT(inside != nullptr);
    end_capture(stream);
    void* const outside = memlake_pool_allocate(pool, 30 * kMiB, stream);  // no filter: not in the graph pool
    EXPECT(outside != nullptr);
    EXPECT_EQ(graph_of(pool, 0, 7).live, 30 * kMiB);
    EXPECT(memlake_pool_try_allocate_in_graph(pool, 0, 7, 100 * kMiB, stream) == nullptr);
    EXPECT_EQ(memlake_last_error_code(), int{MEMLAKE_ERROR_OUT_OF_MEMORY});
    EXPECT_EQ(stats_of(pool).num_ooms, 0u);
    expect_ok(memlake_pool_free(pool, inside));
    expect_ok(memlake_pool_free(pool, outside));
    expect_ok(memlake_pool_empty_graph(pool, 0, 7));
    EXPECT(graph_of(pool, 0, 7).held >= 30 * kMiB);  // a graph uses it
    expect_ok(memlake_pool_release_graph(pool, 0, 7, 0));
    EXPECT(graph_of(pool, 0, 7).held >= 30 * kMiB);
    expect_ok(memlake_pool_empty_graph(pool, 0, 7));
    EXPECT_EQ(graph_of(pool, 0, 7).held, 0u);
    EXPECT(memlake_pool_try_allocate_in_graph(pool, 0, 7, kMiB, stream) == nullptr);
    EXPECT_EQ(memlake_last_error_code(), int{MEMLAKE_ERROR_INVALID_ARGUMENT});
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(emptying_one_graph_pool_leaves_the_others) {
  memlake_pool* const pool = make_pool("lake");
  for (const std::uint64_t number : {7U, 8U}) {
    expect_ok(memlake_pool_use_graph(pool, 0, number));
    expect_ok(memlake_pool_free(pool, memlake_pool_try_allocate_in_graph(pool, 0, number, 10 * kMiB, nullptr)));
    expect_ok(memlake_pool_release_graph(pool, 0, number, 0));
  }
  expect_ok(memlake_pool_empty_graph(pool, 0, 8));
  EXPECT_EQ(graph_of(pool, 0, 7).held, 10 * kMiB);
  EXPECT_EQ(graph_of(pool, 0, 8).held, 0u);
  expect_ok(memlake_pool_destroy(pool));
}

/// Allocates larger and larger blocks in the graph pool (0, 7), each in the place of two smaller ones; returns how many
/// times that worked.
int grow_and_replace(memlake_pool* pool, void* stream) {
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(memlake_pool_try_allocate_in_graph(pool, 0, 7, 10 * kMiB, stream));
  int replaced = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    // Every second one, so that no two free ones lie side by side.
    expect_ok(memlake_pool_free(pool, blocks[i]));
    expect_ok(memlake_pool_free(pool, blocks[i + 4]));
    blocks[i] = memlake_pool_try_allocate_in_graph(pool, 0, 7, 20 * kMiB, stream);
    blocks[i + 4] = nullptr;
    replaced += blocks[i] != nullptr ? 1 : 0;
  }
  for (void* block : blocks) expect_ok(memlake_pool_free(pool, block));
  return replaced;
}

PROCESS_TEST(free_pages_of_a_graph_pool_serve_larger_requests_until_a_graph_has_captured_it) {
  for (const char* policy : {"lake", "stitch"}) {
    memlake_pool* const pool = make_pool(policy, ",limit:80MiB");
    const cuda::CUstream stream = make_stream();
    EXPECT_EQ(memlake_pool_set_captured(pool, 0, 7, 0), int{MEMLAKE_ERROR_INVALID_ARGUMENT});
    expect_ok(memlake_pool_use_graph(pool, 0, 7));
    expect_ok(memlake_pool_set_captured(pool, 0, 7, 0));
    EXPECT_EQ(grow_and_replace(pool, stream), 4);
    EXPECT_EQ(graph_of(pool, 0, 7).held, 80 * kMiB);
    // Requests elsewhere do not get it.
    EXPECT(memlake_pool_try_allocate(pool, 60 * kMiB, stream) == nullptr);
    expect_ok(memlake_pool_release_graph(pool, 0, 7, 1));

    expect_ok(memlake_pool_use_graph(pool, 0, 7));
    expect_ok(memlake_pool_set_captured(pool, 0, 7, 0));
    begin_capture(stream);
    expect_ok(memlake_pool_free(pool, memlake_pool_try_allocate_in_graph(pool, 0, 7, kMiB, stream)));
    end_capture(stream);
    EXPECT(grow_and_replace(pool, stream) < 4);
    expect_ok(memlake_pool_release_graph(pool, 0, 7, 1));
    expect_ok(memlake_pool_destroy(pool));
  }
}

PROCESS_TEST(emptying_the_cache_takes_free_memory_of_a_graph_pool_that_no_graph_has_captured) {
  memlake_pool* const pool = make_pool("lake");
  expect_ok(memlake_torch_set_pool(0, pool));
  for (const int is_captured : {1, 0}) {
    expect_ok(memlake_pool_use_graph(pool, 0, 7));
    expect_ok(memlake_pool_set_captured(pool, 0, 7, is_captured));
    void* const kept = memlake_pool_try_allocate_in_graph(pool, 0, 7, 10 * kMiB, nullptr);
    expect_ok(memlake_pool_free(pool, memlake_pool_try_allocate_in_graph(pool, 0, 7, 50 * kMiB, nullptr)));
    memlake_torch_empty_cache();
    EXPECT_EQ(graph_of(pool, 0, 7).held, (is_captured != 0 ? 60 : 10) * kMiB);
    expect_ok(memlake_pool_trim(pool, 0));
    expect_ok(memlake_pool_free(pool, kept));
    expect_ok(memlake_pool_release_graph(pool, 0, 7, 1));
    EXPECT_EQ(stats_of(pool).graph_held, 0u);
  }
}

PROCESS_TEST(events_name_the_graph_pool_of_the_memory) {
  struct Seen {
    std::vector<std::uint64_t> of_graphs;
    std::vector<std::uint64_t> of_none;
  } seen;
  memlake_pool* const pool = make_pool("lake");
  const auto see = [](const memlake_event_t* event, void* user) {
    auto& all = *static_cast<Seen*>(user);
    EXPECT_EQ(event->graph_first, 0u);
    EXPECT(event->graph_second == 0 || event->graph_second == 7);
    (event->graph_second == 7 ? all.of_graphs : all.of_none).push_back(static_cast<std::uint64_t>(event->kind));
  };
  expect_ok(memlake_pool_observe(pool, see, &seen));
  expect_ok(memlake_pool_use_graph(pool, 0, 7));
  void* const inside = memlake_pool_try_allocate_in_graph(pool, 0, 7, 2 * kMiB, nullptr);
  void* const outside = memlake_pool_allocate(pool, 2 * kMiB, nullptr);
  expect_ok(memlake_pool_free(pool, inside));
  expect_ok(memlake_pool_release_graph(pool, 0, 7, 1));
  const std::vector<std::uint64_t> life{MEMLAKE_EVENT_SEGMENT_MAP, MEMLAKE_EVENT_FREE_COMPLETED,
                                        MEMLAKE_EVENT_SEGMENT_UNMAP};
  EXPECT(seen.of_graphs == life);
  EXPECT(seen.of_none == std::vector<std::uint64_t>{MEMLAKE_EVENT_SEGMENT_MAP});
  expect_ok(memlake_pool_free(pool, outside));
  expect_ok(memlake_pool_destroy(pool));
}

PROCESS_TEST(graph_pools_that_ended_do_not_come_together_in_large_numbers) {
  memlake_pool* const pool = make_pool("lake");
  const cuda::CUstream stream = make_stream();
  std::uint64_t most = 0;
  test::reset_calls();
  for (std::uint64_t number = 1; number <= 300; ++number) {
    expect_ok(memlake_pool_use_graph(pool, 0, number));
    begin_capture(stream);
    void* const block = memlake_pool_try_allocate_in_graph(pool, 0, number, kMiB + 1, stream);
    EXPECT(block != nullptr);
    expect_ok(memlake_pool_free(pool, block));
    end_capture(stream);
    expect_ok(memlake_pool_release_graph(pool, 0, number, 0));
    most = std::max(most, stats_of(pool).graph_held);
  }
  // The host waits once for 64 of them, so that a capture finds memory and addresses.
  EXPECT_EQ(most, 64 * 2 * kMiB);
  EXPECT_EQ(test::driver_calls("cuCtxSynchronize"), 4u);
  expect_ok(memlake_pool_destroy(pool));
}

PROCESS_TEST(live_memory_of_pytorch_is_found_with_its_graph_pool) {
  memlake_pool* const pool = make_pool("lake");
  expect_ok(memlake_torch_set_pool(0, pool));
  expect_ok(memlake_torch_use_graph(0, 4, 7));
  void* const inside = memlake_pool_try_allocate_in_graph(pool, 4, 7, kMiB, nullptr);
  void* const outside = memlake_torch_malloc(kMiB, 0, nullptr);
  std::uint64_t first = 1;
  std::uint64_t second = 1;
  memlake_block_t block{};
  EXPECT_EQ(memlake_torch_find_in_graph(inside, 0, &block, &first, &second), 1);
  EXPECT_EQ(first, 4u);
  EXPECT_EQ(second, 7u);
  EXPECT_EQ(block.requested, kMiB);
  EXPECT_EQ(memlake_torch_find_in_graph(outside, -1, nullptr, &first, &second), 1);
  EXPECT_EQ(first, 0u);
  EXPECT_EQ(second, 0u);
  EXPECT_EQ(memlake_torch_find_in_graph(&block, 0, nullptr, nullptr, nullptr), 0);
  expect_ok(memlake_pool_free(pool, inside));
  memlake_torch_free(outside, 0, 0, nullptr);
  expect_ok(memlake_torch_release_graph(0, 4, 7, 1));
}

PROCESS_TEST(what_makes_no_sense_is_refused) {
  memlake_pool* const pool = make_pool("lake");
  EXPECT_EQ(memlake_pool_begin_graph(pool, 0, 0, nullptr, nullptr), int{MEMLAKE_ERROR_INVALID_ARGUMENT});
  EXPECT_EQ(memlake_pool_begin_graph(nullptr, 1, 0, nullptr, nullptr), int{MEMLAKE_ERROR_INVALID_ARGUMENT});
  EXPECT_EQ(memlake_pool_release_graph(pool, 1, 0, 1), int{MEMLAKE_ERROR_INVALID_FREE});
  EXPECT_EQ(memlake_pool_graph_stats(pool, 1, 0, nullptr), int{MEMLAKE_ERROR_INVALID_ARGUMENT});
  EXPECT_EQ(memlake_pool_visit_graph_blocks(pool, nullptr, nullptr), int{MEMLAKE_ERROR_INVALID_ARGUMENT});
  expect_ok(memlake_pool_begin_graph(pool, 1, 0, nullptr, nullptr));
  EXPECT_EQ(memlake_pool_restore_graph(pool, 1, 0, nullptr, 1, nullptr, nullptr), int{MEMLAKE_ERROR_INVALID_ARGUMENT});
  expect_ok(memlake_pool_empty_graph(pool, 99, 0));
  EXPECT_EQ(memlake_pool_destroy(pool), int{MEMLAKE_ERROR_INVALID_FREE});
  expect_ok(memlake_pool_end_graph(pool, 1, 0));
  expect_ok(memlake_pool_destroy(pool));  // with a graph pool that no one released
  EXPECT_EQ(memlake_pool_use_graph(pool, 1, 0), int{MEMLAKE_ERROR_CLOSED});
}

}  // namespace
}  // namespace memlake
