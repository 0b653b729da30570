// The words of MEMLAKE_EMULATOR: what they mean, and what is said about wrong ones.

#include "devices/config.hpp"

#include <random>
#include <string>

#include "basics/refusal.hpp"
#include "test.hpp"

namespace memlake::test {

using namespace memlake::emulator;

namespace {

/// The sentence a configuration is refused with; "" if it is taken.
std::string refusal_of(const std::string& config) {
  try {
    parse_config(config);
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.code, CUDA_ERROR_INVALID_VALUE);
    return refusal.sentence;
  }
  return "";
}

void expect_refusal(const std::string& config, const std::string& sentence,
                    std::source_location where = std::source_location::current()) {
  const std::string said = refusal_of(config);
  if (said != "emulator configuration: " + sentence)
    fail("'" + config + "' is answered '" + said + "', expected '" + sentence + "'", where);
}

}  // namespace

TEST(an_empty_configuration_is_one_strict_device_of_8_gib) {
  for (const char* config : {"", " ", ",", " , ,"}) {
    const GroupConfig group = parse_config(config);
    EXPECT_EQ(group.devices, 1);
    EXPECT_EQ(group.device.memory, std::uint64_t{8} << 30);
    EXPECT_EQ(group.device.granularity, std::uint64_t{2} << 20);
    EXPECT_EQ(group.device.recommended, group.device.granularity);
    EXPECT_EQ(group.device.profile, Profile::strict);
    EXPECT_EQ(group.device.backing, Backing::host);
    EXPECT_EQ(group.device.streams, StreamMode::threads);
    EXPECT_EQ(group.device.aliasing, Aliasing::prefix);
    EXPECT_EQ(group.device.relaxed, 0U);
    EXPECT(!group.driver_version);
    EXPECT(!group.report_at_exit);
  }
}

TEST(every_key_of_the_configuration_is_read) {
  const GroupConfig group = parse_config(
      " devices = 2 ,memory=1 GiB,granularity=64KiB,recommended=2MiB,peers=01/00,profile=nvidia,"
      "relax=map_offset_nonzero,backing=none,streams=manual,aliasing=whole,driver=12040,poison=on,kernels=skip,name=A "
      "\"GPU\" = "
      "fine,report=exit,"
      "ledger=some/file.json");
  EXPECT_EQ(group.devices, 2);
  EXPECT_EQ(group.device.memory, std::uint64_t{1} << 30);
  EXPECT_EQ(group.device.granularity, std::uint64_t{64} << 10);
  EXPECT_EQ(group.device.recommended, std::uint64_t{2} << 20);
  EXPECT(group.peers[0][1] && !group.peers[1][0]);
  EXPECT_EQ(group.device.profile, Profile::nvidia);
  EXPECT(group.device.relaxes(Switch::map_offset_nonzero));
  EXPECT(group.device.relaxes(Switch::inflight_unmap));
  EXPECT_EQ(group.device.backing, Backing::none);
  EXPECT_EQ(group.device.streams, StreamMode::manual);
  EXPECT_EQ(group.device.aliasing, Aliasing::whole);
  EXPECT_EQ(group.driver_version.value_or(0), 12040);
  EXPECT(group.device.poison);
  EXPECT(group.device.kernels == Kernels::skip);
  EXPECT_EQ(group.device.name, std::string("A \"GPU\" = fine"));
  EXPECT(group.report_at_exit);
  EXPECT_EQ(group.ledger_file, std::string("some/file.json"));
}

TEST(the_nvidia_profile_never_relaxes_offsets) {
  EXPECT(!parse_config("profile=nvidia").device.relaxes(Switch::map_offset_nonzero));
}

TEST(peers_are_all_none_or_a_matrix_and_never_itself) {
  EXPECT(parse_config("devices=3").peers[0][2]);
  EXPECT(!parse_config("devices=3").peers[1][1]);
  EXPECT(!parse_config("devices=3,peers=none").peers[0][2]);
}

TEST(devices_of_a_group_may_differ_in_their_sizes) {
  const GroupConfig group = parse_config("memory=8GiB/16GiB,granularity=2MiB / 4MiB,recommended=8MiB,poison=on");
  EXPECT_EQ(group.devices, 2);
  EXPECT_EQ(group.device_at(0).memory, std::uint64_t{8} << 30);
  EXPECT_EQ(group.device_at(1).memory, std::uint64_t{16} << 30);
  EXPECT_EQ(group.device_at(0).granularity, std::uint64_t{2} << 20);
  EXPECT_EQ(group.device_at(1).granularity, std::uint64_t{4} << 20);
  EXPECT_EQ(group.device_at(1).recommended, std::uint64_t{8} << 20);
  EXPECT(group.device_at(1).poison);
  EXPECT_EQ(parse_config("memory=1GiB,devices=3").device_at(2).memory, std::uint64_t{1} << 30);
  const std::string advice = "; write one size for all, or one for each joined by '/'";
  expect_refusal("devices=3,memory=1GiB/2GiB", "memory has 2 sizes for 3 devices" + advice);
  expect_refusal("memory=1GiB/2GiB,granularity=2MiB/2MiB/2MiB", "memory has 2 sizes for 3 devices" + advice);
  expect_refusal("memory=1GiB/", "memory= is not a size such as 8GiB, 512MB or a number of bytes");
  expect_refusal("memory=1GiB/1MiB",
                 "memory=1048576 is not between the granularity 2097152 and 17592186044416 bytes (16 TiB)");
}

TEST(every_wrong_word_of_the_configuration_is_named_with_what_is_possible) {
  const std::string keys =
      "devices, memory, granularity, recommended, peers, profile, relax, backing, streams, aliasing, lacks, fabric, "
      "pool_segment, driver, poison, kernels, name, explain, report, ledger";
  expect_refusal("colour=red", "unknown key 'colour'; the keys are " + keys);
  expect_refusal("=1", "unknown key ''; the keys are " + keys);
  expect_refusal("devices", "'devices' has no value; write key=value, with keys " + keys);
  expect_refusal("aliasing=some", "aliasing=some is not possible; choose none, whole or prefix");
  expect_refusal("fabric=some", "fabric=some is not possible; choose none, create or works");
  expect_refusal("lacks=rdma+wings",
                 "lacks=wings is not a capability; the capabilities are vmm, rdma, rdma_grant, rdma_access, export, "
                 "spanning_copies, shared_bytes");
  expect_refusal("devices=", "devices= is not a number of devices");
  expect_refusal("devices=two", "devices=two is not a number of devices");
  expect_refusal("devices=-1", "devices=-1 is not a number of devices");
  expect_refusal("devices=0", "devices=0 is not between 1 and 64");
  expect_refusal("devices=65", "devices=65 is not between 1 and 64");
  const std::string size = " is not a size such as 8GiB, 512MB or a number of bytes";
  for (const std::string value : {"", "GiB", "1.5GiB", "-1", "8gib", "0x10", "18446744073709551616", "1 2"})
    expect_refusal("memory=" + value, "memory=" + value + size);
  expect_refusal("memory=99999999TiB", "memory=99999999TiB is too large");
  expect_refusal("memory=1MiB",
                 "memory=1048576 is not between the granularity 2097152 and 17592186044416 bytes (16 TiB)");
  expect_refusal("memory=17TiB",
                 "memory=18691697672192 is not between the granularity 2097152 and 17592186044416 bytes (16 TiB)");
  expect_refusal("granularity=3MiB", "granularity=3145728 is not a power of two of at least 4096");
  expect_refusal("granularity=2KiB", "granularity=2048 is not a power of two of at least 4096");
  expect_refusal("granularity=0", "granularity=0 is not a power of two of at least 4096");
  expect_refusal("recommended=1MiB", "recommended=1048576 is not a power of two of at least the granularity 2097152");
  expect_refusal("recommended=2GiB", "a granularity of 2147483648 bytes is more than 1073741824 (1 GiB)");
  expect_refusal("granularity=9223372036854775808",
                 "a granularity of 9223372036854775808 bytes is more than 1073741824 (1 GiB)");
  const std::string rows =
      " is neither all, none nor 2 rows of 2 digits 0 or 1 joined by '/', as 01/10 for two devices";
  for (const std::string value : {"", "some", "012/100", "0/1", "02/20"})
    expect_refusal("devices=2,peers=" + value, "peers=" + value + rows);
  expect_refusal("devices=2,peers=01/10/00", "peers=01/10/00 has 3 rows for 2 devices");
  expect_refusal("profile=amd", "profile=amd is not possible; choose strict or nvidia");
  expect_refusal("backing=disk", "backing=disk is not possible; choose host or none");
  expect_refusal("streams=fibres", "streams=fibres is not possible; choose threads or manual");
  expect_refusal("poison=yes", "poison=yes is not possible; choose on or off");
  expect_refusal("kernels=run", "kernels=run is not possible; choose refuse or skip");
  expect_refusal("report=always", "report=always is not possible; choose exit or off");
  expect_refusal("driver=13.0", "driver=13.0 is not a driver version such as 13000");
  expect_refusal("driver=10020", "driver=10020 is not a version from 11020 on (1000 * major + 10 * minor)");
  expect_refusal("relax=everything",
                 "relax=everything is not a switch; the switches are map_across_reservations, "
                 "unmap_across_reservations, set_access_subrange, address_free_while_mapped, map_offset_nonzero, "
                 "inflight_unmap, alloc_async_zero");
  expect_refusal("pool_segment=3MiB", "pool_segment=3145728 is not a multiple of 2097152 bytes (2 MiB)");
  expect_refusal("pool_segment=0", "pool_segment=0 is not a multiple of 2097152 bytes (2 MiB)");
}

TEST(nonsense_is_refused_or_read_but_never_breaks_the_parser) {
  const std::string pieces[] = {
      "devices", "memory", "peers", "relax", "granularity", "recommended", "driver", "name",   "=", ",",
      "/",       "+",      "1",     "64",    "GiB",         "KiB",         "all",    "nvidia", " ", "\t",
      "\xff",    "-",      "0",     "9",     "none",        "=,",          "01/10",  "TB",     "B", "inflight_unmap"};
  std::mt19937 random(20);
  for (int i = 0; i < 20000; ++i) {
    std::string config;
    for (auto length = random() % 12; length > 0; --length) config += pieces[random() % std::size(pieces)];
    const std::string said = refusal_of(config);
    EXPECT(said.empty() || said.starts_with("emulator configuration: "));
    if (!said.empty()) continue;
    const GroupConfig group = parse_config(config);
    EXPECT(group.devices >= 1 && group.devices <= 64);
    EXPECT_EQ(group.peers.size(), static_cast<std::size_t>(group.devices));
    EXPECT(group.device.memory >= group.device.granularity && group.device.recommended >= group.device.granularity);
  }
}

}  // namespace memlake::test
