// Pool and replay beyond PyTorch's figures: event modes, the direct policy, timelines, what is left behind.

#include "emulated.hpp"
#include "policies/direct/direct_rules.hpp"
#include "policies/torch/torch_rules.hpp"
#include "replay/replay_device.hpp"
#include "synthetic_trace.hpp"
#include "test.hpp"

namespace memlake {
namespace {

constexpr std::size_t kRows = 4000;
constexpr Bytes kAmple = GiB * 8;

TEST(a_replay_gives_the_same_twice) {
  const test::SyntheticTrace trace(kRows);
  std::vector<std::uint64_t> held;
  for (int i = 0; i < 2; ++i) {
    ReplayDevice device(test::emulator(), GiB * 4);
    TraceEvents events(EventMode::lag, 100);
    Pool pool(device.device(), std::make_unique<TorchRules>(TorchOptions{}), events, TorchOptions::kUnlimited);
    static_cast<void>(replay(trace.columns(), pool, events, {.goes_on = true}));
    held.push_back(pool.figures().stats().held.peak.count);
  }
  EXPECT_EQ(held[0], held[1]);
}

TEST(live_pending_and_free_bytes_add_up_to_what_is_held) {
  const test::SyntheticTrace trace(kRows);
  ReplayDevice device(test::emulator(), kAmple);
  TraceEvents events(EventMode::lag, 50);
  Pool pool(device.device(), std::make_unique<TorchRules>(TorchOptions{}), events, TorchOptions::kUnlimited);
  static_cast<void>(replay(trace.columns(), pool, events, {}));
  Bytes free{0};
  pool.spaces().policy().for_each([&](const Block& block) {
    if (block.state == BlockState::free) free = free + block.size;
  });
  EXPECT_EQ((pool.figures().stats().active.now + free).count, pool.figures().stats().held.now.count);
  EXPECT_EQ(pool.figures().stats().held.now.count, (kAmple - device.device()->free_memory()).count);
}

TEST(the_direct_policy_holds_what_is_live) {
  const test::SyntheticTrace trace(kRows);
  ReplayDevice device(test::emulator(), kAmple);
  TraceEvents events(EventMode::immediate, 0);
  Pool pool(device.device(), std::make_unique<DirectRules>(), events, TorchOptions::kUnlimited);
  static_cast<void>(replay(trace.columns(), pool, events, {}));
  EXPECT_EQ(pool.figures().stats().held.now.count, pool.figures().stats().active.now.count);
  EXPECT_EQ(device.calls().count(Call::cuMemAlloc), pool.figures().stats().allocations);
}

TEST(memory_used_elsewhere_is_not_reused_before_its_event) {
  // Allocated on stream 0, used on stream 1, freed; then a second request, the event, and a third.
  const std::vector<std::uint8_t> op{0, 2, 1, 0, 3, 0};
  const std::vector<std::uint32_t> id{0, 0, 0, 1, 0, 2};
  const std::vector<std::uint64_t> bytes{MiB.count * 30, 0, 0, MiB.count * 30, 0, MiB.count * 30};
  const std::vector<std::uint16_t> stream{0, 1, 0, 0, 0, 0};
  const auto allocs_after = [&](EventMode mode, std::size_t rows) {
    ReplayDevice device(test::emulator(), kAmple);
    TraceEvents events(mode, 0);
    Pool pool(device.device(), std::make_unique<TorchRules>(TorchOptions{}), events, TorchOptions::kUnlimited);
    const TraceColumns trace{std::span(op).first(rows), std::span(id).first(rows), std::span(bytes).first(rows),
                             std::span(stream).first(rows)};
    static_cast<void>(replay(trace, pool, events, {}));
    return device.calls().count(Call::cuMemAlloc);
  };
  EXPECT_EQ(allocs_after(EventMode::immediate, 4), 1U);
  EXPECT_EQ(allocs_after(EventMode::recorded, 4), 2U);
  EXPECT_EQ(allocs_after(EventMode::recorded, 6), 2U);  // the event came: the first block is free
}

TEST(a_request_that_must_wait_counts_one_host_wait) {
  const std::vector<std::uint8_t> op{0, 2, 1, 0};
  const std::vector<std::uint32_t> id{0, 0, 0, 1};
  const std::vector<std::uint64_t> bytes{MiB.count * 30, 0, 0, MiB.count * 30};
  const std::vector<std::uint16_t> stream{0, 1, 0, 0};
  ReplayDevice device(test::emulator(), MiB * 40);
  TraceEvents events(EventMode::recorded, 0);
  Pool pool(device.device(), std::make_unique<TorchRules>(TorchOptions{}), events, TorchOptions::kUnlimited);
  const ReplayOutcome outcome = replay({op, id, bytes, stream}, pool, events, {});
  EXPECT(!outcome.first_failure);
  EXPECT_EQ(events.host_waits, 1U);
  EXPECT_EQ(pool.figures().stats().retries, 1U);
}

TEST(memory_freed_on_another_stream_waits_for_that_stream) {
  // Allocated on stream 0, freed on stream 300; then a second request.
  const std::vector<std::uint8_t> op{0, 7, 0};
  const std::vector<std::uint32_t> id{0, 0, 1};
  const std::vector<std::uint64_t> bytes{MiB.count * 30, 0, MiB.count * 30};
  const auto allocs_with = [&](EventMode mode, std::uint16_t freed_on) {
    const std::vector<std::uint16_t> stream{0, freed_on, 0};
    ReplayDevice device(test::emulator(), kAmple);
    TraceEvents events(mode, 0);
    Pool pool(device.device(), std::make_unique<TorchRules>(TorchOptions{}), events, TorchOptions::kUnlimited);
    static_cast<void>(replay({op, id, bytes, stream}, pool, events, {}));
    return device.calls().count(Call::cuMemAlloc);
  };
  EXPECT_EQ(allocs_with(EventMode::immediate, 300), 1U);
  EXPECT_EQ(allocs_with(EventMode::recorded, 300), 2U);
  EXPECT_EQ(allocs_with(EventMode::recorded, 0), 1U);  // its own stream: nothing to wait for
}

/// An allocation on stream 0, or with 0 bytes a free on `stream`.
struct Deed {
  std::uint32_t id;
  Bytes size = {0};
  std::uint16_t stream = 0;
};

/// Why the last of them fails on a device of 100 MiB.
Shortage failure_of(const std::vector<Deed>& deeds, Bytes limit = TorchOptions::kUnlimited) {
  std::vector<std::uint8_t> op;
  std::vector<std::uint32_t> id;
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint16_t> stream;
  for (const Deed& deed : deeds) {
    op.push_back(deed.size.count > 0 ? TraceColumns::allocate : TraceColumns::free_on);
    id.push_back(deed.id);
    bytes.push_back(deed.size.count);
    stream.push_back(deed.stream);
  }
  ReplayDevice device(test::emulator(), MiB * 100);
  TraceEvents events(EventMode::recorded, 0);
  Pool pool(device.device(), std::make_unique<TorchRules>(TorchOptions{}), events, limit);
  const ReplayOutcome outcome = replay({op, id, bytes, stream}, pool, events, {});
  EXPECT(outcome.first_failure && outcome.first_failure->row + 1 == deeds.size());
  return outcome.first_failure.value_or(RefusedRow{}).shortage;
}

TEST(a_failure_says_why) {
  EXPECT(reason_of(failure_of({{0, MiB * 60}, {1, MiB * 60}})) == Reason::physical);
  EXPECT(reason_of(failure_of({{0, MiB * 30}, {1, MiB * 30}}, MiB * 40)) == Reason::limit);
  EXPECT(reason_of(failure_of({{0, MiB * 30}, {1, MiB * 90}}, MiB * 40)) == Reason::physical);
  // One segment of 90 MiB, free at both ends; a live block keeps the middle.
  const Shortage scattered = failure_of({{0, MiB * 90}, {0}, {1, MiB * 40}, {2, MiB * 10}, {1}, {3, MiB * 60}});
  EXPECT(reason_of(scattered) == Reason::contiguous);
  EXPECT_EQ(scattered.free.count, (MiB * 80).count);
  EXPECT_EQ(scattered.largest_usable.count, (MiB * 40).count);
  // Its first 40 MiB are awaited by stream 1 when they are asked for; what the wait frees is not searched.
  EXPECT(reason_of(failure_of(
             {{0, MiB * 90}, {0}, {1, MiB * 40}, {2, MiB * 10}, {3, MiB * 40}, {1, {0}, 1}, {4, MiB * 40}})) ==
         Reason::pending);
}

TEST(a_failure_says_what_the_pool_looked_like) {
  const std::vector<std::uint8_t> op{0, 0};
  const std::vector<std::uint32_t> id{0, 1};
  const std::vector<std::uint64_t> bytes{MiB.count * 30, MiB.count * 30};
  const std::vector<std::uint16_t> stream{0, 0};
  ReplayDevice device(test::emulator(), MiB * 40);
  TraceEvents events(EventMode::immediate, 0);
  Pool pool(device.device(), std::make_unique<TorchRules>(TorchOptions{}), events, TorchOptions::kUnlimited);
  const ReplayOutcome outcome = replay({op, id, bytes, stream}, pool, events, {.rows_per_sample = 1});
  EXPECT(outcome.first_failure && outcome.first_failure->row == 1);
  EXPECT_EQ(outcome.first_failure->shortage.held.count, (MiB * 30).count);
  EXPECT_EQ(outcome.rows, 1U);
  EXPECT_EQ(outcome.timeline.back().held.count, (MiB * 30).count);
}

TEST(a_timeline_has_the_maxima_of_its_rows_and_may_begin_late) {
  const std::vector<std::uint8_t> op{0, 0, 1, 0, 1};
  const std::vector<std::uint32_t> id{0, 1, 1, 2, 2};
  const std::vector<std::uint64_t> bytes{MiB.count * 20, MiB.count * 30, 0, MiB.count * 10, 0};
  const std::vector<std::uint16_t> stream{0, 0, 0, 0, 0};
  ReplayDevice device(test::emulator(), MiB * 100);
  TraceEvents events(EventMode::immediate, 0);
  Pool pool(device.device(), std::make_unique<TorchRules>(TorchOptions{}), events, TorchOptions::kUnlimited);
  // The second allocation is freed within the only sample, before its end.
  const ReplayOutcome outcome =
      replay({op, id, bytes, stream}, pool, events, {.rows_per_sample = 4, .first_sample = 1});
  EXPECT_EQ(outcome.timeline.size(), 2U);
  EXPECT_EQ(outcome.timeline[0].row, 1U);
  EXPECT_EQ(outcome.timeline[0].allocated.count, (MiB * 50).count);
  EXPECT_EQ(outcome.timeline[0].held.count, (MiB * 50).count);
  EXPECT_EQ(outcome.timeline[1].row, 5U);
  EXPECT_EQ(outcome.timeline[1].allocated.count, (MiB * 20).count);
}

TEST(a_pool_that_ends_leaves_nothing_on_the_device) {
  const test::Holdings before;
  {
    const test::SyntheticTrace trace(kRows);
    ReplayDevice device(test::emulator(), kAmple);
    TraceEvents events(EventMode::immediate, 0);
    {
      TorchOptions options;
      options.is_expandable = true;
      Pool pool(device.device(), std::make_unique<TorchRules>(options), events, TorchOptions::kUnlimited);
      static_cast<void>(replay(trace.columns(), pool, events, {}));
    }
    EXPECT_EQ(device.device()->free_memory().count, kAmple.count);
  }
  EXPECT_EQ(test::Holdings{}, before);
}

TEST(moments_have_the_blocks_of_the_pool_after_their_rows) {
  // 40 MiB, 20 MiB; the first is freed; then a request that the device cannot serve.
  const std::vector<std::uint8_t> op{0, 0, 1, 0, 4};
  const std::vector<std::uint32_t> id{0, 1, 0, 2, 1};
  const std::vector<std::uint64_t> bytes{MiB.count * 40, MiB.count * 20, 0, GiB.count, 0};
  const std::vector<std::uint16_t> stream{0, 3, 0, 0, 0};
  const std::vector<std::uint64_t> rows{1, 2, 3, 4};
  ReplayDevice device(test::emulator(), MiB * 100);
  TraceEvents events(EventMode::immediate, 0);
  Pool pool(device.device(), std::make_unique<TorchRules>(TorchOptions{}), events, TorchOptions::kUnlimited);
  const Moments moments = replay({op, id, bytes, stream}, pool, events, {.moments = rows}).moments;
  // The row that found no memory is the last one.
  EXPECT_EQ(moments.rows.size(), 3u);
  EXPECT_EQ(moments.starts[1], 2u);
  const MomentBlock& first = moments.blocks[0];
  const MomentBlock& second = moments.blocks[1];
  EXPECT_EQ(first.size + second.size, MiB.count * 60);
  EXPECT(first.address < second.address);
  for (const MomentBlock* block : {&first, &second}) {
    EXPECT_EQ(block->state, static_cast<std::uint64_t>(BlockState::live));
    EXPECT_EQ(block->stream, block->id == 0 ? 0u : 3u);
    EXPECT_EQ(block->requested, block->id == 0 ? MiB.count * 40 : MiB.count * 20);
    EXPECT_EQ(block->segment, block->address);
  }
  std::uint64_t free = 0;
  for (std::size_t i = moments.starts[1]; i < moments.starts[2]; ++i)
    if (moments.blocks[i].state == static_cast<std::uint64_t>(BlockState::free)) free += moments.blocks[i].size;
  EXPECT_EQ(free, MiB.count * 40);
}

}  // namespace
}  // namespace memlake
