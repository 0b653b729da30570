// Every sentence that the check of a lake can say.

#include <vector>

#include "emulated.hpp"
#include "guards.hpp"
#include "pool/pool.hpp"
#include "replay/trace_events.hpp"
#include "sabotage_lake.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::all;
using test::change;

constexpr Bytes kGranule = MiB * 2;
constexpr Bytes kUnlimited{UINT64_MAX};
constexpr Bytes kTotal = MiB * 512;

/// A lake that has a live, a free, a lent and an unmapped block, and a view.
struct BrokenLake {
  test::EmulatedDevices devices{"devices=1,memory=512MiB,backing=none"};
  TraceEvents events{EventMode::immediate, 0};
  Pool pool{
      std::make_unique<LakeSpace>(std::vector{devices[0]}, LakeOptions{}, events, std::make_shared<Budget>(kUnlimited)),
      events};
  test::LakeSabotage lake{static_cast<LakeSpace&>(pool.spaces().policy())};
  Block* small = pool.allocate(KiB, 0);
  LakeBlock* viewer = nullptr;
  Range* range = nullptr;  // of the large blocks

  BrokenLake() {
    std::vector<Block*> blocks;
    // First larger blocks: the chunks stay, and smaller blocks do not end where these chunks end.
    while (Block* block = pool.allocate(MiB * 40, 0)) blocks.push_back(block);
    for (Block* block : blocks) pool.free(block);
    blocks.clear();
    while (Block* block = pool.allocate(MiB * 7, 0)) blocks.push_back(block);
    for (std::size_t i = 0; i < blocks.size(); i += 2) pool.free(blocks[i]);
    for (Bytes size = kTotal; viewer == nullptr && size > MiB; size = size - MiB)
      viewer = static_cast<LakeBlock*>(pool.allocate(size, 0));
    if (viewer == nullptr || viewer->view == nullptr) throw std::runtime_error("nothing was borrowed");
    range = static_cast<Range*>(viewer->memory);
  }

  [[nodiscard]] LakeBlock* find(BlockState state) const {
    for (LakeBlock* block = range->lowest; block != nullptr; block = block->above())
      if (block->state == state && block->view == nullptr) return block;
    throw std::runtime_error("no such block");
  }
  /// A block of one state with neighbours of another.
  [[nodiscard]] LakeBlock* find_between(BlockState state, BlockState beside) const {
    const auto is_beside = [&](const LakeBlock* b) { return b != nullptr && b->state == beside && b->view == nullptr; };
    for (LakeBlock* block = static_cast<Range*>(viewer->memory)->lowest; block != nullptr; block = block->above())
      if (block->state == state && is_beside(block->below()) && is_beside(block->above())) return block;
    return nullptr;
  }
};

TEST(every_sentence_of_the_check_of_a_lake_is_reported) {
  BrokenLake broken;
  const test::LakeSabotage& lake = broken.lake;
  LakeBlock* free = broken.find_between(BlockState::free, BlockState::live);
  LakeBlock* live = free->above();
  LakeBlock* lent = broken.find(BlockState::lent);
  LakeBlock* viewer = broken.viewer;
  View& view = *viewer->view;
  Range& range = *broken.range;
  Lane& lane = range.lane;
  Lane& small_lane = lake.lane(0, true);
  LakeChunk& chunk = *range.chunk_at(free->address);
  auto* const nowhere = reinterpret_cast<LakeChunk*>(std::uintptr_t{8});

  test::expect_reported(
      test::check_of(lake.space),
      {"core/policies/lake/lake_check.cpp",
       {{"I1: * leaves a gap or overlaps what is below it", "a block is too small",
         [&] { return change(live->size, live->size - KiB); }},
        {"I1: * leaves a gap or overlaps what is below it", "a block is empty",
         [&] { return change(live->size, Bytes{0}); }},
        {"I1: * leaves a gap or overlaps what is below it", "addresses without memory are endless",
         [&] { return change(range.lowest->size, GiB * GiB.count); }},
        {"I1: * leaves a gap or overlaps what is below it", "a link leads back",
         [&] { return change(live->next, range.lowest); }},
        {"I1: * is not linked to its neighbour", "a link downwards is missing",
         [&] { return change(live->previous, nullptr); }},
        {"I1: the last block of a range does not reach its end", "the last block is too small",
         [&] { return change(range.highest->size, range.highest->size - KiB); }},
        {"I1: the last block of a range does not reach its end", "the range has another last block",
         [&] { return change(range.highest, live); }},
        {"I2: * is in the same state as the block below it, but was not merged", "two free blocks are neighbours",
         [&] { return change(live->state, BlockState::free); }},
        {"I3: * shows other bytes than were lent to it", "a piece begins elsewhere",
         [&] { return change(view.pieces.front().begin, view.pieces.front().begin + kGranule); }},
        {"I3: * shows other bytes than were lent to it", "a piece has no block at home",
         [&] { return change(view.pieces.front().lent, nullptr); }},
        {"I3: * shows other bytes than were lent to it", "a piece is of a chunk that is gone",
         [&] { return change(view.pieces.front().chunk, nowhere); }},
        {"I3: * shows more or less than was lent to it", "the view is too large",
         [&] { return change(view.top, view.top + kGranule); }},
        {"I3: * shows more or less than was lent to it", "the view is not in use",
         [&] { return change(viewer->state, BlockState::claimed); }},
        {"I3: * has a page without memory", "the range does not know a chunk",
         [&] { return lake.misplace(chunk, nullptr); }},
        {"I3: * has a page without memory", "the range has a chunk that is gone",
         [&] { return lake.misplace(chunk, nowhere); }},
        {"I3: * has a page without memory", "a chunk is at home nowhere", [&] { return change(chunk.range, nullptr); }},
        {"I3: * is unmapped but has memory behind it", "a block with memory is unmapped",
         [&] { return change(live->state, BlockState::unmapped); }},
        {"I6: * is offered as memory of the host, but lies elsewhere, too", "a free block is said to be spilled",
         [&] { return change(free->is_spilled, true); }},
        {"I6: * is offered as memory of devices, but lies elsewhere, too", "a free chunk is said to be spilled",
         [&] { return change(chunk.is_spilled, true); }},
        {"I6: * is offered to another stream without an event", "a free block is another stream's",
         [&] { return change(free->stream, 3); }},
        {"I6: * is offered with another size or at another address", "a free block shrank but was not indexed anew",
         [&] {
           return all({change(free->size, free->size - KiB), change(live->address, {live->address.value - KiB.count}),
                       change(live->size, live->size + KiB)});
         }},
        {"I6: * is offered twice", "a free block is indexed twice", [&] { return lake.index_again(free); }},
        {"I6: * is offered but not free", "a block is in use but indexed",
         [&] { return change(free->state, BlockState::live); }},
        {"I6: * is offered as what it is not", "memory of devices is offered as memory of the host",
         [&] {
           lane.free.erase(free);
           lane.spilled.insert(free);
           return [&lane, free] {
             lane.spilled.erase(free);
             lane.free.insert(free);
           };
         }},
        {"I6: * is offered by a lane that it does not lie in", "a large block is offered among the small ones",
         [&] {
           lane.free.erase(free);
           small_lane.free.insert(free);
           return [&lane, &small_lane, free] {
             small_lane.free.erase(free);
             lane.free.insert(free);
           };
         }},
        {"I6: * blocks are free, but * are offered", "a free block is not indexed", [&] { return lake.unindex(free); }},
        {"I3: * is lent, but shown by * views", "a block is lent to no view",
         [&] { return change(live->state, BlockState::lent); }},
        {"I3: * is not lent, but shown by * views", "a view shows what was not lent",
         [&] { return change(lent->state, BlockState::claimed); }},
        {"I4: a chunk of * bytes is not at home anywhere", "a chunk is not mapped", [&] { return lake.unmap(chunk); }},
        {"I4: a chunk is not where the pool looks for it", "a chunk is said to be behind the end of the list",
         [&] { return change(chunk.place, 1'000'000); }},
        {"I4: a chunk is not where the pool looks for it", "a chunk is said to be in the place of another",
         [&] { return change(chunk.place, chunk.place == 0 ? 1 : 0); }},
        {"I4: chunks have * bytes and * on the host, ranges *, but * and * are held", "too much is counted as held",
         [&] { return change(lake.held(), lake.held() + KiB); }},
        {"I4: chunks have * bytes and * on the host, ranges *, but * and * are held",
         "memory is counted as held on the host", [&] { return change(lake.held_on_host(), KiB); }},
        {"I4: chunks have * bytes and * on the host, ranges *, but * and * are held", "a range counts too little",
         [&] { return change(range.home, range.home - kGranule); }},
        {"I4: chunks on device * have * bytes, but * are held", "a device is said to have more",
         [&] { return change(lake.held_at_home(), lake.held_at_home() + KiB); }},
        {"I7: * bytes are in use, but * are counted", "too much is counted as used",
         [&] { return change(lake.used(), lake.used() + KiB); }}}});
}

}  // namespace
}  // namespace memlake
