// Every sentence that the check of shareable ranges can say.

#include <algorithm>
#include <vector>

#include "emulated.hpp"
#include "guards.hpp"
#include "replay/trace_events.hpp"
#include "sabotage_shareable.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::all;
using test::change;
using test::ShareableSabotage;

constexpr Bytes kChunk = MiB * 4;

/// A space with a free and a live range of two chunks each, and two live ranges of one.
struct BrokenShareable {
  test::EmulatedDevices devices{"devices=1,memory=256MiB,backing=none"};
  TraceEvents events{EventMode::immediate, 0};
  ShareableSpace space{{devices[0]}, {.largest_chunk = kChunk}, events, std::make_shared<Budget>(Budget::kUnlimited)};
  ShareableSabotage sabotage{space};
  ShareableRange& free = allocate(kChunk * 2);
  ShareableRange& live = allocate(kChunk * 2);
  ShareableRange& one = allocate(kChunk);
  ShareableRange& other = allocate(kChunk);

  BrokenShareable() { space.give_back(&free.block); }

  ShareableRange& allocate(Bytes size) {
    Attempt attempt{.request = {size, 0}, .rounded = size};
    Block* block = space.climb(Rung::grow, attempt);
    EXPECT(block != nullptr);
    block->state = BlockState::live;
    return ShareableSabotage::range_of(*block);
  }
  /// The first bytes of a chunk, mapped once more, as the only part of a range.
  [[nodiscard]] ShareableSabotage::Parts map(std::shared_ptr<PhysicalChunk> chunk, Bytes size) const {
    const auto reservation = std::make_shared<Reservation>(devices[0], size, Bytes{0}, Address{0});
    ShareableSabotage::Parts parts;
    parts.push_back({Mapping(reservation, {0}, std::move(chunk), size), 0});
    return parts;
  }
};

TEST(every_sentence_of_the_check_of_shareable_ranges_is_reported) {
  BrokenShareable broken;
  const ShareableSabotage& sabotage = broken.sabotage;
  ShareableRange& free = broken.free;
  ShareableRange& live = broken.live;
  ShareableRange& one = broken.one;
  auto* const nowhere = reinterpret_cast<ShareableRange*>(std::uintptr_t{8});
  std::vector<ShareableRange*>& offered = sabotage.offered(0, kChunk * 2);
  std::vector<ShareableRange*>& elsewhere = sabotage.offered(3, kChunk * 2);
  std::vector<ShareableRange*>& smaller = sabotage.offered(0, kChunk);

  test::expect_reported(
      test::check_of(broken.space),
      {"core/policies/shareable/shareable_check.cpp",
       {{"I6: a range is offered that the pool does not have", "a range is gone but indexed",
         [&] { return change(offered, {&free, nowhere}); }},
        {"I6: * is offered twice", "a free range is indexed twice", [&] { return change(offered, {&free, &free}); }},
        {"I6: * is offered to another stream, or as another size", "a free range is offered to another stream",
         [&] { return test::exchange(offered, elsewhere); }},
        {"I6: * is offered to another stream, or as another size", "a free range is offered as a smaller one",
         [&] { return test::exchange(offered, smaller); }},
        {"I5: * is not where the pool looks for it", "two ranges have one place",
         [&] { return change(live.place, one.place); }},
        {"I1: * does not cover its range", "a block is too small",
         [&] { return change(live.block.size, live.block.size - kChunk); }},
        {"I1: * does not cover its range", "a block is another range's",
         [&] { return change(live.block.memory, &one); }},
        {"I1: * has a gap between two chunks", "two chunks are exchanged",
         [&] { return ShareableSabotage::reverse_parts(live); }},
        {"I1: * has a gap between two chunks", "nothing is mapped", [&] { return ShareableSabotage::unmap(live); }},
        {"I3: * does not own a chunk whole", "only the first half of a chunk is mapped",
         [&] {
           auto twice = PhysicalChunk::create(broken.devices[0], kChunk * 2, true);
           return ShareableSabotage::move_to(one,
                                             broken.map(std::make_shared<PhysicalChunk>(std::move(twice)), kChunk));
         }},
        {"I3: * has a chunk that another block has, too", "two ranges show one chunk",
         [&] {
           return ShareableSabotage::move_to(one, broken.map(broken.other.parts.front().mapping.chunk(), kChunk));
         }},
        {"I4: * has a chunk on a device that the pool does not have", "the device of a chunk is unknown",
         [&] { return change(one.parts.front().device, 1'000'000); }},
        {"I1: * ends with a gap", "a range is larger than its chunks",
         [&] {
           return all(
               {change(live.range.size, live.range.size + kChunk), change(live.block.size, live.block.size + kChunk)});
         }},
        {"I6: * is free but not offered", "a free range is not indexed", [&] { return change(offered, {}); }},
        {"I6: * is offered but not free", "a range is in use but indexed",
         [&] { return change(free.block.state, BlockState::live); }},
        {"I3: * was exported, but may be used again", "an exported range goes back to a stream",
         [&] { return change(live.is_exported, true); }},
        {"I3: * was exported, but may be used again", "an exported range is free",
         [&] { return change(free.is_exported, true); }},
        {"I4: shareable blocks have * bytes of memory, but * are held", "too much is counted as held",
         [&] { return change(sabotage.held(), sabotage.held() + kChunk); }},
        {"I4: shareable blocks on device * have * bytes of memory, but * are held", "a device has too much",
         [&] { return change(sabotage.held_on(0), sabotage.held_on(0) + kChunk); }}}});
}

}  // namespace
}  // namespace memlake
