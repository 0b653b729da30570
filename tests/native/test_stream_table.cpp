// The numbers of streams: who gets a number, and who takes it over.

#include <thread>

#include "emulated.hpp"
#include "lakes.hpp"
#include "random_program.hpp"
#include "recycling_driver.hpp"

namespace memlake {
namespace {

using test::expect_sound;
using test::make_lake;
using test::OwnStream;
using test::take;

const StreamTable::IsComplete kComplete = [](StreamId) { return true; };
const StreamTable::IsComplete kRunning = [](StreamId) { return false; };

StreamName foreign(std::uintptr_t handle, std::uint64_t identity) {
  return {.handle = reinterpret_cast<CUstream>(handle), .identity = identity};
}

TEST(a_handle_that_cuda_gave_to_another_stream_is_recognised_by_its_identity) {
  StreamTable table;
  const StreamId first = table.number_of(foreign(4096, 7));
  EXPECT_EQ(table.number_of(foreign(4096, 7)), first);
  EXPECT(!table.known_number_of(foreign(4096, 8)).has_value());
  const KnownStream known = table.known(first);
  EXPECT(table.is_current(known));
  const StreamId second = table.number_of(foreign(4096, 8), kRunning);
  EXPECT(second != first);
  EXPECT(!table.is_current(known));
  EXPECT(!table.is_alive(first));
  EXPECT_EQ(table.number_of(foreign(4096, 8)), second);
}

TEST(a_new_stream_takes_over_the_number_of_an_ended_one_when_its_work_is_complete) {
  StreamTable table;
  const test::EmulatedDevices devices;
  StreamId first = 0;
  KnownStream known;
  {
    const OwnStream stream(devices[0]);
    first = table.number_of(stream.name());
    known = table.known(first);
  }
  const OwnStream second(devices[0]);
  const OwnStream third(devices[0]);
  EXPECT(table.number_of(second.name(), kRunning) != first);
  EXPECT_EQ(table.number_of(third.name(), kComplete), first);
  EXPECT(!table.is_current(known));
  EXPECT(table.is_current(table.known(first)));
  EXPECT_EQ(table.size(), 3u);
}

TEST(a_stream_on_another_device_or_in_another_context_takes_over_no_number) {
  StreamTable table;
  const StreamId first = table.number_of(foreign(4096, 7));
  table.note_end(first);
  StreamName other = foreign(8192, 9);
  other.device = 1;
  EXPECT(table.number_of(other, kComplete) != first);
  other = foreign(12288, 10);
  other.context = 1;
  EXPECT(table.number_of(other, kComplete) != first);
  EXPECT_EQ(table.number_of(foreign(16384, 11), kComplete), first);
}

TEST(the_number_of_a_threads_own_stream_is_free_when_the_thread_is_over) {
  StreamTable table;
  StreamId first = 0;
  std::thread([&] { first = table.number_of({.handle = kPerThreadStream, .thread = this_thread_number()}); }).join();
  EXPECT(first != 0);
  EXPECT_EQ(table.number_of({.handle = kPerThreadStream, .thread = this_thread_number()}, kComplete), first);
  EXPECT_EQ(table.size(), 2u);
}

TEST(thousands_of_streams_leave_as_many_numbers_as_existed_at_once) {
  StreamTable table;
  const test::EmulatedDevices devices;
  for (int i = 0; i < 1000; ++i) {
    const OwnStream one(devices[0]);
    const OwnStream two(devices[0]);
    static_cast<void>(table.number_of(one.name(), kComplete));
    static_cast<void>(table.number_of(two.name(), kComplete));
  }
  EXPECT(table.size() <= 5);
}

TEST(a_pool_orders_memory_by_streams_and_not_by_their_handles) {
  const test::EmulatedDevices devices("devices=1,memory=64MiB,backing=none,streams=manual");
  test::RecyclingDriver driver(test::emulator().driver());
  const auto device = std::make_shared<Device>(devices[0], driver);
  const auto pool = make_lake({device});
  CUstream first = nullptr;
  CUstream second = nullptr;
  {
    const CurrentContext current(*device);
    EXPECT_EQ(driver.cuStreamCreate(&first, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  Lease lease = take(*pool, MiB * 8, {.handle = first});
  const Address place = lease.address();
  fill(*device, place, 1, MiB * 8, first);
  lease.close();
  EXPECT_EQ(driver.cuStreamDestroy(first), CUDA_SUCCESS);
  {
    const CurrentContext current(*device);
    EXPECT_EQ(driver.cuStreamCreate(&second, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  EXPECT(first == second);  // the driver gave the handle out again, with work of the first stream still queued
  {
    const Lease other = take(*pool, MiB * 8, {.handle = second});
    EXPECT(other.address() != place);
  }
  device->synchronize();
  EXPECT_EQ(driver.cuStreamDestroy(second), CUDA_SUCCESS);
  expect_sound(*pool);
}

}  // namespace
}  // namespace memlake
