#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "driver/device.hpp"
#include "driver/event.hpp"
#include "driver/stream.hpp"
#include "driver/transfer.hpp"
#include "emulated.hpp"
#include "test.hpp"
#include "vmm/stitched_range.hpp"

namespace memlake {
namespace {

CountingDriver& counting() { return test::emulator().counting(); }

bool primary_context_is_active(int ordinal) {
  unsigned flags = 0;
  int active = 0;
  EXPECT_EQ(counting().cuDevicePrimaryCtxGetState(ordinal, &flags, &active), CUDA_SUCCESS);
  return active != 0;
}

CUcontext current_context() {
  CUcontext context = nullptr;
  EXPECT_EQ(counting().cuCtxGetCurrent(&context), CUDA_SUCCESS);
  return context;
}

TEST(one_device_per_ordinal) {
  const test::EmulatedDevices devices("devices=2,memory=64MiB,backing=none");
  EXPECT(devices[0] == devices[0]);
  EXPECT(devices[0] != devices[1]);
  EXPECT_ERROR(invalid_call, test::emulator().device(-1));
  EXPECT_ERROR(invalid_call, test::emulator().device(1 << 20));
}

TEST(a_device_describes_itself) {
  const test::EmulatedDevices devices("devices=2,memory=64MiB,granularity=64KiB,recommended=2MiB,backing=none");
  const auto device = devices[0];
  EXPECT(!device->name().empty());
  EXPECT(device->uuid() != devices[1]->uuid());
  EXPECT(device->total_memory() == MiB * 64);
  EXPECT(device->free_memory() == MiB * 64);
  EXPECT(device->granularity(CU_MEM_ALLOC_GRANULARITY_MINIMUM) == KiB * 64);
  EXPECT(device->granularity(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) == MiB * 2);
  EXPECT_EQ(device->attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
  EXPECT_ERROR(invalid_call, device->attribute(9999));
  EXPECT(device->can_access(*devices[1]));
  EXPECT(!device->can_access(*device));
  EXPECT(!device->is_host_backed());
}

TEST(the_context_is_retained_on_first_need_and_given_back) {
  const test::EmulatedDevices devices;
  auto device = devices[0];
  device->total_memory();
  EXPECT(!primary_context_is_active(device->ordinal()));
  device->free_memory();
  device->free_memory();
  EXPECT(primary_context_is_active(device->ordinal()));
  auto chunk = PhysicalChunk::create(device, MiB * 2, false);
  device.reset();
  EXPECT(primary_context_is_active(devices.ordinals().first));  // the chunk shares the device
  {
    const PhysicalChunk last = std::move(chunk);
  }
  // NOLINTNEXTLINE: the moved-from chunk still shares nothing
  EXPECT(!primary_context_is_active(devices.ordinals().first));
}

TEST(a_context_is_current_for_a_scope) {
  const test::EmulatedDevices devices("devices=2,memory=64MiB,backing=none");
  const auto first = devices[0];
  const auto second = devices[1];
  const CUcontext before = current_context();
  {
    const CurrentContext outer(*first);
    EXPECT(current_context() == first->context());
    {
      const CurrentContext inner(*second);
      EXPECT(current_context() == second->context());
    }
    EXPECT(current_context() == first->context());
    EXPECT_ERROR(invalid_call, stream_synchronize(*second, reinterpret_cast<CUstream>(12345)));
    EXPECT(current_context() == first->context());
  }
  EXPECT(current_context() == before);
}

TEST(a_failed_retain_is_tried_again) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  test::emulator().failing().fail(Call::cuDevicePrimaryCtxRetain, 1, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_ERROR(out_of_memory, device->free_memory());
  EXPECT(device->free_memory() == MiB * 64);
}

TEST(many_threads_retain_one_context_once) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  counting().reset();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { device->free_memory(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counting().count(Call::cuDevicePrimaryCtxRetain), 1u);
}

TEST(streams_and_events_are_owned) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  const test::Holdings before;
  {
    StreamOwner stream(device, true, 0);
    const StreamOwner urgent(device, false, -1);
    EventOwner event(device, false);
    event_record(*device, event.handle(), stream.handle());
    stream_wait(*device, urgent.handle(), event.handle());
    event_synchronize(*device, event.handle());
    stream_synchronize(*device, stream.handle());
    EXPECT(event_is_done(*device, event.handle()));
    EXPECT(stream_is_done(*device, stream.handle()));
    EXPECT_ERROR(invalid_call, event_elapsed_ms(*device, event.handle(), event.handle()));
    event.close();
    EXPECT_ERROR(invalid_free, event.close());
    EXPECT_ERROR(closed, event.handle());
    stream.close();
    EXPECT_ERROR(closed, stream.handle());
  }
  EXPECT_EQ(test::Holdings(), before);
}

TEST(an_unfinished_stream_is_not_done) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  const StreamOwner stream(device, true, 0);
  const EventOwner event(device, false);
  const std::uint64_t gate = test::emulator().emulator().hold(stream.handle());
  event_record(*device, event.handle(), stream.handle());
  EXPECT(!stream_is_done(*device, stream.handle()));
  EXPECT(!event_is_done(*device, event.handle()));
  EXPECT(test::emulator().emulator().pending(stream.handle()) > 0);
  test::emulator().emulator().open_gate(gate);
  stream_synchronize(*device, stream.handle());
  EXPECT(event_is_done(*device, event.handle()));
}

TEST(bytes_travel_through_a_device) {
  const test::EmulatedDevices devices("devices=1,memory=64MiB,backing=host");
  const auto device = devices[0];
  EXPECT(device->is_host_backed());
  const std::vector chunks{std::make_shared<PhysicalChunk>(PhysicalChunk::create(device, MiB * 2, false)),
                           std::make_shared<PhysicalChunk>(PhysicalChunk::create(device, MiB * 2, false))};
  const auto stitched = stitch(device, chunks, std::vector{device});
  const Address boundary = stitched.mappings[1].range().begin;
  const Address start{boundary.value - 2};
  const std::array<std::uint8_t, 4> sent{1, 2, 3, 4};
  std::array<std::uint8_t, 4> received{};
  copy_from_host(*device, start, sent.data(), {sent.size()}, nullptr);
  copy(*device, boundary + Bytes{100}, start, {sent.size()}, nullptr);
  fill(*device, boundary + Bytes{101}, 9, {1}, nullptr);
  copy_to_host(*device, received.data(), boundary + Bytes{100}, {received.size()}, nullptr);
  device->synchronize();
  EXPECT(received == (std::array<std::uint8_t, 4>{1, 9, 3, 4}));
}

TEST(a_closed_device_takes_everything_with_it) {
  test::EmulatedDevices devices;
  auto device = devices[0];
  auto chunk = std::make_shared<PhysicalChunk>(PhysicalChunk::create(device, MiB * 2, false));
  auto stitched = stitch(device, std::vector{chunk}, std::vector{device});
  StreamOwner stream(device, true, 0);
  EventOwner event(device, true);
  const std::size_t reservations = test::ledger_count("reservations");
  devices.close();
  EXPECT(!device->is_open());
  counting().reset();
  chunk->close();
  stitched.mappings[0].close();
  stream.close();
  event.close();
  EXPECT_EQ(counting().count(Call::cuMemRelease), 0u);
  EXPECT_EQ(counting().count(Call::cuMemUnmap), 0u);
  EXPECT_EQ(counting().count(Call::cuStreamDestroy) + counting().count(Call::cuEventDestroy), 0u);
  stitched.reservation->close();  // addresses belong to the process
  EXPECT_EQ(counting().count(Call::cuMemAddressFree), 1u);
  EXPECT_EQ(test::ledger_count("reservations"), reservations - 1);
  EXPECT_ERROR(invalid_call, test::emulator().device(device->ordinal()));
}

TEST(closing_devices_that_do_not_exist_changes_nothing) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  EXPECT_ERROR(invalid_call, test::emulator().close_devices({device->ordinal(), 1 << 20}));
  EXPECT_ERROR(invalid_call, test::emulator().close_devices({2147483647, 2147483647}));
  EXPECT(device->is_open());
  EXPECT(device->free_memory() == MiB * 64);
}

TEST(a_forked_child_calls_no_driver) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  auto chunk = std::make_shared<PhysicalChunk>(PhysicalChunk::create(device, MiB * 2, false));
  auto stitched = stitch(device, std::vector{chunk}, std::vector{device});
  const auto stream = std::make_unique<StreamOwner>(device, true, 0);
  const auto calls = [] {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < call_names.size(); ++i) sum += counting().count(static_cast<Call>(i));
    return sum;
  };
  const std::uint64_t before = calls();
  const pid_t child = fork();
  if (child == 0) {
    int refused = 0;
    for (const auto& work : {std::function<void()>([&] { device->free_memory(); }),
                             std::function<void()>([&] { test::emulator().device(device->ordinal()); }),
                             std::function<void()>([&] { PhysicalChunk::create(device, MiB * 2, false); })}) {
      try {
        work();
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::driver_gone) ++refused;
      }
    }
    stitched.mappings.clear();
    stitched.reservation->close();
    chunk.reset();
    _exit(refused == 3 && calls() == before ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  stitched.mappings[0].close();  // the parent is unaffected
}

}  // namespace
}  // namespace memlake
