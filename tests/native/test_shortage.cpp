// Why there is no memory: for every sentence an input that it is true for, and the input that would make it a lie.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes_text.hpp"
#include "emulated.hpp"
#include "lakes.hpp"
#include "policies/registry/registry.hpp"
#include "runtime/live_pool.hpp"
#include "test.hpp"
#include "vmm/physical_chunk.hpp"

namespace memlake {
namespace {

using test::kUnlimited;
using test::OwnStream;
using test::take;

const char* const kDevice = "devices=1,memory=256MiB,backing=none";

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
bool hints(const Shortage& shortage, const std::string& part) {
  if (says(hint_of(shortage), part)) return true;
  test::fail("the hint is: " + hint_of(shortage), std::source_location::current());
  return false;
}

constexpr const char* kPolicies[] = {"lake", "lake,aliasing:none", "caching", "stitch", "expandable", "direct"};

SpaceMaker space_maker(std::string_view policy) { return choose_policy(policy).space_maker(); }

/// 30 MiB of 100 MiB live, with nothing in the way.
Shortage plain(Bytes asked) {
  Shortage shortage;
  shortage.request.requested = shortage.rounded = asked;
  shortage.held = shortage.live = MiB * 30;
  shortage.device_total = MiB * 100;
  shortage.device_free = MiB * 70;
  shortage.outlook.room = shortage.outlook.in_one_range = MiB * 70;
  shortage.outlook.advice = "advice";
  shortage.policy = "some";
  return shortage;
}

Shortage refused(LivePool& pool, Bytes size, const StreamName& stream = {},
                 std::optional<bool> is_shareable = std::nullopt) {
  Shortage shortage;
  if (pool.allocate(size, stream, shortage, is_shareable))
    test::fail("a request was served that should be refused", std::source_location::current());
  return shortage;
}

TEST(a_size_is_written_as_python_writes_it) {
  EXPECT_EQ(to_text(Bytes{0}), "0 B");
  EXPECT_EQ(to_text(Bytes{1023}), "1023 B");
  EXPECT_EQ(to_text(Bytes{1536}), "1.5 KiB");
  EXPECT_EQ(to_text(MiB * 640), "640 MiB");
  EXPECT_EQ(to_text(GiB * 10 + MiB * 5), "10 GiB");
  EXPECT_EQ(to_text(Bytes{UINT64_MAX}), "16384 PiB");
}

TEST(every_reason_has_its_words) {
  EXPECT_EQ(std::string(word_of(Reason::pages)), "pages");
  EXPECT_EQ(std::string(replay_word_of(Reason::pages)), "no contiguous range");
  EXPECT_EQ(std::string(replay_word_of(Reason::contiguous)), "no contiguous range");
  EXPECT_EQ(std::string(replay_word_of(Reason::physical)), "no physical memory");
  EXPECT_EQ(std::string(replay_word_of(Reason::pending)), "pending on a stream");
  EXPECT_EQ(std::string(replay_word_of(Reason::addresses)), "no addresses");
  EXPECT_EQ(std::string(replay_word_of(Reason::limit)), "limit");
}

TEST(addresses_are_a_matter_of_streams_only_where_there_are_several) {
  Shortage shortage = plain(MiB * 10);
  shortage.has_no_addresses = true;
  shortage.streams_with_memory = 1;
  EXPECT(reason_of(shortage) == Reason::addresses);
  EXPECT(hints(shortage, "close buffers and call trim()"));
  EXPECT(!says(hint_of(shortage), "fewer streams"));
  shortage.streams_with_memory = 2;
  EXPECT(hints(shortage, "fewer streams"));
}

TEST(the_limit_that_binds_is_named) {
  Shortage shortage = plain(MiB * 40);
  shortage.limits.limit = MiB * 50;
  EXPECT(reason_of(shortage) == Reason::limit);
  EXPECT(binding_of(shortage) == Binding::limit);
  EXPECT_EQ(hint_of(shortage), "free at least 20 MiB first, or raise the pool's limit to at least 70 MiB");
  shortage.limits.limit = MiB * 90;
  shortage.limits.max_size = MiB * 50;
  EXPECT(binding_of(shortage) == Binding::max_size);
  EXPECT_EQ(hint_of(shortage),
            "free at least 20 MiB first, or make a pool whose max_size is at least 70 MiB, because max_size cannot be "
            "changed");
  shortage.limits.limit = MiB * 60;  // both are too small
  EXPECT(hints(shortage, "raise the pool's limit to at least 70 MiB and make a pool whose max_size"));
  shortage.limits = {};
  shortage.limits.memory_fraction = MiB * 60;
  EXPECT(binding_of(shortage) == Binding::memory_fraction);
  EXPECT(hints(shortage, "memory fraction of at least 0.7"));
}

TEST(a_limit_is_not_the_reason_where_the_device_is_too_small_anyway) {
  Shortage shortage = plain(MiB * 90);
  shortage.limits.limit = MiB * 50;
  EXPECT(reason_of(shortage) == Reason::physical);
  EXPECT(hints(shortage, "30 MiB of the pool are live and 0 B pending, and the device has only 70 MiB left"));
  EXPECT(hints(shortage, "may not hold so much either: raise the pool's limit to at least 120 MiB"));
}

TEST(memory_that_streams_use_is_waited_for_only_if_that_is_enough) {
  Shortage shortage = plain(MiB * 60);
  shortage.live = MiB * 10;
  shortage.pending = MiB * 40;
  shortage.held = MiB * 50;
  shortage.device_free = MiB * 50;
  EXPECT(reason_of(shortage) == Reason::pending);
  EXPECT(hints(shortage, "40 MiB are freed, but streams still use them"));
  shortage.rounded = MiB * 91;
  EXPECT(reason_of(shortage) == Reason::physical);
  shortage.rounded = MiB * 10;
  shortage.outlook.is_there_now = true;
  EXPECT(reason_of(shortage) == Reason::pending);
  EXPECT(hints(shortage, "ask again"));
}

TEST(pages_are_the_reason_only_where_the_bytes_are_there) {
  Shortage shortage = plain(MiB * 65);
  shortage.policy = "expandable";
  shortage.outlook.page = MiB * 20;
  shortage.outlook.in_one_range = MiB * 60;
  EXPECT(reason_of(shortage) == Reason::pages);
  EXPECT(hints(shortage, "multiples of 20 MiB, so this request needs 80 MiB more, and only 70 MiB may be taken"));
  EXPECT(hints(shortage, "use the policy lake, which takes multiples of 2 MiB"));
  shortage.rounded = MiB * 69 + KiB;  // in pieces of 2 MiB it would be too much as well
  shortage.outlook.room = MiB * 70 - KiB * 512;
  EXPECT(hints(shortage, "ask for less"));
  EXPECT(!says(hint_of(shortage), "lake"));
  shortage.outlook.room = MiB * 40;  // the rest is free memory that lies elsewhere
  EXPECT(reason_of(shortage) == Reason::contiguous);
  EXPECT_EQ(hint_of(shortage), "advice");
}

TEST(a_request_beyond_the_device_is_told_its_size) {
  EXPECT(hints(plain(MiB * 101), "the device has only 100 MiB in all"));
  EXPECT(!says(hint_of(plain(MiB * 100)), "in all"));  // live buffers are in the way, not the size of the device
  EXPECT(binding_of(plain(MiB * 100)) == Binding::device);
}

TEST(others_are_named_if_they_have_what_is_missing) {
  Shortage shortage = plain(MiB * 40);
  shortage.device_free = MiB * 10;  // 60 MiB are with others
  EXPECT(binding_of(shortage) == Binding::elsewhere);
  EXPECT(hints(shortage, "other processes, or this one without a pool, hold 60 MiB of the device"));
  EXPECT(!says(hint_of(shortage), "other pools"));
  shortage.held_by_other_pools = MiB * 60;
  EXPECT(binding_of(shortage) == Binding::other_pools);
  EXPECT(hints(shortage, "other pools of this process hold 60 MiB of the device: trim() gives back what is free"));
  EXPECT(hints(shortage, "closing buffers there frees the rest"));
  EXPECT(!says(hint_of(shortage), "other processes"));
  shortage.held_by_other_pools = MiB * 20;  // neither is enough alone
  EXPECT(hints(shortage, "other pools of this process hold 20 MiB"));
  EXPECT(hints(shortage, "other processes, or this one without a pool, hold 40 MiB"));
  shortage.rounded = MiB * 80;  // all of them together have too little
  EXPECT(binding_of(shortage) == Binding::device);
  EXPECT(hints(shortage, "30 MiB of the pool are live and 0 B pending, and the device has only 10 MiB left"));
}

TEST(a_limit_that_forbids_it_too_is_not_kept_back) {
  Shortage shortage = plain(MiB * 40);
  shortage.device_free = MiB * 10;
  shortage.limits.limit = MiB * 35;
  EXPECT(reason_of(shortage) == Reason::physical);
  EXPECT(hints(shortage, "may not hold so much either: raise the pool's limit to at least 70 MiB"));
}

TEST(a_driver_that_has_memory_and_gives_none_is_named) {
  Shortage shortage = plain(MiB * 40);
  shortage.tried = {{Tried::What::new_segment, true}};
  EXPECT(reason_of(shortage) == Reason::physical);
  EXPECT(hints(shortage, "the driver refused new memory although it says that 70 MiB are free"));
  shortage.tried.clear();
  EXPECT(!says(hint_of(shortage), "refused"));
}

TEST(the_host_has_sentences_of_its_own) {
  Shortage shortage = plain(MiB * 90);
  shortage.location = Location::host;
  EXPECT(hints(shortage, "the host has no more memory"));
  EXPECT(says(to_text(shortage), "The host has"));
  shortage.location = Location::device;
  shortage.tried = {{Tried::What::spill, true}};
  EXPECT(hints(shortage, "neither the devices nor the host"));
  shortage.rounded = MiB * 40;
  shortage.limits.limit = MiB * 50;  // the device has it, the host does not
  EXPECT(reason_of(shortage) == Reason::limit);
  EXPECT(hints(shortage, "raise the pool's limit"));
  EXPECT(hints(shortage, "the host has no memory for it either"));
}

TEST(the_text_ends_with_its_hint_however_long_the_lists_are) {
  Shortage shortage = plain(MiB * 90);
  for (StreamId stream = 0; stream < 1000; ++stream) shortage.pending_on.push_back({stream, MiB, nullptr});
  for (int i = 0; i < 1000; ++i)
    shortage.tried.push_back({i % 2 == 0 ? Tried::What::map : Tried::What::release, i % 3 == 0});
  const std::string text = to_text(shortage);
  EXPECT(text.size() < 2000);
  EXPECT(says(text, "and 996 more streams."));
  EXPECT(text.ends_with("Hint: " + hint_of(shortage) + "."));
}

TEST(max_size_binds_and_not_the_limit) {
  const test::EmulatedDevices devices(kDevice);
  Limits limits;
  limits.max_size = MiB * 100;
  limits.limit = MiB * 200;
  const auto pool = LivePool::make({devices[0]}, space_maker("lake"), limits);
  const Shortage shortage = refused(*pool, MiB * 101);
  EXPECT(reason_of(shortage) == Reason::limit);
  EXPECT(binding_of(shortage) == Binding::max_size);
  EXPECT(!says(hint_of(shortage), "limit"));
  pool->settings().set_limit(MiB * 50);
  EXPECT(binding_of(refused(*pool, MiB * 60)) == Binding::limit);
  EXPECT(!says(hint_of(refused(*pool, MiB * 60)), "max_size"));
}

TEST(an_idle_pool_of_this_process_is_named_and_trimming_it_helps) {
  for (const char* policy : kPolicies) {
    const test::EmulatedDevices devices(kDevice);
    const auto idle = LivePool::make({devices[0]}, space_maker("lake"), kUnlimited);
    take(*idle, MiB * 200).close();
    const auto pool = LivePool::make({devices[0]}, space_maker(policy), kUnlimited);
    const Shortage shortage = refused(*pool, MiB * 100);
    EXPECT(reason_of(shortage) == Reason::physical);
    EXPECT(binding_of(shortage) == Binding::other_pools);
    EXPECT_EQ(shortage.held_by_other_pools.count, (MiB * 200).count);
    EXPECT(hints(shortage, "other pools of this process hold 200 MiB"));
    EXPECT(shortage.outlook.in_one_range < MiB * 100);
    idle->trim({0});
    take(*pool, MiB * 100).close();
  }
}

TEST(pools_on_other_devices_and_closed_pools_are_no_neighbours) {
  const test::EmulatedDevices devices("devices=2,memory=256MiB,backing=none");
  const auto elsewhere = LivePool::make({devices[1]}, space_maker("lake"), kUnlimited);
  const Lease kept = take(*elsewhere, MiB * 200);
  const auto pool = LivePool::make({devices[0]}, space_maker("lake"), kUnlimited);
  {
    const auto closed = LivePool::make({devices[0]}, space_maker("lake"), kUnlimited);
    take(*closed, MiB * 200).close();
    closed->close();
    const Shortage shortage = refused(*pool, MiB * 300);
    EXPECT_EQ(shortage.held_by_other_pools.count, 0u);
    EXPECT_EQ(shortage.held_elsewhere().count, 0u);
  }
  EXPECT(hints(refused(*pool, MiB * 300), "has only 256 MiB in all"));
}

TEST(another_pool_is_blamed_only_for_what_it_holds_on_the_same_device) {
  const test::EmulatedDevices devices("devices=2,memory=256MiB,backing=none");
  const auto both = LivePool::make({devices[1], devices[0]}, space_maker("lake"), kUnlimited);
  const Lease there = take(*both, MiB * 240);  // all of it on the other device
  const PhysicalChunk chunk = PhysicalChunk::create(devices[0], MiB * 200, false);
  const auto pool = LivePool::make({devices[0]}, space_maker("lake"), kUnlimited);
  const Lease kept = take(*pool, MiB * 20);
  const Shortage shortage = refused(*pool, MiB * 100);
  EXPECT_EQ(shortage.held_by_other_pools.count, 0u);
  EXPECT_EQ(shortage.held_elsewhere().count, (MiB * 200).count);
  EXPECT(binding_of(shortage) == Binding::elsewhere);
  EXPECT(!says(to_text(shortage), "ther pools"));
  const Lease here = take(*both, MiB * 32);  // 16 MiB are left there
  EXPECT_EQ(refused(*pool, MiB * 100).held_by_other_pools.count, (MiB * 16).count);
}

TEST(neighbours_may_come_and_go_while_others_are_refused) {
  const test::EmulatedDevices devices(kDevice);
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      while (!is_over) {
        const auto pool = LivePool::make({devices[0]}, space_maker("lake"), kUnlimited);
        Shortage shortage;
        if (auto lease = pool->allocate(MiB * 20, {}, shortage)) lease->close();
      }
    });
  const auto pool = LivePool::make({devices[0]}, space_maker("lake"), kUnlimited);
  for (int i = 0; i < 300; ++i) {
    const Shortage shortage = refused(*pool, MiB * 250 + MiB * 10);
    EXPECT(shortage.held_by_other_pools <= MiB * 256);
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(what_could_be_had_in_one_range_is_less_than_what_was_refused) {
  for (const char* policy : kPolicies)
    for (const Bytes size : {KiB * 600, MiB, MiB * 3, MiB * 11})
      for (const Bytes limit : {kUnlimited, MiB * 101}) {
        const test::EmulatedDevices devices(kDevice);
        const auto pool = LivePool::make({devices[0]}, space_maker(policy), limit);
        const auto kept = test::scatter(*pool, size);
        Bytes most{0};
        for (Bytes asked = MiB; asked <= MiB * 260; asked = asked + MiB * 7) {
          Shortage shortage;
          if (auto lease = pool->allocate(asked, {}, shortage)) {
            most = asked;
            lease->close();
            continue;
          }
          EXPECT(shortage.outlook.in_one_range < shortage.rounded);
          EXPECT(reason_of(shortage) != Reason::pending);
          EXPECT(!hint_of(shortage).empty());
          EXPECT(!says(hint_of(shortage), "refused"));
        }
      }
}

/// Two small blocks in each piece of 2 MiB, every other one free.
TEST(pieces_that_no_policy_can_move_are_not_an_advertisement) {
  for (const char* policy : kPolicies) {
    const test::EmulatedDevices devices(kDevice);
    const auto pool = LivePool::make({devices[0]}, space_maker(policy), kUnlimited);
    const auto kept = test::scatter(*pool, MiB);
    Shortage shortage;
    if (pool->allocate(MiB * 40, {}, shortage)) continue;  // direct has given every other block back
    EXPECT(reason_of(shortage) == Reason::contiguous);
    EXPECT(!says(hint_of(shortage), "policy lake"));
    EXPECT(hints(shortage, "close"));
  }
}

TEST(pieces_that_lake_can_move_are_served_by_it) {
  for (const std::string_view policy : {"caching", "expandable", "lake"}) {
    const test::EmulatedDevices devices(kDevice);
    const auto pool = LivePool::make({devices[0]}, space_maker(policy), kUnlimited);
    const auto kept = test::scatter(*pool, MiB * 4);
    Shortage shortage;
    const bool is_served = pool->allocate(MiB * 40, {}, shortage).has_value();
    EXPECT(is_served == (policy == "lake"));
    if (is_served) continue;
    EXPECT(reason_of(shortage) == Reason::contiguous);
    EXPECT(hints(shortage, "the policy lake moves such pieces together, so it may serve this request"));
  }
}

TEST(a_piece_of_another_stream_is_called_so_and_lake_shares_it) {
  for (const std::string_view policy : {"caching", "lake"}) {
    const test::EmulatedDevices devices(kDevice);
    const auto pool = LivePool::make({devices[0]}, space_maker(policy), kUnlimited);
    const OwnStream stream(devices[0]);
    take(*pool, MiB * 250, stream.name()).close();
    const Lease kept = take(*pool, MiB * 20, stream.name());  // keeps the segment
    Shortage shortage;
    const bool is_served = pool->allocate(MiB * 100, {}, shortage).has_value();
    EXPECT(is_served == (policy == "lake"));
    if (!is_served) EXPECT(hints(shortage, "kept for another stream, and the policy caching does not share it"));
  }
}

TEST(a_whole_segment_that_the_device_lacks_is_a_matter_of_pages) {
  const test::EmulatedDevices devices(kDevice);
  const PhysicalChunk chunk = PhysicalChunk::create(devices[0], MiB * 242, false);
  const auto pool = LivePool::make({devices[0]}, space_maker("caching"), kUnlimited);
  const Shortage shortage = refused(*pool, MiB * 9);  // gets a segment of 20 MiB
  EXPECT(reason_of(shortage) == Reason::pages);
  EXPECT(hints(shortage, "the policy caching takes new memory in multiples of 20 MiB"));
  EXPECT(hints(shortage, "use the policy lake"));
  const auto lake = LivePool::make({devices[0]}, space_maker("lake"), kUnlimited);
  take(*lake, MiB * 9).close();
}

TEST(caps_on_stitched_views_are_never_the_reason) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = LivePool::make({devices[0]}, space_maker("stitch,max_views:0"), kUnlimited);
  const auto kept = test::scatter(*pool, MiB * 12);
  take(*pool, MiB * 60).close();  // of memory that was given back and made anew
  EXPECT(reason_of(refused(*pool, MiB * 200)) == Reason::physical);
}

TEST(a_driver_that_refuses_is_told_apart_from_one_that_is_full) {
  for (const char* policy : kPolicies) {
    const test::EmulatedDevices devices(kDevice);
    const auto pool = LivePool::make({devices[0]}, space_maker(policy), kUnlimited);
    FailingDriver& failing = test::emulator().failing();
    for (const Call call : {Call::cuMemCreate, Call::cuMemAlloc})
      for (std::uint64_t nth = 1; nth <= 40; ++nth) failing.fail(call, nth, CUDA_ERROR_OUT_OF_MEMORY);
    Shortage shortage;
    const bool is_served = pool->allocate(MiB * 40, {}, shortage).has_value();
    failing.clear();
    if (is_served) continue;
    EXPECT(reason_of(shortage) == Reason::physical);
    EXPECT(hints(shortage, "the driver refused new memory although it says that 256 MiB are free"));
  }
}

TEST(a_shareable_request_is_refused_with_its_own_numbers) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = LivePool::make({devices[0]}, space_maker("caching"), kUnlimited);
  const Lease kept = take(*pool, MiB * 200);
  const Shortage shortage = refused(*pool, MiB * 100, {}, true);
  EXPECT(reason_of(shortage) == Reason::physical);
  EXPECT(shortage.outlook.in_one_range == MiB * 56);
  EXPECT_EQ(std::string(shortage.policy), "caching");
}

}  // namespace
}  // namespace memlake
