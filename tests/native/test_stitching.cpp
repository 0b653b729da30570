#include <memory>
#include <vector>

#include "emulated.hpp"
#include "test.hpp"
#include "vmm/access.hpp"
#include "vmm/stitched_range.hpp"

namespace memlake {
namespace {

using Chunks = std::vector<std::shared_ptr<PhysicalChunk>>;

std::shared_ptr<PhysicalChunk> make_chunk(const std::shared_ptr<Device>& device, Bytes size = MiB * 2) {
  return std::make_shared<PhysicalChunk>(PhysicalChunk::create(device, size, false));
}

std::vector<Mapping*> pointers(std::vector<Mapping>& mappings) {
  std::vector<Mapping*> all;
  for (Mapping& mapping : mappings) all.push_back(&mapping);
  return all;
}

TEST(chunks_of_two_devices_become_one_range) {
  const test::EmulatedDevices devices("devices=2,memory=64MiB,backing=none");
  const std::vector both{devices[0], devices[1]};
  const Chunks chunks{make_chunk(both[1]), make_chunk(both[0], MiB * 6), make_chunk(both[1])};
  const StitchedRange stitched = stitch(both[0], chunks, both);
  EXPECT(stitched.reservation->range().size == MiB * 10);
  EXPECT_EQ(stitched.mappings.size(), 3u);
  Address next = stitched.reservation->range().begin;
  for (const Mapping& mapping : stitched.mappings) {
    EXPECT(mapping.range().begin == next);
    next = mapping.range().end();
    for (const auto& device : both) {
      EXPECT_EQ(get_access(*device, mapping.range().begin), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
  }
  EXPECT(next == stitched.reservation->range().end());
}

TEST(one_chunk_may_show_several_times) {
  const test::EmulatedDevices devices;
  const auto chunk = make_chunk(devices[0]);
  const StitchedRange stitched = stitch(devices[0], Chunks{chunk, chunk, chunk}, std::vector{devices[0]});
  EXPECT_EQ(stitched.mappings.size(), 3u);
  EXPECT(devices[0]->free_memory() == MiB * 62);
}

/// Fails the nth call of the kind, or of any, until stitching gets through; returns how many faults there were.
int fail_at_every_step(const std::shared_ptr<Device>& device, const Chunks& chunks,
                       const std::vector<std::shared_ptr<Device>>& access, std::optional<Call> call) {
  const test::Holdings before;
  for (std::uint64_t n = 1;; ++n) {
    test::emulator().failing().clear();
    test::emulator().failing().fail(call, n, CUDA_ERROR_UNKNOWN);
    try {
      const StitchedRange stitched = stitch(device, chunks, access);
      test::emulator().failing().clear();  // undoing it is no step of making it
      return static_cast<int>(n) - 1;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::other);
    }
    test::emulator().failing().clear();
    EXPECT_EQ(test::Holdings(), before);
  }
}

TEST(stitching_that_fails_at_step_k_leaves_nothing) {
  const test::EmulatedDevices devices("devices=2,memory=64MiB,backing=none");
  const std::vector both{devices[0], devices[1]};
  Chunks chunks;
  for (int i = 0; i < 5; ++i) chunks.push_back(make_chunk(both[static_cast<std::size_t>(i) % 2]));
  const Bytes free_before = both[0]->free_memory();
  const test::Holdings before;
  test::emulator().emulator().reset_ledger();
  EXPECT_EQ(fail_at_every_step(both[0], chunks, both, Call::cuMemAddressReserve), 1);
  EXPECT_EQ(fail_at_every_step(both[0], chunks, both, Call::cuMemMap), 5);
  EXPECT_EQ(fail_at_every_step(both[0], chunks, both, Call::cuMemSetAccess), 1);
  EXPECT_EQ(fail_at_every_step(both[0], chunks, both, std::nullopt), 7);
  EXPECT_EQ(test::Holdings(), before);
  EXPECT(both[0]->free_memory() == free_before);
  EXPECT_EQ(test::ledger_count("violations"), 0u);
}

TEST(a_device_without_the_right_of_access_unwinds_the_stitching) {
  const test::EmulatedDevices devices;
  const test::EmulatedDevices strangers;
  const Chunks chunks{make_chunk(devices[0]), make_chunk(devices[0])};
  const test::Holdings before;
  EXPECT_ERROR(invalid_call, stitch(devices[0], chunks, std::vector{devices[0], strangers[0]}));
  EXPECT_EQ(test::Holdings(), before);
}

TEST(what_cannot_be_stitched_is_refused_before_any_call) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  device->granularity(CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  const auto closed_chunk = make_chunk(device);
  closed_chunk->close();
  const Chunks with_closed{make_chunk(device), closed_chunk};
  test::emulator().counting().reset();
  EXPECT_ERROR(invalid_argument, stitch(device, {}, std::vector{device}));
  EXPECT_ERROR(closed, stitch(device, with_closed, std::vector{device}));
  EXPECT_EQ(test::emulator().counting().count(Call::cuMemAddressReserve), 0u);
}

TEST(granules_of_different_sizes_must_fit) {
  const test::EmulatedDevices fine("devices=1,memory=64MiB,granularity=64KiB,backing=none");
  const test::EmulatedDevices coarse("devices=1,memory=64MiB,granularity=2MiB,backing=none");
  const auto small = make_chunk(fine[0], KiB * 64);
  const auto large = make_chunk(coarse[0], MiB * 2);
  EXPECT_ERROR(invalid_argument, stitch(fine[0], Chunks{small, large}, {}));
  const StitchedRange stitched = stitch(fine[0], Chunks{large, small}, {});
  EXPECT(stitched.reservation->range().size == MiB * 2 + KiB * 64);
  EXPECT_EQ(stitched.reservation->range().begin.value % MiB.count, 0u);
}

TEST(a_run_of_mappings_is_closed_with_one_call) {
  const test::EmulatedDevices devices;
  const Chunks chunks{make_chunk(devices[0]), make_chunk(devices[0]), make_chunk(devices[0])};
  StitchedRange stitched = stitch(devices[0], chunks, {});
  const auto run = pointers(stitched.mappings);
  test::emulator().failing().fail(Call::cuMemUnmap, 1, CUDA_ERROR_UNKNOWN);
  EXPECT_ERROR(other, Mapping::close_run(run));
  for (const Mapping* mapping : run) EXPECT(mapping->is_open());
  test::emulator().counting().reset();
  Mapping::close_run(run);
  EXPECT_EQ(test::emulator().counting().count(Call::cuMemUnmap), 1u);
  EXPECT_EQ(stitched.reservation->mapping_count(), 0u);
  EXPECT_ERROR(invalid_free, Mapping::close_run(run));
  stitched.reservation->close();
}

TEST(a_run_must_be_neighbours) {
  const test::EmulatedDevices devices;
  const Chunks chunks{make_chunk(devices[0]), make_chunk(devices[0]), make_chunk(devices[0])};
  StitchedRange stitched = stitch(devices[0], chunks, {});
  std::vector<Mapping>& m = stitched.mappings;
  EXPECT_ERROR(invalid_argument, Mapping::close_run(std::vector{&m[0], &m[2]}));
  EXPECT_ERROR(invalid_argument, Mapping::close_run(std::vector{&m[1], &m[0]}));
  EXPECT_ERROR(invalid_free, Mapping::close_run(std::vector{&m[0], &m[0]}));
  for (const Mapping& mapping : m) EXPECT(mapping.is_open());
  Mapping::close_run({});
}

TEST(a_run_passes_over_mappings_of_a_closed_device) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  test::EmulatedDevices other("devices=1,memory=64MiB,backing=none");
  const Chunks chunks{make_chunk(device), make_chunk(other[0]), make_chunk(device), make_chunk(device)};
  StitchedRange stitched = stitch(device, chunks, {});
  other.close();
  test::emulator().counting().reset();
  Mapping::close_run(pointers(stitched.mappings));
  EXPECT_EQ(test::emulator().counting().count(Call::cuMemUnmap), 2u);
  stitched.reservation->close();
}

}  // namespace
}  // namespace memlake
