// The planner of a lake, on maps that are drawn by hand and on random ones. No driver takes part.

#include <algorithm>
#include <random>
#include <string>

#include "drawn_map.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using test::drawn;
using test::DrawnMap;

constexpr Bytes kGranule = DrawnMap::kGranule;
constexpr LakeTuning kTuning{};
constexpr Aliasing kLevels[] = {Aliasing::none, Aliasing::whole, Aliasing::prefix};

Bytes granules(std::uint64_t count) { return kGranule * count; }

std::string planned(const DrawnMap& on, std::uint64_t size, Aliasing level, std::uint64_t room = 0) {
  return drawn(plan(on.map, on.wish(granules(size), granules(room)), level, kTuning));
}

TEST(whole_chunks_between_live_blocks_serve_one_request) {
  const DrawnMap on("________________[x][...][x][...][x]");
  for (const Aliasing level : kLevels) EXPECT_EQ(planned(on, 6, level), "move 3 3");
}

TEST(a_plan_takes_the_smallest_chunk_that_covers_the_rest) {
  const DrawnMap on("________________[x][.....][x][...][x][..][x]");
  EXPECT_EQ(planned(on, 6, Aliasing::none), "move 5 2");
  EXPECT_EQ(planned(on, 7, Aliasing::none), "move 5 2");
  EXPECT_EQ(planned(on, 8, Aliasing::none), "move 5 3");
}

TEST(the_free_run_above_a_hole_needs_no_move) {
  const DrawnMap on("________________[..][x][...][x]");
  EXPECT_EQ(planned(on, 5, Aliasing::none), "run 2, move 3");
}

TEST(new_memory_is_only_for_the_bytes_that_free_chunks_lack) {
  const DrawnMap on("________________[x][...][x]");
  EXPECT_EQ(planned(on, 4, Aliasing::none, 8), "move 3, new 1");
  EXPECT_EQ(planned(on, 3, Aliasing::none, 8), "move 3");
}

TEST(a_chunk_that_a_live_block_uses_stays_and_only_aliasing_uses_its_free_part) {
  const DrawnMap on("________________[x][...x][x]");
  EXPECT_EQ(planned(on, 3, Aliasing::none), "none");
  EXPECT_EQ(planned(on, 3, Aliasing::whole), "none");  // a whole mapping would show the live cell, too
  EXPECT_EQ(planned(on, 3, Aliasing::prefix), "borrow 3");
}

TEST(the_free_end_of_a_chunk_can_be_the_lowest_piece) {
  const DrawnMap on("________________[x...][x]");
  EXPECT_EQ(planned(on, 3, Aliasing::none), "none");
  EXPECT_EQ(planned(on, 3, Aliasing::whole), "odd 3");
  EXPECT_EQ(planned(on, 3, Aliasing::prefix), "odd 3");
}

TEST(the_free_middle_of_a_chunk_needs_a_mapping_of_its_first_part) {
  const DrawnMap on("________________[x...x][x]");
  EXPECT_EQ(planned(on, 3, Aliasing::whole), "none");
  EXPECT_EQ(planned(on, 3, Aliasing::prefix), "odd 3");
}

TEST(whole_chunks_come_before_parts) {
  const DrawnMap on("________________[x][...x][....][x][x..]");
  EXPECT_EQ(planned(on, 4, Aliasing::prefix), "move 4");
  EXPECT_EQ(planned(on, 6, Aliasing::prefix), "move 4, borrow 2");
  EXPECT_EQ(planned(on, 9, Aliasing::prefix), "move 4, borrow 3, odd 2");
}

TEST(a_run_counts_with_its_parts_of_chunks_that_cannot_move) {
  const DrawnMap on("________________________[...][.x][...][x]");
  EXPECT_EQ(planned(on, 7, Aliasing::none), "run 4, move 3");
}

TEST(without_aliasing_chunks_that_need_no_wait_come_first) {
  const DrawnMap on("________________[x][....][x][...][x]");
  const LakeBlock* pending = best_fit(*on.lane, granules(3));
  Wish wish = on.wish(granules(3));
  EXPECT_EQ(drawn(plan(on.map, wish, Aliasing::none, kTuning)), "move 3");
  wish.has_passed = [&](const LakeBlock& run) { return &run != pending; };
  EXPECT_EQ(drawn(plan(on.map, wish, Aliasing::none, kTuning)), "move 4");
  EXPECT_EQ(drawn(plan(on.map, wish, Aliasing::whole, kTuning)), "move 3");
  wish.has_passed = [](const LakeBlock&) { return false; };
  EXPECT_EQ(drawn(plan(on.map, wish, Aliasing::none, kTuning)), "move 3");
}

TEST(without_aliasing_a_chunk_that_an_old_view_shows_does_not_move) {
  const DrawnMap on("________________[x][...][x]");
  on.map.chunks()[1]->views = 1;
  EXPECT_EQ(planned(on, 3, Aliasing::none), "none");
  EXPECT_EQ(planned(on, 3, Aliasing::whole), "move 3");
}

TEST(a_lane_without_a_hole_needs_a_range) {
  const DrawnMap on("_[x][...][x]");
  const auto found = plan(on.map, on.wish(granules(3)), Aliasing::none, kTuning);
  EXPECT(found.has_value());
  EXPECT(found->place.hole == nullptr);
}

TEST(growth_makes_the_shared_last_granule_a_chunk_of_its_own) {
  const DrawnMap on("________________________[x]");
  const auto sizes = [&](Bytes size) { return drawn(plan_growth(on.map, on.wish(size, granules(99)), kTuning)); };
  EXPECT_EQ(sizes(granules(3)), "new 3");
  EXPECT_EQ(sizes(granules(3) + KiB), "new 3 1");
  EXPECT_EQ(sizes(granules(16)), "new 4 4 4 4");
  EXPECT_EQ(sizes(granules(80)), "new 10 10 10 10 10 10 10 10");
  EXPECT_EQ(drawn(plan_growth(on.map, on.wish(granules(3), granules(2)), kTuning)), "none");
}

TEST(what_the_devices_lack_is_planned_on_the_host) {
  const DrawnMap on("________________[x][...][x]");
  EXPECT_EQ(drawn(plan_spill(on.map, on.wish(granules(9), granules(2)), Aliasing::none, kTuning)),
            "move 3, new 2, host 4");
}

/// A random map in quarters of a granule, with sizes of chunks, free runs and live blocks of every kind.
std::string random_drawing(std::mt19937& random) {
  const auto any = [&](unsigned most) { return static_cast<unsigned>(random() % most); };
  std::string drawing(4 * (120 + any(40)), '_');
  char sign = 'x';
  for (unsigned chunks = 1 + any(12); chunks > 0; --chunks) {
    drawing += '[';
    for (unsigned cells = 4 * (1 + any(6)); cells > 0; --cells) {
      if (any(6) == 0) sign = sign == 'x' ? '.' : 'x';
      drawing += sign;
    }
    drawing += ']';
    if (any(5) == 0) drawing += std::string(std::size_t{4} * (1 + any(3)), '_');
  }
  return drawing;
}

/// The bytes of all chunks that lie entirely in free runs, counted cell by cell.
Bytes whole_bytes(const DrawnMap& on) {
  Bytes sum{0};
  for (const auto& chunk : on.map.chunks()) {
    bool is_free = true;
    on.map.lanes().for_each_block([&](const LakeBlock& block) {
      if (block.state == BlockState::live) is_free &= !AddressRange{block.address, block.size}.overlaps(chunk->at());
    });
    if (is_free) sum = sum + chunk->size;
  }
  return sum;
}

void expect_right(const DrawnMap& on, const Plan& plan, const Wish& wish, Aliasing level) {
  std::vector<Part> parts = plan.moved;
  parts.insert(parts.end(), plan.borrowed.begin(), plan.borrowed.end());
  if (plan.odd) parts.push_back(*plan.odd);
  Bytes total = plan.place.run_size();
  for (const Part& part : parts) {
    // Inside its chunk and inside a free run.
    EXPECT(part.begin < part.end && part.end <= part.chunk->size);
    EXPECT(AddressRange(part.run->address, part.run->size).contains(part.place()));
    EXPECT(part.run->state == BlockState::free);
    EXPECT(part.run != plan.place.run);
    total = total + part.size();
  }
  // No byte twice.
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) EXPECT(!parts[i].place().overlaps(parts[k].place()));
  // Within the budget, and in whole granules.
  Bytes fresh{0};
  for (const Bytes size : plan.fresh) {
    EXPECT(size.is_multiple_of(kGranule));
    fresh = fresh + size;
  }
  EXPECT(fresh <= wish.room);
  total = total + fresh;
  // As the level allows.
  for (const Part& part : plan.moved) EXPECT(part.size() == part.chunk->size);
  for (const Part& part : plan.borrowed) EXPECT(part.begin.count == 0);
  EXPECT(plan.borrows() <= level);
  // Enough, and no chunk or part without need.
  EXPECT(total >= wish.size);
  for (const Part& part : parts)
    if (!plan.odd || part.chunk != plan.odd->chunk) EXPECT(total.excess_over(part.size()) < wish.size);
  EXPECT(plan.borrowed.empty() || total < wish.size + kGranule || plan.odd.has_value());
  // Room for it.
  EXPECT(plan.place.hole == nullptr || plan.place.hole->size >= total - plan.place.run_size());
  static_cast<void>(on);
}

TEST(random_plans_use_no_byte_twice_and_are_refused_only_without_memory) {
  std::mt19937 random(5);
  unsigned plans = 0;
  for (int round = 0; round < 3000 && !test::running_test_has_failed(); ++round) {
    const DrawnMap on(random_drawing(random), {kGranule.count / 4});
    const Bytes size = Bytes{512} * (4096 + random() % 60'000);
    const Wish wish = on.wish(size, granules(random() % 8));
    const Bytes whole = whole_bytes(on);
    bool had_plan = false;
    for (const Aliasing level : kLevels) {
      const auto found = plan(on.map, wish, level, kTuning);
      if (found) expect_right(on, *found, wish, level);
      EXPECT(found.has_value() || !had_plan);  // a higher level never has less
      had_plan = found.has_value();
      plans += had_plan ? 1U : 0U;
      // Whole chunks and new memory suffice at every level.
      EXPECT(had_plan || whole + wish.room < on.map.up(size));
      // The figures of an error message are those of the planner.
      const Bytes most = largest_plan(on.map, wish, level, kTuning, on.range->range.size);
      EXPECT(most.count == 0 || plan(on.map, on.wish(most, wish.room), level, kTuning).has_value());
      EXPECT(!plan(on.map, on.wish(most + kGranule, wish.room), level, kTuning).has_value());
      const Bytes room = least_room(on.map, wish, level, kTuning);
      EXPECT(plan(on.map, on.wish(size, room), level, kTuning).has_value());
      EXPECT(room.count == 0 || !plan(on.map, on.wish(size, room - kGranule), level, kTuning).has_value());
      EXPECT_EQ(had_plan, room <= wish.room);
    }
  }
  EXPECT(plans > 1000);
}

}  // namespace
}  // namespace memlake
