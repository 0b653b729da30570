// Every sentence that the check of stitched views can say.

#include <vector>

#include "emulated.hpp"
#include "guards.hpp"
#include "pool/pool.hpp"
#include "replay/trace_events.hpp"
#include "sabotage_stitch.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::all;
using test::change;
using test::Mend;

constexpr Bytes kUnlimited{UINT64_MAX};
constexpr Bytes kPart = MiB * 12;

/// Three blocks that are lent to a view in use, with live blocks between them, and an idle view over two of them.
struct BrokenViews {
  test::EmulatedDevices devices{"devices=1,memory=256MiB,backing=none"};
  TraceEvents events{EventMode::immediate, 0};
  Pool pool{std::make_unique<StitchSpace>(devices[0],
                                          StitchOptions{.frag_limit = MiB * 4, .reuse_limit = 1, .chunk_size = MiB * 2},
                                          events, std::make_shared<Budget>(kUnlimited)),
            events};
  test::StitchSabotage stitch{static_cast<StitchSpace&>(pool.spaces().policy())};
  Block* small = pool.allocate(KiB, 0);
  std::vector<Block*> between;
  StitchedView* idle;
  StitchedView* used;

  BrokenViews() {
    std::vector<Block*> blocks;
    for (int i = 0; i < 6; ++i) blocks.push_back(pool.allocate(kPart, 0));
    for (std::size_t i = 0; i < blocks.size(); ++i) i % 2 == 0 ? pool.free(blocks[i]) : between.push_back(blocks[i]);
    Block* two = pool.allocate(kPart * 2, 0);
    pool.free(two);
    Block* three = pool.allocate(kPart * 3, 0);
    idle = &dynamic_cast<StitchedView&>(*two->memory);
    used = &dynamic_cast<StitchedView&>(*three->memory);
  }

  /// The block under the first part of a view.
  [[nodiscard]] static Block* owner(const StitchedView& view) {
    return view.parts.front().segment->block_at(view.parts.front().run.begin);
  }
};

TEST(every_sentence_of_the_check_of_stitched_views_is_reported) {
  BrokenViews broken;
  const test::StitchSabotage& stitch = broken.stitch;
  StitchedView& used = *broken.used;
  StitchedView& idle = *broken.idle;
  StitchedView::Part& part = used.parts.front();
  StitchedView::Part& last = used.parts.back();
  Block* lent = BrokenViews::owner(used);
  Block* live = broken.between.front();
  PrimitiveSegment& of_live = PrimitiveBlocks::segment_of(*live);
  auto* const nowhere = reinterpret_cast<PrimitiveSegment*>(std::uintptr_t{8});
  const test::Check check = test::check_of(stitch.space);
  test::expect_reported(
      check, {"core/policies/stitch/stitch_check.cpp",
              {{"I5: * is stitched over a segment that the pool does not have", "the segment of a part is gone",
                [&] { return change(part.segment, nowhere); }},
               {"I5: * is stitched, but a segment under it does not know", "a segment does not know a view",
                [&] { return change(part.segment->views, {&idle}); }},
               {"I5: * is stitched, but a segment under it does not know", "a segment knows a view twice",
                [&] { return change(part.segment->views, {&idle, &used, &used}); }},
               {"I1: * is not as large as its parts", "more is in use than the view has",
                [&] { return change(used.block.size, used.block.size + MiB * 2); }},
               {"I1: * is not as large as its parts", "a part is larger than what is mapped for it",
                [&] { return change(part.run.size, part.run.size + MiB * 2); }},
               {"I1: * is not as large as its parts", "view and part are larger than what is mapped for them",
                [&] {
                  return all({change(part.run.size, part.run.size + MiB * 2),
                              change(used.range.size, used.range.size + MiB * 2)});
                }},
               {"I1: * is not as large as its parts", "the block begins elsewhere",
                [&] { return change(used.block.address, used.block.address + MiB * 2); }},
               {"I4: * is stitched over memory that was given back", "a part lies behind the end of its segment",
                [&] { return change(last.run.begin, last.segment->range.end()); }},
               {"I4: * is stitched over memory that was given back", "a part lies before its segment",
                [&] { return change(last.run.begin, {last.segment->range.begin.value - kPart.count}); }},
               {"I4: * shows another chunk than its part has", "two parts are exchanged",
                [&] { return all({test::exchange(part.segment, last.segment), test::exchange(part.run, last.run)}); }},
               {"I1: * has a part in which its segment finds no block", "a segment finds another block under a part",
                [&] {
                  const Mend moved = change(live->address, part.run.begin);
                  part.segment->begins(live);
                  moved();
                  return [&part, lent] { part.segment->begins(lent); };
                }},
               {"I1: * has a part in which its segment finds no block", "a segment finds no block at all",
                [&] {
                  part.segment->begins_no_more(lent->address);
                  return [&part, lent] { part.segment->begins(lent); };
                }},
               {"I3: * is in use, but a part of it is not lent to it", "a part is in use by itself",
                [&] { return change(lent->state, BlockState::live); }},
               {"I3: * is lent to two views", "two views use the same part",
                [&] { return all({change(idle.block.state, BlockState::live), change(idle.block.size, kPart)}); }},
               {"I5: a stitched view is not where the pool looks for it", "two views have one place",
                [&] { return change(used.place, idle.place); }},
               {"I1: * is not where its segment looks for it", "a segment does not know where a block begins",
                [&] {
                  of_live.begins_no_more(live->address);
                  return [&of_live, live] { of_live.begins(live); };
                }},
               {"I3: * is lent, but no view uses it", "a block is lent to no view",
                [&] { return change(live->state, BlockState::lent); }},
               {"I4: primitive segments and small memory have * bytes, but * are held", "too much is counted as held",
                [&] { return change(stitch.held(), stitch.held() + KiB); }},
               {"I5: the counters of stitched views disagree with the views", "too many bytes of views are counted",
                [&] { return change(stitch.view_bytes(), stitch.view_bytes() + KiB); }},
               {"I5: the counters of stitched views disagree with the views", "too many bytes are counted as in use",
                [&] { return change(stitch.view_bytes_in_use(), stitch.view_bytes_in_use() + KiB); }},
               {"I5: the counters of stitched views disagree with the views", "an idle view is offered to no request",
                [&] { return stitch.withdraw(idle); }}}});

  test::expect_reported(check, {"core/policies/address_check.cpp",
                                {{"I3: two segments overlap", "a view lies over another", [&] {
                                    const Address inside = used.range.begin + MiB * 2;
                                    return all({change(idle.range.begin, inside), change(idle.block.address, inside)});
                                  }}}});
}

}  // namespace
}  // namespace memlake
