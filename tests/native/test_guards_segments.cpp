// Every sentence that the check of a space of segments can say.

#include <vector>

#include "emulated.hpp"
#include "guards.hpp"
#include "policies/torch/torch_rules.hpp"
#include "pool/pool.hpp"
#include "replay/trace_events.hpp"
#include "sabotage_segments.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::all;
using test::change;

const char* const kDevice = "devices=1,memory=512MiB,backing=none";

/// A space with two segments. The first has two live blocks and then a free one, or in an expandable segment addresses
/// without memory behind that; the second is one live block.
struct BrokenSegments {
  test::EmulatedDevices devices{kDevice};
  TraceEvents events{EventMode::immediate, 0};
  Pool pool;
  test::SegmentSabotage segments;
  Block* first;
  Block* second;
  Block* free;
  Block* alone;

  explicit BrokenSegments(bool is_expandable)
      : pool(devices[0], std::make_unique<TorchRules>(TorchOptions{.is_expandable = is_expandable}), events,
             TorchOptions::kUnlimited),
        segments{static_cast<SegmentSpace&>(pool.spaces().policy())},
        first(pool.allocate(MiB * 5, 0)),
        second(pool.allocate(MiB * 4, 0)),
        free(second->next),
        alone(pool.allocate(MiB * 64, 1)) {
    EXPECT(first->next == second);
    EXPECT(free != nullptr && free->state == BlockState::free);
    EXPECT(alone->memory != first->memory);
  }
};

struct ForeignSegment final : SegmentMemory {
  ForeignSegment() : SegmentMemory({{4096}, {0}}, {0}) {}
  [[nodiscard]] Bytes mapped() const override { return range.size; }
};

TEST(every_sentence_of_the_check_of_segments_is_reported) {
  BrokenSegments broken(false);
  const test::SegmentSabotage& segments = broken.segments;
  Block* first = broken.first;
  Block* second = broken.second;
  Block* free = broken.free;
  Block* alone = broken.alone;
  ForeignSegment foreign;
  const test::Check check = test::check_of(segments.space);

  test::expect_reported(
      check,
      {"core/policies/segments/block_check.cpp",
       {{"I1: * lies in no segment of the pool", "a block is another pool's",
         [&] { return change(second->memory, &foreign); }},
        {"I1: * leaves a gap or overlaps what is before it", "a block is too small",
         [&] { return change(first->size, first->size - KiB); }},
        {"I1: * leaves a gap or overlaps what is before it", "a block begins elsewhere",
         [&] { return change(second->address, second->address + KiB); }},
        {"I1: * is empty", "a block has no bytes", [&] { return change(first->size, Bytes{0}); }},
        {"I1: * is not linked to the block before it", "a link to the front is missing",
         [&] { return change(second->previous, nullptr); }},
        {"I1: * is not linked to the block before it", "the first block has a link to the front",
         [&] { return change(first->previous, second); }},
        {"I1: * is not linked to the block behind it", "a link to the back is missing",
         [&] { return change(first->next, nullptr); }},
        {"I1: * is not linked to the block behind it", "the last block has a link to the back",
         [&] { return change(alone->next, first); }},
        {"I1: the last block of a segment does not reach its end", "the last block is too small",
         [&] { return change(alone->size, alone->size - KiB); }},
        {"I2: * is in the same state as the block before it, but they were not merged",
         "two free blocks are neighbours", [&] { return change(second->state, BlockState::free); }},
        {"I3: * is unmapped in a segment of one piece", "a block of plain memory is unmapped",
         [&] { return change(second->state, BlockState::unmapped); }},
        {"I5: a segment is not where the pool looks for it", "a segment is said to be in the place of another",
         [&] { return change(first->memory->place, 1); }},
        {"I5: a segment is not where the pool looks for it", "a segment is said to be behind the end of the list",
         [&] { return change(first->memory->place, 1'000'000); }},
        {"I6: * is offered with another size or at another address", "a free block shrank but was not indexed anew",
         [&] {
           return all({change(second->size, second->size + KiB), change(free->address, free->address + KiB),
                       change(free->size, free->size - KiB)});
         }},
        {"I6: * is offered twice", "a free block is indexed twice", [&] { return segments.index_again(free); }},
        {"I6: * is offered but not free", "a block is in use but indexed",
         [&] { return change(free->state, BlockState::live); }},
        {"I6: * is offered to another stream without an event", "a free block is another stream's",
         [&] { return change(free->stream, 3); }},
        {"I6: * blocks are free, but * are offered", "a free block is not indexed",
         [&] { return segments.unindex(free); }}}});

  test::expect_reported(check, {"core/policies/address_check.cpp",
                                {{"I3: two segments overlap", "a segment lies inside another", [&] {
                                    SegmentMemory& memory = *alone->memory;
                                    const Address inside = first->memory->range.begin + KiB;
                                    return all({change(memory.range.begin, inside), change(alone->address, inside)});
                                  }}}});

  test::expect_reported(check, {"core/policies/segments/segment_check.cpp",
                                {{"I4: segments have * bytes of memory, but * are held", "too much is counted as held",
                                  [&] { return change(segments.held(), segments.held() + KiB); }}}});
}

TEST(every_sentence_about_the_pages_of_an_expandable_segment_is_reported) {
  BrokenSegments broken(true);
  Block* first = broken.first;
  Block* unmapped = broken.free->next;
  EXPECT(unmapped != nullptr && unmapped->state == BlockState::unmapped);
  test::expect_reported(
      test::check_of(broken.segments.space),
      {"core/policies/segments/block_check.cpp",
       {{"I3: * has a page without memory", "addresses without memory are in use",
         [&] { return change(unmapped->state, BlockState::live); }},
        {"I3: * is unmapped but has memory behind it", "memory in use is said to be unmapped",
         [&] { return change(first->state, BlockState::unmapped); }},
        {"I1: the last block of a segment does not reach its end", "addresses without memory are endless",
         [&] { return change(unmapped->size, GiB * GiB.count); }}}});
}

}  // namespace
}  // namespace memlake
