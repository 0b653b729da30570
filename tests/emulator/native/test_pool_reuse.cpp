// Which stream gets which memory of a pool, by which rule, and how often that was counted.

#include <string>

#include "abi.hpp"

namespace memlake::test {

namespace {

constexpr std::uint64_t kMost = UINT64_MAX;

/// A pool that keeps what it has, and two streams that know nothing of each other.
struct Two {
  explicit Two(const std::string& config = "memory=256MiB,streams=manual") : world(config) {
    set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, kMost);
  }

  void switches(int events, int opportunistic, int internal) const {
    set_attribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, static_cast<std::uint64_t>(events));
    set_attribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, static_cast<std::uint64_t>(opportunistic));
    set_attribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, static_cast<std::uint64_t>(internal));
  }

  World world;
  CUmemoryPool pool = new_pool(pool_props(world.first));
  CUstream one = new_stream();
  CUstream other = new_stream();
  std::uint64_t size = 24 * kMiB;
};

/// Does the ledger count so many allocations by this rule, in one of its pools?
bool has_counted(const std::string& rule, int count) {
  return ledger().find("\"" + rule + "\":" + std::to_string(count)) != std::string::npos;
}

}  // namespace

PROCESS_TEST(a_stream_gets_back_at_once_what_it_freed) {
  const Two two;
  hold(two.one);
  const std::uint64_t first = allocate(two.pool, two.size, two.one);
  must(cuMemFreeAsync(first, two.one));
  EXPECT_EQ(allocate(two.pool, two.size, two.one), first);
  EXPECT(has_counted("fresh", 1));
  EXPECT(has_counted("same_stream", 1));
}

PROCESS_TEST(another_stream_gets_it_behind_an_event_if_the_switch_is_on) {
  const Two two;
  two.switches(1, 0, 0);
  const std::uint64_t gate = hold(two.one);
  const std::uint64_t first = allocate(two.pool, two.size, two.one);
  must(cuMemFreeAsync(first, two.one));
  EXPECT(allocate(two.pool, two.size, two.other) != first);
  const CUevent event = new_event();
  must(cuEventRecord(event, two.one));
  must(cuStreamWaitEvent(two.other, event, 0));
  two.switches(0, 0, 0);
  EXPECT(allocate(two.pool, two.size, two.other) != first);
  two.switches(1, 0, 0);
  EXPECT_EQ(allocate(two.pool, two.size, two.other), first);
  EXPECT(has_counted("event_dependency", 1));
  must(memlakeEmulatorOpen(gate));
}

PROCESS_TEST(an_event_from_before_the_free_orders_nothing) {
  const Two two;
  two.switches(1, 0, 0);
  hold(two.one);
  const std::uint64_t first = allocate(two.pool, two.size, two.one);
  const CUevent event = new_event();
  must(cuEventRecord(event, two.one));
  must(cuStreamWaitEvent(two.other, event, 0));
  must(cuMemFreeAsync(first, two.one));
  EXPECT(allocate(two.pool, two.size, two.other) != first);
}

PROCESS_TEST(orders_are_followed_over_a_third_stream_and_when_the_event_is_done) {
  const Two two;
  two.switches(1, 0, 0);
  const std::uint64_t first = allocate(two.pool, two.size, two.one);
  must(cuMemFreeAsync(first, two.one));  // the stream is idle: the free has happened, and no host has waited for it
  const CUstream between = new_stream();
  const CUevent event = new_event();
  must(cuEventRecord(event, two.one));
  must(cuStreamWaitEvent(between, event, 0));
  must(cuEventRecord(event, between));
  must(cuStreamWaitEvent(two.other, event, 0));
  EXPECT_EQ(allocate(two.pool, two.size, two.other), first);
}

PROCESS_TEST(the_legacy_stream_orders_blocking_streams_and_no_others) {
  const Two two;
  two.switches(1, 0, 0);
  const CUstream blocking = new_stream(CU_STREAM_DEFAULT);
  const CUstream legacy{};
  const std::uint64_t first = allocate(two.pool, two.size, blocking);
  must(cuMemFreeAsync(first, blocking));
  EXPECT(allocate(two.pool, two.size, two.other) != first);  // NON_BLOCKING
  EXPECT_EQ(allocate(two.pool, two.size, legacy), first);
  must(cuMemFreeAsync(first, legacy));
  EXPECT_EQ(allocate(two.pool, two.size, new_stream(CU_STREAM_DEFAULT)), first);
  EXPECT(has_counted("event_dependency", 2));
}

PROCESS_TEST(a_free_that_happened_is_taken_by_opportunity_if_the_switch_is_on) {
  const Two two;
  two.switches(0, 1, 0);
  const std::uint64_t gate = hold(two.one);
  const std::uint64_t first = allocate(two.pool, two.size, two.one);
  must(cuMemFreeAsync(first, two.one));
  EXPECT(allocate(two.pool, two.size, two.other) != first);
  must(memlakeEmulatorOpen(gate));
  std::size_t ran = 0;
  must(memlakeEmulatorStep(two.one, 8, &ran));
  two.switches(0, 0, 0);
  EXPECT(allocate(two.pool, two.size, two.other) != first);
  two.switches(0, 1, 0);
  EXPECT_EQ(allocate(two.pool, two.size, two.other), first);
  EXPECT(has_counted("opportunistic", 1));
}

PROCESS_TEST(a_stream_is_made_to_wait_only_when_there_is_nothing_else) {
  const Two two("memory=64MiB,streams=manual");
  const std::uint64_t gate = hold(two.one);
  const std::uint64_t first = allocate(two.pool, two.size, two.one);
  must(cuMemFreeAsync(first, two.one));
  const std::uint64_t second = allocate(two.pool, two.size, two.other);  // there is room: no wait
  EXPECT(second != first);
  EXPECT_EQ(pending(two.other), std::size_t{0});
  two.switches(0, 0, 0);
  CUdeviceptr refused = 77;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&refused, two.size, two.pool, two.other), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(refused, std::uint64_t{77});
  two.switches(0, 0, 1);
  EXPECT_EQ(allocate(two.pool, two.size, two.other), first);
  EXPECT_EQ(pending(two.other), std::size_t{1});
  EXPECT(has_counted("internal_dependency", 1));
  must(memlakeEmulatorOpen(gate));
  must(cuStreamSynchronize(two.other));
  EXPECT_EQ(pending(two.one), std::size_t{0});
}

PROCESS_TEST(what_the_host_has_waited_for_is_free_for_all) {
  const Two two;
  two.switches(0, 0, 0);
  const std::uint64_t first = allocate(two.pool, two.size, two.one);
  must(cuMemFreeAsync(first, two.one));
  EXPECT_EQ(cuStreamQuery(two.one), CUDA_SUCCESS);  // a question is not a wait
  const std::uint64_t second = allocate(two.pool, two.size, two.other);
  EXPECT(second != first);
  const CUevent event = new_event();
  must(cuEventRecord(event, two.one));
  must(cuEventSynchronize(event));
  EXPECT_EQ(allocate(two.pool, two.size, two.other), first);
  EXPECT(has_counted("synchronized", 1));
}

PROCESS_TEST(a_wait_for_the_context_covers_streams_that_are_gone) {
  const Two two;
  two.switches(0, 0, 0);
  const std::uint64_t first = allocate(two.pool, two.size, two.one);
  must(cuMemFreeAsync(first, two.one));
  must(cuStreamDestroy_v2(two.one));
  must(cuCtxSynchronize());
  EXPECT_EQ(allocate(two.pool, two.size, two.other), first);
}

PROCESS_TEST(neighbours_that_different_streams_freed_are_joined_when_both_may_be_taken) {
  const Two two("memory=64MiB,streams=manual,pool_segment=64MiB,profile=nvidia");
  const std::uint64_t left = allocate(two.pool, 32 * kMiB, two.one);
  const std::uint64_t right = allocate(two.pool, 32 * kMiB, two.other);
  EXPECT_EQ(right, left + 32 * kMiB);
  must(cuMemFreeAsync(left, two.one));
  must(cuMemFreeAsync(right, two.other));
  EXPECT_EQ(allocate(two.pool, 64 * kMiB, two.one), left);
  EXPECT_EQ(attribute(two.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64 * kMiB);
}

}  // namespace memlake::test
