// Memory that may leave the process: whole blocks beside those of every policy, their budget, their export and import.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "driver/transfer.hpp"
#include "emulated.hpp"
#include "policies/registry/registry.hpp"
#include "random_program.hpp"
#include "runtime/live_pool.hpp"
#include "test.hpp"
#include "vmm/imported_memory.hpp"

namespace memlake {
namespace {

using test::expect_sound;
using test::OwnStream;
using test::RandomProgram;
using test::take;

const char* const kDevice = "devices=1,memory=1GiB,backing=none";
constexpr Bytes kUnlimited{UINT64_MAX};
const Sharing kAlways{.is_default_space = true};

const char* const kPolicies[] = {"caching", "expandable", "direct", "stitch", "lake", "lake,aliasing:none"};

std::shared_ptr<LivePool> make_pool(const test::EmulatedDevices& devices, std::string_view policy = "lake",
                                    Bytes limit = kUnlimited, const Sharing& sharing = {}) {
  return LivePool::make({devices[0]}, choose_policy(policy).space_maker(), limit, sharing);
}

Lease share(LivePool& pool, Bytes size, const StreamName& stream = {}) { return take(pool, size, stream, true); }

std::uint64_t calls(const LivePool& pool) {
  std::uint64_t sum = 0;
  for (const auto& [name, count] : pool.figures().stats().calls) sum += count;
  return sum;
}

ImportedMemory import_all(const std::shared_ptr<Device>& device, const ExportedBlock& exported,
                          CUmemAccess_flags rights = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  std::vector<ImportedMemory::Part> parts;
  for (const ExportedChunk& chunk : exported.chunks) parts.push_back({chunk.descriptor.get(), chunk.size, device});
  const std::vector users{device};
  return ImportedMemory(parts, users, rights);
}

std::uint8_t first_byte(Device& device, Address address) {
  std::uint8_t byte = 0;
  copy_to_host(device, &byte, address, Bytes{1}, nullptr);
  device.synchronize();
  return byte;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += fcntl(fd, F_GETFD) != -1 ? 1U : 0U;
  return count;
}

TEST(a_shareable_block_owns_its_chunks_whole_beside_every_policy) {
  for (const std::string_view policy : kPolicies) {
    const test::EmulatedDevices devices(kDevice);
    const auto pool = make_pool(devices, policy);
    Lease ordinary = take(*pool, MiB * 3);
    Lease first = share(*pool, Bytes{1});
    Lease second = share(*pool, MiB * 100);
    expect_sound(*pool);
    const ExportedBlock small = first.export_memory();
    const ExportedBlock large = second.export_memory();
    EXPECT_EQ(small.chunks.size(), 1u);
    EXPECT_EQ(small.chunks[0].size.count, devices[0]->granularity(CU_MEM_ALLOC_GRANULARITY_MINIMUM).count);
    EXPECT_EQ(large.chunks.size(), 2u);
    EXPECT_EQ((large.chunks[0].size + large.chunks[1].size).count, (MiB * 100).count);
    EXPECT(large.address == second.address() && large.requested == second.size());
    EXPECT_ERROR(invalid_argument, static_cast<void>(ordinary.export_memory()));
    EXPECT_EQ(second.pieces().size(), 1u);
    EXPECT(first.generation() != second.generation());
    expect_sound(*pool);
  }
}

TEST(what_was_not_exported_is_reused_without_a_driver_call) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_pool(devices, "lake", kUnlimited, kAlways);
  Lease first = take(*pool, MiB * 100);
  const Address place = first.address();
  const std::uint64_t generation = first.generation();
  first.close();
  const std::uint64_t before = calls(*pool);
  for (int i = 0; i < 10; ++i) {
    auto again = pool->lease_at_once(MiB * 99 + Bytes{1});  // the same number of granules
    EXPECT(again.has_value());
    EXPECT(again->address() == place && again->generation() == generation);
    EXPECT(again->close_at_once());
  }
  EXPECT_EQ(calls(*pool), before);
  expect_sound(*pool);
}

TEST(what_was_exported_is_released_when_it_is_freed_and_never_used_again) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_pool(devices);
  const Bytes free = devices[0]->free_memory();
  Lease lease = share(*pool, MiB * 100);
  EXPECT_EQ((free - devices[0]->free_memory()).count, (MiB * 100).count);
  {
    const ExportedBlock exported = lease.export_memory();
    EXPECT(!lease.close_at_once());
    lease.close();
    devices[0]->synchronize();
    pool->trim(kUnlimited);  // looks at what has passed
    EXPECT_EQ(pool->figures().held().count, 0u);
    EXPECT_EQ((free - devices[0]->free_memory()).count, (MiB * 100).count);  // the descriptors keep it
    Lease other = share(*pool, MiB * 100);
    EXPECT_EQ((free - devices[0]->free_memory()).count, (MiB * 200).count);
    expect_sound(*pool);
  }
  EXPECT_EQ((free - devices[0]->free_memory()).count, (MiB * 100).count);
}

TEST(what_was_exported_waits_for_every_stream_that_uses_it) {
  const test::EmulatedDevices devices("devices=1,memory=1GiB,backing=none,streams=manual");
  const auto pool = make_pool(devices);
  const OwnStream a(devices[0]);
  const OwnStream b(devices[0]);
  Lease lease = share(*pool, MiB * 2, a.name());
  static_cast<void>(lease.export_memory());
  fill(*devices[0], lease.address(), 1, lease.size(), a.owner->handle());
  fill(*devices[0], lease.address(), 2, lease.size(), b.owner->handle());
  lease.record_use(b.name());
  lease.close();
  EXPECT_EQ(pool->figures().stats().pending_count, 1u);
  // Nobody gets it meanwhile, on no stream.
  Lease other = share(*pool, MiB * 2, a.name());
  EXPECT_EQ(pool->figures().stats().pending_count, 1u);
  expect_sound(*pool);
  static_cast<void>(test::emulator().emulator().step(a.owner->handle(), 10));
  pool->trim(kUnlimited);
  EXPECT_EQ(pool->figures().stats().pending_count, 1u);
  static_cast<void>(test::emulator().emulator().step(b.owner->handle(), 10));
  pool->trim(kUnlimited);
  EXPECT_EQ(pool->figures().stats().pending_count, 0u);
  EXPECT_EQ(pool->figures().held().count, (MiB * 2).count);
  expect_sound(*pool);
}

TEST(freed_memory_reaches_another_stream_when_its_own_has_passed) {
  const test::EmulatedDevices devices("devices=1,memory=1GiB,backing=none,streams=manual");
  const auto pool = make_pool(devices);
  const OwnStream a(devices[0]);
  const OwnStream b(devices[0]);
  Lease lease = share(*pool, MiB * 4, a.name());
  const Address place = lease.address();
  fill(*devices[0], place, 1, lease.size(), a.owner->handle());
  lease.close();
  EXPECT(share(*pool, MiB * 4, b.name()).address() != place);
  static_cast<void>(test::emulator().emulator().step(a.owner->handle(), 10));
  Lease held_by_b = share(*pool, MiB * 4, b.name());  // what b freed itself comes first
  EXPECT(held_by_b.address() != place);
  EXPECT(share(*pool, MiB * 4, b.name()).address() == place);
  expect_sound(*pool);
}

TEST(at_the_budget_free_chunks_are_stitched_for_another_size) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_pool(devices, "lake", MiB * 100);
  {
    std::vector<Lease> small;
    for (int i = 0; i < 40; ++i) small.push_back(share(*pool, MiB * 2));
  }
  EXPECT_EQ(pool->figures().held().count, (MiB * 80).count);
  Lease large = share(*pool, MiB * 90);  // 40 chunks of 2 MiB, and 10 MiB anew
  EXPECT_EQ(pool->figures().held().count, (MiB * 90).count);
  EXPECT_EQ(large.export_memory().chunks.size(), 41u);
  expect_sound(*pool);
}

TEST(chunks_that_are_too_large_make_room_for_smaller_ones) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_pool(devices, "lake", MiB * 128);
  share(*pool, MiB * 128).close();
  Lease small = share(*pool, MiB * 2);
  EXPECT_EQ(pool->figures().held().count, (MiB * 66).count);  // one of the two chunks went
  Lease rest = share(*pool, MiB * 64);
  EXPECT_EQ(pool->figures().held().count, (MiB * 66).count);
  expect_sound(*pool);
}

TEST(memory_that_was_made_in_advance_is_handed_out_in_parts) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_pool(devices, "lake", kUnlimited, kAlways);
  Shortage shortage;
  EXPECT(pool->preallocate(MiB * 640, {}, shortage));
  expect_sound(*pool);
  const std::uint64_t before = calls(*pool);
  std::vector<Lease> parts;
  for (int i = 0; i < 5; ++i) parts.push_back(take(*pool, MiB * 128));
  EXPECT_EQ(calls(*pool), before);
  EXPECT_EQ(pool->figures().held().count, (MiB * 640).count);
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      EXPECT(!(AddressRange{parts[i].address(), parts[i].size()}.overlaps({parts[j].address(), parts[j].size()})));
  expect_sound(*pool);
}

TEST(the_limit_is_one_for_both_kinds_of_memory) {
  for (const std::string_view policy : kPolicies) {
    const test::EmulatedDevices devices(kDevice);
    const auto pool = make_pool(devices, policy, MiB * 256);
    Lease ordinary = take(*pool, MiB * 100);
    Lease shared = share(*pool, MiB * 100);
    Shortage shortage;
    EXPECT(!pool->allocate(MiB * 100, {}, shortage, true).has_value());
    EXPECT_EQ(shortage.held.count, pool->figures().held().count);
    EXPECT(!shortage.tried.empty());
    EXPECT(!pool->allocate(MiB * 100, {}, shortage, false).has_value());
    EXPECT(pool->figures().held() <= MiB * 256);
    EXPECT_EQ(pool->figures().stats().pool.held.peak.count, pool->figures().held().count);
    expect_sound(*pool);
    shared.close();
    pool->trim({0});
    EXPECT(pool->figures().held() >= MiB * 100 && pool->figures().held() < MiB * 156);
    pool->trim({0});
    expect_sound(*pool);
  }
}

TEST(each_kind_gives_free_memory_back_before_the_other_is_refused) {
  for (const std::string_view policy : kPolicies) {
    const test::EmulatedDevices devices(kDevice);
    const auto pool = make_pool(devices, policy, MiB * 256);
    share(*pool, MiB * 200).close();
    EXPECT_EQ(pool->figures().held().count, (MiB * 200).count);
    {
      Lease ordinary = take(*pool, MiB * 200);
      EXPECT(pool->figures().held() <= MiB * 256);
      expect_sound(*pool);
    }
    Lease shared = share(*pool, MiB * 200);
    EXPECT(pool->figures().held() <= MiB * 256);
    expect_sound(*pool);
    // A refusal that is certain leaves what is cached.
    shared.close();
    Shortage shortage;
    EXPECT(!pool->allocate(MiB * 300, {}, shortage, false).has_value());
    EXPECT(!pool->allocate(MiB * 300, {}, shortage, true).has_value());
    EXPECT_EQ(pool->figures().held().count, (MiB * 200).count);
  }
}

TEST(a_device_with_little_left_is_used_to_the_last_granule) {
  const test::EmulatedDevices devices("devices=1,memory=256MiB,backing=none");
  const auto pool = make_pool(devices);
  const PhysicalChunk foreign = PhysicalChunk::create(devices[0], MiB * 178, false);  // 78 MiB are left
  Lease first = share(*pool, MiB * 48);
  Lease second = share(*pool, MiB * 30);
  EXPECT_EQ(devices[0]->free_memory().count, 0u);
  Shortage shortage;
  EXPECT(!pool->allocate(MiB * 2, {}, shortage, true).has_value());
  second.close();
  Lease third = share(*pool, MiB * 16);
  expect_sound(*pool);
}

TEST(several_devices_share_a_block_by_placement) {
  struct Case {
    Placement placement;
    std::vector<std::pair<std::size_t, Bytes>> pieces;
  };
  const std::vector<Case> cases{{Placement::fill, {{0, MiB * 192}, {1, MiB * 64}}},
                                {Placement::balance, {{0, MiB * 128}, {1, MiB * 128}}}};  // it fits on neither alone
  for (const Case& wanted : cases) {
    const test::EmulatedDevices devices("devices=2,memory=192MiB,backing=none,peers=all");
    const auto pool = LivePool::make({devices[0], devices[1]}, choose_policy("lake").space_maker(), kUnlimited,
                                     {.options = {.placement = wanted.placement}});
    Lease lease = share(*pool, MiB * 256);
    EXPECT(lease.pieces() == wanted.pieces);
    const ExportedBlock exported = lease.export_memory();
    Bytes on_second{0};
    for (const ExportedChunk& chunk : exported.chunks)
      if (chunk.device == 1) on_second = on_second + chunk.size;
    EXPECT_EQ(on_second.count, wanted.pieces[1].second.count);
    expect_sound(*pool);
  }
}

TEST(a_balanced_block_that_fits_on_one_device_lies_on_one) {
  const test::EmulatedDevices devices("devices=2,memory=256MiB,backing=none,peers=all");
  const auto pool = LivePool::make({devices[0], devices[1]}, choose_policy("lake").space_maker(), kUnlimited,
                                   {.options = {.placement = Placement::balance}});
  using Pieces = std::vector<std::pair<std::size_t, Bytes>>;
  const Lease first = share(*pool, MiB * 192);
  const Lease second = share(*pool, MiB * 160);
  const Lease third = share(*pool, MiB * 64);
  EXPECT(first.pieces() == (Pieces{{0, MiB * 192}}));
  EXPECT(second.pieces() == (Pieces{{1, MiB * 160}}));
  EXPECT(third.pieces() == (Pieces{{1, MiB * 64}}));
  expect_sound(*pool);
}

TEST(an_import_shows_the_same_bytes) {
  const test::EmulatedDevices devices("devices=1,memory=1GiB,backing=host");
  const auto pool = make_pool(devices);
  Lease lease = share(*pool, MiB * 200);
  fill(*devices[0], lease.address(), 7, lease.size(), nullptr);
  devices[0]->synchronize();
  ExportedBlock exported = lease.export_memory();
  const std::size_t descriptors = open_descriptors();
  {
    ImportedMemory imported = import_all(devices[0], exported);
    EXPECT(imported.range().begin != lease.address());
    EXPECT(imported.range().size == MiB * 200);
    for (const Bytes offset : {Bytes{0}, MiB * 64 - Bytes{1}, MiB * 64, MiB * 199})
      EXPECT_EQ(first_byte(*devices[0], imported.range().begin + offset), 7);
    fill(*devices[0], imported.range().begin + MiB * 64, 9, {1}, nullptr);
    EXPECT_EQ(first_byte(*devices[0], lease.address() + MiB * 64), 9);
    lease.close();
    exported.chunks.clear();
    EXPECT_EQ(first_byte(*devices[0], imported.range().begin + MiB * 64), 9);  // it keeps its memory
    imported.close();
    EXPECT_ERROR(invalid_free, imported.close());
  }
  EXPECT(open_descriptors() < descriptors);
  pool->trim({0});
  EXPECT_EQ((devices[0]->total_memory() - devices[0]->free_memory()).count, 0u);
}

TEST(an_import_may_be_read_only) {
  const test::EmulatedDevices devices("devices=1,memory=1GiB,backing=host");
  const auto pool = make_pool(devices);
  Lease lease = share(*pool, MiB * 100);
  fill(*devices[0], lease.address(), 7, lease.size(), nullptr);
  devices[0]->synchronize();
  const ExportedBlock exported = lease.export_memory();
  const ImportedMemory imported = import_all(devices[0], exported, CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT_EQ(first_byte(*devices[0], imported.range().begin), 7);
  const std::uint8_t byte = 1;
  EXPECT_ERROR(invalid_call, copy_from_host(*devices[0], imported.range().begin, &byte, {1}, nullptr));
}

TEST(what_cannot_be_imported_is_refused_and_leaves_nothing) {
  const test::EmulatedDevices devices("devices=1,memory=1GiB,backing=none");
  const auto pool = make_pool(devices);
  Lease lease = share(*pool, MiB * 128);
  const ExportedBlock exported = lease.export_memory();
  const std::vector users{devices[0]};
  const test::Holdings before;
  const Descriptor null(open("/dev/null", O_RDWR));
  const std::size_t descriptors = open_descriptors();
  const auto attempt = [&](std::vector<ImportedMemory::Part> parts) {
    return EXPECT_ERROR(config, ImportedMemory(parts, users, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  };
  const ImportedMemory::Part good{exported.chunks[0].descriptor.get(), MiB * 64, devices[0]};
  attempt({good, {null.get(), MiB * 64, devices[0]}});
  attempt({good, {-1, MiB * 64, devices[0]}});
  attempt({good, {4000, MiB * 64, devices[0]}});
  attempt({{good.fd, MiB * 66, devices[0]}});
  EXPECT_ERROR(invalid_argument, ImportedMemory({}, users, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  EXPECT_EQ(test::Holdings{}, before);
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(an_export_or_import_that_fails_half_way_leaves_nothing) {
  FailingDriver& failing = test::emulator().failing();
  const test::EmulatedDevices devices("devices=1,memory=1GiB,backing=none");
  const auto pool = make_pool(devices);
  Lease lease = share(*pool, MiB * 320);
  const std::size_t descriptors = open_descriptors();
  for (std::uint64_t nth = 1; nth <= 5; ++nth) {
    failing.fail(Call::cuMemExportToShareableHandle, nth, CUDA_ERROR_UNKNOWN);
    EXPECT_ERROR(other, static_cast<void>(lease.export_memory()));
    EXPECT_EQ(open_descriptors(), descriptors);
    expect_sound(*pool);
  }
  failing.clear();
  // It was not exported, so it is kept.
  lease.close();
  EXPECT_EQ(pool->figures().held().count, (MiB * 320).count);
  Lease again = share(*pool, MiB * 320);
  const ExportedBlock exported = again.export_memory();
  const test::Holdings before;
  const std::size_t with_exports = open_descriptors();
  for (std::uint64_t nth = 1; nth <= 14; ++nth) {
    failing.fail(std::nullopt, nth, CUDA_ERROR_OUT_OF_MEMORY);
    try {
      import_all(devices[0], exported);
    } catch (const Error&) {
    }
    failing.clear();
    EXPECT_EQ(test::Holdings{}, before);
    EXPECT_EQ(open_descriptors(), with_exports);
  }
}

TEST(a_whole_pool_is_exported_in_the_order_of_its_allocations_or_not_at_all) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_pool(devices, "lake", kUnlimited, kAlways);
  std::vector<Lease> leases;
  for (int i = 1; i <= 3; ++i) leases.push_back(take(*pool, MiB * (2 * static_cast<unsigned>(i))));
  take(*pool, MiB * 10).close();
  const std::vector<ExportedBlock> exported = pool->sharing().export_everything();
  EXPECT_EQ(exported.size(), 3u);
  for (std::size_t i = 0; i < exported.size(); ++i) EXPECT(exported[i].address == leases[i].address());
  Lease ordinary = take(*pool, MiB, {}, false);
  const std::size_t descriptors = open_descriptors();
  EXPECT_ERROR(invalid_argument, static_cast<void>(pool->sharing().export_everything()));
  EXPECT_EQ(open_descriptors(), descriptors);
  expect_sound(*pool);
}

TEST(a_pool_that_shares_is_sound_after_every_step_of_a_random_run) {
  for (const std::string_view policy : kPolicies)
    for (unsigned seed = 0; seed < 2; ++seed) {
      const test::EmulatedDevices devices("devices=1,memory=256MiB,backing=none");
      const auto pool = make_pool(devices, policy, MiB * 200);
      RandomProgram program(pool, devices[0], seed, true);
      for (int i = 0; i < 1000 && !test::running_test_has_failed(); ++i) {
        program.step();
        expect_sound(*pool);
        EXPECT(pool->figures().held() <= MiB * 200);
      }
    }
}

TEST(threads_that_share_keep_within_one_limit) {
  for (const std::string_view policy : kPolicies) {
    const test::EmulatedDevices devices("devices=1,memory=256MiB,backing=none");
    const auto pool = make_pool(devices, policy, MiB * 128);
    {
      std::vector<std::thread> threads;
      for (unsigned seed = 0; seed < 4; ++seed)
        threads.emplace_back([&, seed] {
          RandomProgram program(pool, devices[0], seed, true);
          for (int i = 0; i < 300; ++i) program.step();
        });
      for (std::thread& thread : threads) thread.join();
    }
    devices[0]->synchronize();
    pool->trim({0});
    expect_sound(*pool);
    // PyTorch's expandable segments compare the limit only where a segment begins.
    EXPECT(policy == "expandable" || pool->figures().stats().pool.held.peak <= MiB * 128);
    EXPECT_EQ(pool->figures().stats().live_count, 0u);
  }
}

TEST(a_driver_call_that_fails_loses_nothing_that_is_shared) {
  FailingDriver& failing = test::emulator().failing();
  for (const std::string_view policy : kPolicies)
    for (const CUresult fault : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN})
      for (std::uint64_t nth = 1; nth < 300; nth += 7) {
        const test::EmulatedDevices devices("devices=1,memory=256MiB,backing=none");
        const auto pool = make_pool(devices, policy, MiB * 100);
        RandomProgram program(pool, devices[0], 1, true);
        for (int i = 0; i < 10; ++i) program.step();
        failing.fail(std::nullopt, nth, fault);
        for (int i = 0; i < 30; ++i) {
          try {
            program.step();
          } catch (const Error&) {
          }
          expect_sound(*pool);
        }
        failing.clear();
        for (int i = 0; i < 20; ++i) program.step();
        expect_sound(*pool);
        if (test::running_test_has_failed()) return;
      }
}

TEST(a_thousand_rounds_of_sharing_leave_neither_descriptors_nor_memory) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = make_pool(devices);
  const std::size_t descriptors = open_descriptors();
  const test::Holdings before;
  for (int round = 0; round < 1000; ++round) {
    Lease lease = share(*pool, MiB * 130);
    const ExportedBlock exported = lease.export_memory();
    const ImportedMemory imported = import_all(devices[0], exported);
    lease.close();
  }
  devices[0]->synchronize();
  pool->trim({0});
  EXPECT_EQ(devices[0]->free_memory().count, devices[0]->total_memory().count);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(test::Holdings{}.chunks, before.chunks);
  EXPECT_EQ(test::Holdings{}.mappings, before.mappings);
  EXPECT_EQ(test::Holdings{}.reservations, before.reservations);
}

}  // namespace
}  // namespace memlake
