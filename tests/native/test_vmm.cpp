#include <unistd.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "driver/stream.hpp"
#include "driver/transfer.hpp"
#include "emulated.hpp"
#include "test.hpp"
#include "vmm/access.hpp"
#include "vmm/mapping.hpp"

namespace memlake {
namespace {

constexpr Bytes granule = MiB * 2;

std::shared_ptr<PhysicalChunk> make_chunk(const std::shared_ptr<Device>& device, Bytes size = granule) {
  return std::make_shared<PhysicalChunk>(PhysicalChunk::create(device, size, false));
}

std::shared_ptr<Reservation> make_reservation(const std::shared_ptr<Device>& device, Bytes size = granule * 4) {
  return std::make_shared<Reservation>(device, size, Bytes{0}, Address{0});
}

CountingDriver& counting() { return test::emulator().counting(); }

TEST(dropped_owners_leave_nothing) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  const test::Holdings before;
  {
    const auto reservation = make_reservation(device);
    const auto chunk = make_chunk(device);
    const Mapping here(reservation, {0}, chunk, granule);
    const Mapping there(reservation, granule, chunk, granule);
    EXPECT_EQ(test::ledger_count("mappings"), before.mappings + 2);
    EXPECT(device->free_memory() == MiB * 64 - granule);
  }
  EXPECT_EQ(test::Holdings(), before);
  EXPECT(device->free_memory() == MiB * 64);
}

TEST(owners_move_and_undo_once) {
  const test::EmulatedDevices devices;
  const test::Holdings before;
  {
    PhysicalChunk first = PhysicalChunk::create(devices[0], granule, false);
    const PhysicalChunk second = std::move(first);
    Reservation range(devices[0], granule, {0}, {0});
    const Reservation moved = std::move(range);
    EXPECT(second.is_open() && moved.is_open());
    EXPECT(!first.is_open() && !range.is_open());  // NOLINT: what a moved-from owner answers is the point
  }
  EXPECT_EQ(test::Holdings(), before);
}

TEST(a_mapping_keeps_what_it_needs) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  auto reservation = make_reservation(device);
  auto chunk = make_chunk(device);
  {
    const Mapping mapping(reservation, {0}, chunk, granule);
    reservation.reset();
    chunk.reset();
    EXPECT(device->free_memory() == MiB * 64 - granule);
  }
  EXPECT(device->free_memory() == MiB * 64);
}

TEST(a_chunk_may_be_closed_while_mapped) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  const auto chunk = make_chunk(device);
  Mapping mapping(make_reservation(device), {0}, chunk, granule);
  chunk->close();
  EXPECT(!chunk->is_open());
  EXPECT_ERROR(closed, chunk->handle());
  EXPECT_ERROR(closed, chunk->export_fd());
  EXPECT_ERROR(closed, Mapping(make_reservation(device), {0}, chunk, granule));
  EXPECT(device->free_memory() == MiB * 64 - granule);
  mapping.close();
  EXPECT(device->free_memory() == MiB * 64);
  EXPECT_ERROR(invalid_free, mapping.close());
  EXPECT_ERROR(invalid_free, chunk->close());
}

TEST(a_reservation_cannot_be_closed_under_a_mapping) {
  const test::EmulatedDevices devices;
  const auto reservation = make_reservation(devices[0]);
  Mapping mapping(reservation, {0}, make_chunk(devices[0]), granule);
  EXPECT_EQ(reservation->mapping_count(), 1u);
  EXPECT_ERROR(invalid_free, reservation->close());
  EXPECT(reservation->is_open());
  mapping.close();
  EXPECT_EQ(reservation->mapping_count(), 0u);
  reservation->close();
  EXPECT_ERROR(invalid_free, reservation->close());
  EXPECT_ERROR(closed, Mapping(reservation, {0}, make_chunk(devices[0]), granule));
}

TEST(a_mapping_outside_its_reservation_is_refused_before_any_call) {
  const test::EmulatedDevices devices;
  const auto reservation = make_reservation(devices[0], granule * 2);
  const auto chunk = make_chunk(devices[0], granule * 2);
  counting().reset();
  EXPECT_ERROR(invalid_argument, Mapping(reservation, granule, chunk, granule * 2));
  EXPECT_ERROR(invalid_argument, Mapping(reservation, {~0ull - 100}, chunk, granule));
  EXPECT_EQ(counting().count(Call::cuMemMap), 0u);
  EXPECT_EQ(reservation->mapping_count(), 0u);
}

TEST(what_the_driver_refuses_changes_nothing) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  const auto reservation = make_reservation(device);
  const auto chunk = make_chunk(device);
  const Mapping mapping(reservation, {0}, chunk, granule);
  const test::Holdings before;
  EXPECT_ERROR(invalid_call, make_chunk(device, {0}));
  EXPECT_ERROR(invalid_call, make_chunk(device, granule + Bytes{4096}));
  EXPECT_ERROR(out_of_memory, make_chunk(device, GiB));
  EXPECT_ERROR(address_exhaustion, make_reservation(device, {0}));
  EXPECT_ERROR(address_exhaustion, make_reservation(device, {std::uint64_t{1} << 62}));
  EXPECT_ERROR(address_exhaustion, Reservation(device, granule, {3}, {0}));
  EXPECT_ERROR(invalid_call, Mapping(reservation, {0}, chunk, granule));          // already mapped
  EXPECT_ERROR(invalid_call, Mapping(reservation, granule, chunk, granule * 2));  // beyond the chunk
  EXPECT_ERROR(invalid_call, Mapping(reservation, {4096}, chunk, granule));       // misaligned
  EXPECT_EQ(test::Holdings(), before);
  EXPECT_EQ(reservation->mapping_count(), 1u);
}

TEST(a_failing_close_keeps_ownership) {
  const test::EmulatedDevices devices;
  const auto device = devices[0];
  FailingDriver& failing = test::emulator().failing();
  const test::Holdings before;
  auto chunk = make_chunk(device);
  const auto reservation = make_reservation(device);
  auto mapping = std::make_unique<Mapping>(reservation, Bytes{0}, chunk, granule);
  failing.fail(Call::cuMemUnmap, 1, CUDA_ERROR_UNKNOWN);
  EXPECT_ERROR(other, mapping->close());
  EXPECT(mapping->is_open());
  mapping->close();
  failing.fail(Call::cuMemRelease, 1, CUDA_ERROR_UNKNOWN);
  EXPECT_ERROR(other, chunk->close());
  EXPECT(chunk->is_open());
  chunk->close();
  failing.fail(Call::cuMemAddressFree, 1, CUDA_ERROR_UNKNOWN);
  EXPECT_ERROR(other, reservation->close());
  reservation->close();
  EXPECT_EQ(test::Holdings(), before);
}

int undo_failures = 0;  // NOLINT: a hook is a plain function

TEST(addresses_are_not_given_away_under_a_mapping_that_stayed) {
  const test::EmulatedDevices devices;
  undo_failures = 0;
  const UndoFailureHook before = set_undo_failure_hook([](const Error&) { ++undo_failures; });
  counting().reset();
  {
    const Mapping mapping(make_reservation(devices[0]), {0}, make_chunk(devices[0]), granule);
    test::emulator().failing().fail(Call::cuMemUnmap, 1, CUDA_ERROR_UNKNOWN);
  }
  set_undo_failure_hook(before);
  EXPECT_EQ(undo_failures, 1);
  EXPECT_EQ(counting().count(Call::cuMemAddressFree), 0u);
}

TEST(unmapping_under_work_in_flight_is_a_violation_and_changes_nothing) {
  const test::EmulatedDevices devices("devices=1,memory=64MiB,backing=none");
  const auto device = devices[0];
  const StreamOwner stream(device, true, 0);
  Mapping mapping(make_reservation(device), {0}, make_chunk(device), granule);
  set_access(device->driver(), mapping.range(), std::vector{device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const std::uint64_t gate = test::emulator().emulator().hold(stream.handle());
  fill(*device, mapping.range().begin, 1, granule, stream.handle());
  const auto error = EXPECT_ERROR(contract_violation, mapping.close());
  EXPECT(error && !error->answer()->detail.empty());
  EXPECT(mapping.is_open());
  test::emulator().emulator().open_gate(gate);
  stream_synchronize(*device, stream.handle());
  mapping.close();
}

TEST(access_is_set_for_several_devices_at_once) {
  const test::EmulatedDevices devices("devices=2,memory=64MiB,backing=none");
  const test::EmulatedDevices strangers;
  const std::vector both{devices[0], devices[1]};
  const Mapping mapping(make_reservation(both[0]), {0}, make_chunk(both[0]), granule);
  const Address address = mapping.range().begin;
  EXPECT_EQ(get_access(*both[0], address), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  set_access(both[0]->driver(), mapping.range(), both, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(get_access(*both[1], address), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  set_access(both[0]->driver(), mapping.range(), std::vector{both[1]}, CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT_EQ(get_access(*both[1], address), CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT_ERROR(invalid_call, set_access(both[0]->driver(), mapping.range(), {}, CU_MEM_ACCESS_FLAGS_PROT_READ));
  const auto error = EXPECT_ERROR(invalid_call, set_access(both[0]->driver(), mapping.range(),
                                                           std::vector{strangers[0]}, CU_MEM_ACCESS_FLAGS_PROT_READ));
  EXPECT(error && error->answer()->code == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

TEST(an_exported_chunk_is_the_same_memory) {
  const test::EmulatedDevices devices("devices=1,memory=64MiB,backing=host");
  const auto device = devices[0];
  auto original = PhysicalChunk::create(device, granule, true);
  const int fd = original.export_fd();
  {
    const PhysicalChunk imported = PhysicalChunk::import_fd(device, fd, granule);
    close(fd);
    original.close();
    EXPECT(device->free_memory() == MiB * 64 - granule);
  }
  EXPECT(device->free_memory() == MiB * 64);
  EXPECT_ERROR(invalid_call, PhysicalChunk::import_fd(device, -1, granule));
  EXPECT_ERROR(invalid_call, make_chunk(device)->export_fd());
}

TEST(two_threads_cannot_close_one_owner_twice) {
  const test::EmulatedDevices devices;
  for (int round = 0; round < 50; ++round) {
    const auto chunk = make_chunk(devices[0]);
    std::atomic<int> refused{0};
    const auto close_it = [&] {
      try {
        chunk->close();
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::invalid_free) ++refused;
      }
    };
    std::thread other(close_it);
    close_it();
    other.join();
    EXPECT_EQ(refused.load(), 1);
  }
}

}  // namespace
}  // namespace memlake
