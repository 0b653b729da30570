// A refusal that a limit caused: the hint names the limit and a value that is enough, and no remedy that cannot help.

#include <string>
#include <vector>

#include "base/bytes_text.hpp"
#include "emulated.hpp"
#include "lakes.hpp"
#include "policies/registry/registry.hpp"
#include "runtime/live_pool.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::kUnlimited;
using test::take;

const char* const kDevice = "devices=1,memory=1GiB,backing=none";

constexpr const char* kPolicies[] = {"lake",  "lake,aliasing:none", "caching", "stitch", "expandable", "direct",
                                     "driver"};

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
bool hints(const Shortage& shortage, const std::string& part) {
  if (says(hint_of(shortage), part)) return true;
  test::fail("the hint is: " + hint_of(shortage), std::source_location::current());
  return false;
}

SpaceMaker space_maker(std::string_view policy) { return choose_policy(policy).space_maker(); }

Shortage refused(LivePool& pool, Bytes size) {
  Shortage shortage;
  if (pool.allocate(size, {}, shortage))
    test::fail("a request was served that should be refused", std::source_location::current());
  return shortage;
}

/// The size that a hint says a limit must have, in bytes.
Bytes named_limit(const std::string& hint) {
  const std::string before = "raise the pool's limit to at least ";
  const std::size_t at = hint.find(before);
  if (at == std::string::npos) return {0};
  std::size_t end = 0;
  const std::string rest = hint.substr(at + before.size());
  const double number = std::stod(rest, &end);
  const Bytes unit = says(rest.substr(end, 4), "GiB")   ? GiB
                     : says(rest.substr(end, 4), "MiB") ? MiB
                     : says(rest.substr(end, 4), "KiB") ? KiB
                                                        : Bytes{1};
  return {static_cast<std::uint64_t>(number * static_cast<double>(unit.count))};
}

TEST(the_limit_that_a_hint_names_is_enough_and_the_least_one) {
  struct Case {
    Bytes limit, live, asked;
  };
  const Case cases[] = {
      {MiB, {0}, {1000}},
      {{0}, {0}, {1}},
      {{0}, {0}, MiB * 30},
      {MiB * 30, MiB * 20, MiB * 10 + KiB * 512},
      {MiB * 31, {0}, MiB * 30 + KiB * 512},
      {MiB * 30, MiB * 19, MiB * 10 + KiB * 512},
      {MiB * 15, {0}, MiB * 9},
      {MiB * 25 + KiB * 512, MiB * 3, MiB * 23},
      {MiB * 300, {0}, MiB * 400},
      {MiB * 300, MiB * 200, MiB * 101 + Bytes{1}},
      {MiB * 100 + Bytes{7}, MiB * 60, MiB * 40 + Bytes{5}},
  };
  for (const char* policy : kPolicies)
    for (const Case& with : cases) {
      const test::EmulatedDevices devices(kDevice);
      const auto pool = LivePool::make({devices[0]}, space_maker(policy), with.limit);
      Shortage shortage;
      auto live = pool->allocate(with.live, {}, shortage);
      if (!live || pool->allocate(with.asked, {}, shortage)) continue;
      const std::string hint = hint_of(shortage);
      EXPECT(reason_of(shortage) == Reason::limit);
      EXPECT(binding_of(shortage) == Binding::limit);
      const Bytes named = named_limit(hint);
      EXPECT(named >= shortage.least_limit());
      pool->settings().set_limit(shortage.least_limit() - Bytes{1});
      EXPECT(!pool->allocate(with.asked, {}, shortage));
      pool->settings().set_limit(named);
      if (!pool->allocate(with.asked, {}, shortage))
        test::fail(std::string(policy) + " is refused although this was done: " + hint,
                   std::source_location::current());
    }
}

TEST(the_limit_that_a_hint_names_is_enough_in_a_pool_with_holes_too) {
  for (const char* policy : kPolicies)
    for (const Bytes size : {KiB * 600, MiB, MiB * 3, MiB * 11}) {
      const test::EmulatedDevices devices(kDevice);
      const auto pool = LivePool::make({devices[0]}, space_maker(policy), MiB * 101);
      const auto kept = test::scatter(*pool, size);
      for (Bytes asked = KiB * 700; asked <= MiB * 260; asked = asked + MiB * 7) {
        pool->settings().set_limit(MiB * 101);
        pool->trim({0});
        Shortage shortage;
        if (pool->allocate(asked, {}, shortage)) continue;
        const std::string hint = hint_of(shortage);
        const Bytes named = named_limit(hint);
        EXPECT(reason_of(shortage) == Reason::limit || reason_of(shortage) == Reason::contiguous);
        EXPECT(!says(hint, "refused"));
        pool->settings().set_limit(named);
        if (!pool->allocate(asked, {}, shortage))
          test::fail(std::string(policy) + " is refused although this was done: " + hint,
                     std::source_location::current());
      }
    }
}

TEST(pages_that_a_limit_forbids_are_a_matter_of_the_limit) {
  const test::EmulatedDevices devices(kDevice);
  const auto caching = LivePool::make({devices[0]}, space_maker("caching"), MiB * 15);
  const Shortage shortage = refused(*caching, MiB * 9);  // gets a segment of 20 MiB
  EXPECT(hints(shortage, "the policy caching needs 20 MiB more for this request, and the pool may take only 15 MiB"));
  EXPECT(hints(shortage, "raise the pool's limit to at least 20 MiB"));
  EXPECT(hints(shortage, "use the policy lake"));
  const auto lake = LivePool::make({devices[0]}, space_maker("lake"), MiB * 15);
  take(*lake, MiB * 9).close();
  const auto expandable = LivePool::make({devices[0]}, space_maker("expandable"), MiB * 30);
  const Lease kept = take(*expandable, MiB * 19);
  const Shortage tight = refused(*expandable, MiB * 10 + KiB * 512);
  EXPECT(hints(tight, "raise the pool's limit to at least 32 MiB"));
  EXPECT(!says(hint_of(tight), "no policy can move"));
}

TEST(nothing_is_to_be_freed_where_that_cannot_help) {
  const test::EmulatedDevices devices(kDevice);
  for (const char* policy : kPolicies) {
    const auto pool = LivePool::make({devices[0]}, space_maker(policy), MiB * 300);
    EXPECT_EQ(hint_of(refused(*pool, MiB * 400)), "ask for less, or raise the pool's limit to at least 400 MiB");
    {
      const Lease kept = take(*pool, MiB * 20);
      EXPECT(hints(refused(*pool, MiB * 400), "ask for less, or raise"));  // freeing it would not be enough
      EXPECT(hints(refused(*pool, MiB * 290), "free at least 10 MiB first, or raise"));
    }
    pool->settings().set_limit({0});
    pool->trim({0});
    EXPECT_EQ(hint_of(refused(*pool, MiB * 400)), "raise the pool's limit to at least 400 MiB");
  }
  const auto lake = LivePool::make({devices[0]}, space_maker("lake"), MiB);  // less than any request takes
  EXPECT(!says(hint_of(refused(*lake, KiB)), "ask for less"));
}

TEST(a_memory_fraction_is_a_number_and_no_size) {
  Shortage shortage;
  shortage.held = shortage.live = MiB * 30;
  shortage.device_total = MiB * 100;
  shortage.device_free = MiB * 70;
  shortage.limits.memory_fraction = MiB * 60;
  for (const auto& [asked, fraction] : {std::pair{MiB * 40, "0.7"},
                                        {MiB * 40 + Bytes{1}, "0.71"},
                                        {MiB * 69, "0.99"},
                                        {MiB * 69 + Bytes{1}, "1"},
                                        {MiB * 70, "1"}}) {
    shortage.request.requested = shortage.rounded = asked;
    EXPECT(hints(shortage, std::string("make a pool with a memory fraction of at least ") + fraction + " ("));
  }
  shortage.held = shortage.live = {0};
  shortage.device_free = MiB * 100;
  shortage.limits.memory_fraction = MiB;
  shortage.rounded = MiB * 7;
  EXPECT(hints(shortage, "at least 0.07 ("));
  EXPECT(!says(hint_of(shortage), "raise"));
}

TEST(free_memory_in_the_wrong_place_is_not_hidden_by_a_limit) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = LivePool::make({devices[0]}, space_maker("caching"), MiB * 240);
  const auto kept = test::scatter(*pool, MiB * 4);
  const Shortage shortage = refused(*pool, MiB * 40);
  EXPECT(shortage.free >= MiB * 40);
  EXPECT(reason_of(shortage) == Reason::contiguous);
  EXPECT(hints(shortage, "new memory would serve it, too: raise the pool's limit"));
  pool->settings().set_limit(named_limit(hint_of(shortage)));
  take(*pool, MiB * 40).close();
}

TEST(a_higher_limit_is_no_promise_where_the_device_lacks_the_memory) {
  const test::EmulatedDevices devices("devices=1,memory=256MiB,backing=none");
  const auto pool = LivePool::make({devices[0]}, space_maker("caching"), MiB * 200);
  std::vector<Lease> kept;
  std::vector<Lease> freed;
  for (int i = 0; i < 40; ++i) (i % 4 == 0 ? freed : kept).push_back(take(*pool, MiB * 5));  // segments of 20 MiB
  freed.clear();
  const Shortage shortage = refused(*pool, MiB * 60);
  EXPECT(reason_of(shortage) == Reason::limit);
  EXPECT(hints(shortage,
               "free at least 10 MiB first, or raise the pool's limit to at least 260 MiB, which is enough "
               "only if 60 MiB are free on the device, and 56 MiB are"));
  Shortage pieces = shortage;
  pieces.rounded = MiB * 50;  // now the free memory is enough, but lies apart
  EXPECT(reason_of(pieces) == Reason::contiguous);
  EXPECT_EQ(hint_of(pieces), pieces.outlook.advice);
}

TEST(pieces_of_cudas_pool_are_no_refusal_of_the_driver) {
  const test::EmulatedDevices devices(kDevice);
  const auto pool = LivePool::make({devices[0]}, space_maker("driver"), kUnlimited);
  const auto kept = test::scatter(*pool, KiB * 512);
  const Shortage shortage = refused(*pool, MiB * 200);
  EXPECT(shortage.free > MiB * 400);
  EXPECT(reason_of(shortage) == Reason::contiguous);
  EXPECT(hints(shortage, "not in one piece that CUDA's pool can give"));
  EXPECT(shortage.outlook.in_one_range < MiB * 200);
  EXPECT(!says(to_text(shortage), "largest free block"));  // only the driver knows it
  EXPECT(!says(to_text(shortage), "says that"));
}

TEST(a_driver_is_quoted_only_if_it_has_enough_for_the_whole_request) {
  Shortage shortage;
  shortage.request.requested = shortage.rounded = MiB * 40;
  shortage.held = shortage.free = MiB * 30;
  shortage.device_total = MiB * 100;
  shortage.device_free = MiB * 20;
  shortage.outlook.room = MiB * 20;
  shortage.outlook.in_one_range = MiB * 50;
  shortage.tried = {{Tried::What::map, true}};
  EXPECT(reason_of(shortage) == Reason::physical);
  EXPECT(hints(shortage, "the driver refused new memory: "));
  shortage.device_free = MiB * 40;
  EXPECT(hints(shortage, "although it says that 40 MiB are free"));
}

TEST(a_lake_could_not_have_given_what_the_device_does_not_have) {
  const test::EmulatedDevices devices(kDevice);
  const auto other = LivePool::make({devices[0]}, space_maker("lake"), kUnlimited);
  const Lease kept = take(*other, MiB * 900);
  const auto pool = LivePool::make({devices[0]}, space_maker("lake"), MiB * 500);
  const Shortage shortage = refused(*pool, MiB * 600);
  EXPECT_EQ(shortage.outlook.in_one_range.count, (MiB * 124).count);
  take(*pool, MiB * 124).close();
}

TEST(a_host_that_is_too_small_is_not_told_to_be_full) {
  Shortage shortage;
  shortage.location = Location::host;
  shortage.device_total = MiB * 100;
  shortage.device_free = MiB * 90;
  shortage.request.requested = shortage.rounded = MiB * 101;
  EXPECT(hints(shortage, "the host has only 100 MiB in all; ask for less"));
  EXPECT(!says(hint_of(shortage), "device"));
  shortage.limits.limit = MiB * 50;
  EXPECT(hints(shortage, "raise the pool's limit to at least 101 MiB"));
  shortage.rounded = MiB * 95;
  EXPECT(hints(shortage, "the host has no more memory to give"));
  EXPECT(hints(shortage, "raise the pool's limit to at least 95 MiB"));
}

TEST(several_devices_are_spoken_of_as_several) {
  const test::EmulatedDevices devices("devices=2,memory=256MiB,backing=none");
  const auto pool = LivePool::make({devices[0], devices[1]}, space_maker("lake"), kUnlimited);
  const Shortage shortage = refused(*pool, MiB * 600);
  EXPECT(hints(shortage, "the devices have only 512 MiB in all"));
  EXPECT(says(to_text(shortage), "The devices have 512 MiB of 512 MiB left."));
  const Lease kept = take(*pool, MiB * 100);
  EXPECT(
      hints(refused(*pool, MiB * 500), "100 MiB of the pool are live and 0 B pending, and the devices have only 412"));
}

}  // namespace
}  // namespace memlake
