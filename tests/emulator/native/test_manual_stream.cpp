// Streams that a test moves on step by step (streams=manual).

#include <string>

#include "abi.hpp"

namespace memlake::test {

namespace {

const std::string kManual = "memory=256MiB,streams=manual";

/// Queues a host function that appends a letter.
void write_letter(CUstream stream, std::string& text, char letter) {
  struct Letter {
    std::string& text;
    char letter;
  };
  must(cuLaunchHostFunc(
      stream,
      [](void* data) {
        const auto* given = static_cast<Letter*>(data);
        given->text += given->letter;
        delete given;
      },
      new Letter{text, letter}));
}

std::size_t step(CUstream stream, std::size_t count) {
  std::size_t ran = 0;
  must(memlakeEmulatorStep(stream, count, &ran));
  return ran;
}

}  // namespace

PROCESS_TEST(manual_work_runs_in_order_and_only_when_it_is_stepped) {
  const World world(kManual);
  const CUstream stream = new_stream();
  std::string text;
  for (const char letter : {'a', 'b', 'c'}) write_letter(stream, text, letter);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(pending(stream), 3U);
  EXPECT_EQ(text, "");
  EXPECT_EQ(step(stream, 1), 1U);
  EXPECT_EQ(text, "a");
  EXPECT_EQ(step(stream, 10), 2U);
  EXPECT_EQ(text, "abc");
  EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
}

PROCESS_TEST(a_wait_runs_the_manual_work_it_needs_and_no_other) {
  const World world(kManual);
  const CUstream first = new_stream();
  const CUstream second = new_stream();
  const CUstream other = new_stream();
  const CUevent event = new_event();
  std::string text;
  write_letter(first, text, 'a');
  must(cuEventRecord(event, first));
  write_letter(first, text, 'x');
  write_letter(other, text, 'y');
  must(cuStreamWaitEvent(second, event, 0));
  write_letter(second, text, 'b');
  EXPECT_EQ(step(second, 5), 0U);  // it stands behind the event
  must(cuStreamSynchronize(second));
  EXPECT_EQ(text, "ab");
  EXPECT_EQ(pending(first), 1U);
  EXPECT_EQ(pending(other), 1U);
}

PROCESS_TEST(a_gate_stops_steps_until_it_is_opened) {
  const World world(kManual);
  const CUstream stream = new_stream();
  std::string text;
  write_letter(stream, text, 'a');
  const std::uint64_t gate = hold(stream);
  write_letter(stream, text, 'b');
  EXPECT_EQ(step(stream, 10), 1U);
  EXPECT_EQ(text, "a");
  must(memlakeEmulatorOpen(gate));
  EXPECT_EQ(memlakeEmulatorOpen(gate), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(step(stream, 10), 2U);
  EXPECT_EQ(text, "ab");
}

PROCESS_TEST(a_wait_behind_a_closed_gate_is_a_violation_that_changes_nothing) {
  const World world(kManual);
  const std::uint64_t memory = new_mapping(world.first);
  const CUstream stream = new_stream();
  const CUstream behind = new_stream();
  const CUevent event = new_event();
  std::string text;
  write_letter(stream, text, 'a');
  const std::uint64_t gate = hold(stream);
  must(cuEventRecord(event, stream));
  must(cuStreamWaitEvent(behind, event, 0));
  char bytes[16] = "untouched";
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT(violation_says("never end"));
  EXPECT(violation_says("gate 1"));
  EXPECT_EQ(cuStreamSynchronize(behind), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(cuEventSynchronize(event), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(bytes, memory, sizeof bytes, stream), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(text, "");
  EXPECT_EQ(pending(stream), 2U);  // the refused copy would write to memory that the program may free
  EXPECT_EQ(pending(behind), 1U);
  must(memlakeEmulatorOpen(gate));
  must(cuStreamSynchronize(behind));
  EXPECT_EQ(text, "a");
  EXPECT_EQ(std::string(bytes), "untouched");
}

PROCESS_TEST(freeing_memory_behind_a_closed_gate_is_a_violation_and_keeps_it) {
  const World world(kManual);
  CUdeviceptr memory = 0;
  void* pinned = nullptr;
  must(cuMemAlloc_v2(&memory, kMiB));
  must(cuMemHostAlloc(&pinned, 4096, 0));
  const CUstream stream = new_stream();
  const std::uint64_t gate = hold(stream);
  must(cuMemcpyHtoDAsync_v2(memory, pinned, 4096, stream));
  EXPECT_EQ(cuMemFree_v2(memory), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(cuMemFreeHost(pinned), CUDA_ERROR_LAUNCH_FAILED);
  must(memlakeEmulatorOpen(gate));
  must(cuMemFreeHost(pinned));  // waits, and runs the copy
  EXPECT_EQ(pending(stream), 0U);
  must(cuMemFree_v2(memory));
}

PROCESS_TEST(a_destroyed_manual_stream_finishes_when_it_is_waited_for_and_is_gone_then) {
  const World world(kManual);
  const CUstream stream = new_stream();
  const CUevent event = new_event();
  std::string text;
  write_letter(stream, text, 'a');
  must(cuEventRecord(event, stream));
  must(cuStreamDestroy_v2(stream));
  EXPECT_EQ(text, "");
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT(violation_says("after cuStreamDestroy"));
  must(cuEventSynchronize(event));
  EXPECT_EQ(text, "a");
  EXPECT(ledger().find("cuStreamCreate\",\"thread") == std::string::npos);
}

PROCESS_TEST(the_legacy_stream_and_blocking_streams_wait_for_each_other_and_non_blocking_ones_do_not) {
  const World world(kManual);
  const CUstream blocking = new_stream(CU_STREAM_DEFAULT);
  const CUstream free_one = new_stream();
  const auto per_thread = reinterpret_cast<CUstream>(CU_STREAM_PER_THREAD);
  std::string text;
  write_letter(blocking, text, 'a');
  write_letter(nullptr, text, 'b');
  write_letter(per_thread, text, 'c');
  write_letter(blocking, text, 'd');
  write_letter(free_one, text, 'x');
  EXPECT_EQ(step(nullptr, 1), 0U);
  EXPECT_EQ(step(per_thread, 1), 0U);
  EXPECT_EQ(step(blocking, 5), 1U);
  EXPECT_EQ(step(blocking, 5), 0U);
  EXPECT_EQ(step(per_thread, 1), 0U);
  EXPECT_EQ(step(nullptr, 5), 1U);
  EXPECT_EQ(step(per_thread, 5), 1U);
  EXPECT_EQ(step(blocking, 5), 1U);
  EXPECT_EQ(text, "abcd");
  EXPECT_EQ(step(free_one, 1), 1U);
}

PROCESS_TEST(closing_a_device_runs_manual_work_and_drops_what_a_gate_holds) {
  World world(kManual);
  std::string text;
  const CUstream stream = new_stream();
  write_letter(stream, text, 'a');
  hold(stream);
  write_letter(new_stream(), text, 'b');
  must(cuLaunchHostFunc(stream, [](void*) { std::abort(); }, nullptr));
  must(memlakeEmulatorCloseDevices(world.first, 1));
  EXPECT_EQ(text.size(), 2U);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

PROCESS_TEST(only_manual_streams_are_stepped) {
  const World world;
  std::size_t ran = 77;
  EXPECT_EQ(memlakeEmulatorStep(new_stream(), 1, &ran), CUDA_ERROR_INVALID_VALUE);
  EXPECT(error_says("streams=manual"));
  EXPECT_EQ(ran, 77U);
}

}  // namespace memlake::test
