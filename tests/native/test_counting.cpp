#include <memory>
#include <thread>
#include <vector>

#include "driver/mapped_handles.hpp"
#include "emulated.hpp"
#include "test.hpp"
#include "vmm/access.hpp"
#include "vmm/stitched_range.hpp"

namespace memlake {
namespace {

constexpr Bytes chunk_size = MiB * 2;

CountingDriver& counting() { return test::emulator().counting(); }

std::shared_ptr<PhysicalChunk> make_chunk(const std::shared_ptr<Device>& device, Bytes size = chunk_size) {
  return std::make_shared<PhysicalChunk>(PhysicalChunk::create(device, size, false));
}

TEST(calls_are_counted_by_name) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  counting().reset();
  make_chunk(device).reset();
  make_chunk(device).reset();
  EXPECT_EQ(counting().count(Call::cuMemCreate), 2u);
  EXPECT_EQ(counting().count(Call::cuMemRelease), 2u);
  EXPECT_EQ(counting().count(Call::cuDevicePrimaryCtxRetain), 1u);
  EXPECT_EQ(counting().count(Call::cuMemMap), 0u);
}

TEST(a_stitched_range_costs_what_the_table_says) {
  const test::EmulatedDevices devices("devices=2,memory=64MiB,backing=none");
  const std::vector access{devices[0], devices[1]};
  const std::vector chunks{make_chunk(access[0]), make_chunk(access[1]), make_chunk(access[0], chunk_size * 2)};
  counting().reset();
  auto stitched = stitch(access[0], chunks, access);
  EXPECT_EQ(counting().modelled_us(), 3 + 3 * 2 + 36.0 * 3 * 2);
  counting().reset();
  const std::vector<Mapping*> run{&stitched.mappings[0], &stitched.mappings[1], &stitched.mappings[2]};
  Mapping::close_run(run);
  EXPECT_EQ(counting().modelled_us(), 30.0 * 3);
  stitched.reservation->close();
  EXPECT_EQ(counting().modelled_us(), 30.0 * 3 + 3);
  counting().reset();
  make_chunk(access[0], MiB * 6).reset();
  EXPECT_EQ(counting().modelled_us(), 30 + 2 * 6 + 10.0);
}

TEST(failed_calls_are_counted_and_charged) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  device->context();
  counting().reset();
  EXPECT_ERROR(out_of_memory, make_chunk(device, GiB));
  EXPECT_EQ(counting().count(Call::cuMemCreate), 1u);
  EXPECT_EQ(counting().modelled_us(), 30 + 2 * 1024.0);
  test::emulator().failing().fail(Call::cuMemCreate, 1, CUDA_ERROR_UNKNOWN);
  EXPECT_ERROR(other, make_chunk(device));
  EXPECT_EQ(counting().count(Call::cuMemCreate), 2u);
}

TEST(plain_memory_has_its_price) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  const CurrentContext current(*device);
  counting().reset();
  CUdeviceptr address = 0;
  EXPECT_EQ(counting().cuMemAlloc(&address, 4096), CUDA_SUCCESS);
  EXPECT_EQ(counting().cuMemFree(address), CUDA_SUCCESS);
  EXPECT_EQ(counting().modelled_us(), 192.0);
}

TEST(a_refused_unmap_leaves_the_price_of_the_next_one) {
  const test::EmulatedDevices devices;
  const std::vector chunks{make_chunk(devices[0]), make_chunk(devices[0])};
  const auto stitched = stitch(devices[0], chunks, {});
  const AddressRange range = stitched.reservation->range();
  counting().reset();
  EXPECT_EQ(counting().cuMemUnmap(range.begin.value, range.size.count - 4096), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(counting().modelled_us(), 60.0);
  counting().reset();
  set_access(counting(), range, std::vector{devices[0]}, CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT_EQ(counting().modelled_us(), 72.0);
}

TEST(counting_is_right_in_many_threads) {
  const test::EmulatedDevices devices("devices=1,memory=1GiB,backing=none");
  const auto device = devices[0];
  device->context();
  counting().reset();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const std::vector chunks{make_chunk(device), make_chunk(device)};
        stitch(device, chunks, std::vector{device});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counting().count(Call::cuMemCreate), 400u);
  EXPECT_EQ(counting().count(Call::cuMemUnmap), 400u);
  EXPECT_EQ(counting().count(Call::cuMemSetAccess), 200u);
  EXPECT_EQ(counting().modelled_us(), 400 * (34.0 + 2 + 36 + 30 + 10) + 200 * 6.0);
}

TEST(mapped_handles_are_found_by_any_byte) {
  MappedHandles mapped;
  mapped.add({{1000}, {100}});
  mapped.add({{1100}, {100}});
  mapped.add({{1300}, {100}});
  EXPECT_EQ(mapped.count_in({{1000}, {400}}), 3u);
  EXPECT_EQ(mapped.count_in({{1050}, {10}}), 1u);
  EXPECT_EQ(mapped.count_in({{1099}, {2}}), 2u);
  EXPECT_EQ(mapped.count_in({{1200}, {100}}), 0u);
  EXPECT_EQ(mapped.count_in({{1350}, {~0ull}}), 1u);
  EXPECT_EQ(mapped.take_from({{1000}, {200}}).size(), 2u);
  EXPECT_EQ(mapped.count_in({{0}, {5000}}), 1u);
  mapped.add({{1250}, {100}});
  EXPECT_EQ(mapped.count_in({{0}, {5000}}), 1u);
}

}  // namespace
}  // namespace memlake
