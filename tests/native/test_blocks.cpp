// Blocks: the index against a plain ordered set, and cutting and joining.

#include <random>
#include <set>
#include <tuple>

#include "blocks/block_map.hpp"
#include "blocks/lone_addresses.hpp"
#include "test.hpp"

namespace memlake {
namespace {

constexpr Bytes kUnit{512};

struct Segment final : SegmentMemory {
  explicit Segment(std::uint64_t number) : SegmentMemory({{number << 40}, GiB}, {0}) { serial = number; }
  [[nodiscard]] Bytes mapped() const override { return range.size; }
};

Block make_block(Segment& segment, std::uint64_t units, std::uint64_t place) {
  Block block{};
  block.memory = &segment;
  block.size = kUnit * units;
  block.address = segment.range.begin + kUnit * place;
  return block;
}

TEST(the_free_index_orders_like_a_set_of_size_age_and_address) {
  constexpr unsigned seed = 20261116;
  std::mt19937_64 random(seed);
  std::cout << "  seed " << seed << "\n";
  std::vector<std::unique_ptr<Segment>> segments;
  for (std::uint64_t i = 0; i < 4; ++i) segments.push_back(std::make_unique<Segment>(4 - i));
  const auto key = [](const Block* b) { return std::tuple(b->size.count, b->memory->serial, b->address.value); };
  const auto before = [&](const Block* a, const Block* b) { return key(a) < key(b); };
  std::set<Block*, decltype(before)> model(before);
  std::deque<Block> blocks;
  FreeIndex index;
  for (int step = 0; step < 20000; ++step) {
    if (model.empty() || random() % 5 < 3) {
      const std::uint64_t units = 1 + random() % (std::uint64_t{1} << (random() % 22));
      blocks.push_back(make_block(*segments[random() % 4], units, static_cast<std::uint64_t>(step)));
      index.insert(&blocks.back());
      model.insert(&blocks.back());
    } else {
      auto at = model.begin();
      std::advance(at, static_cast<long>(random() % std::min<std::size_t>(model.size(), 50)));
      index.erase(*at);
      model.erase(at);
    }
    const Bytes wanted = kUnit * (1 + random() % (std::uint64_t{1} << (random() % 22)));
    const auto fits = std::find_if(model.begin(), model.end(), [&](const Block* b) { return b->size >= wanted; });
    EXPECT_EQ(index.best_fit(wanted), fits == model.end() ? nullptr : *fits);
    EXPECT_EQ(index.last_below(wanted), fits == model.begin() ? nullptr : *std::prev(fits));
    if (fits != model.end()) {
      EXPECT_EQ(index.after(*fits), std::next(fits) == model.end() ? nullptr : *std::next(fits));
      EXPECT_EQ(index.before(*fits), fits == model.begin() ? nullptr : *std::prev(fits));
    }
    EXPECT_EQ(index.first(), model.empty() ? nullptr : *model.begin());
    EXPECT_EQ(index.last(), model.empty() ? nullptr : *std::prev(model.end()));
  }
}

TEST(lone_addresses_are_the_lowest_that_fit) {
  LoneAddresses addresses;
  const Address first = addresses.take(GiB * 2);
  const Address second = addresses.take(GiB);
  EXPECT_EQ(first.value, 0U);
  EXPECT_EQ(second.value, (GiB * 2).count);
  addresses.give_back(first);
  EXPECT_EQ(addresses.take(GiB * 3).value, (GiB * 3).count);  // too large for the gap
  EXPECT_EQ(addresses.take(GiB).value, 0U);
  EXPECT_EQ(addresses.take(GiB).value, GiB.count);
}

TEST(unmapped_blocks_are_ordered_as_if_the_pool_were_alone) {
  Segment high(2);
  Segment low(1);
  high.lone = {0};
  low.lone = Address{0} + GiB;
  BlockMap map;
  map.index(map.make(low, map.large, 0, low.range, BlockState::unmapped));
  Block* lowest = map.make(high, map.large, 0, high.range, BlockState::unmapped);
  map.index(lowest);
  EXPECT_EQ(map.large.unmapped.begin()->second, lowest);
}

TEST(cut_blocks_tile_their_segment_and_join_again) {
  Segment segment(1);
  BlockMap map;
  Block* rest = map.make(segment, map.large, 0, segment.range, BlockState::free);
  Block* front = map.cut_front(rest, MiB);
  Block* tail = map.cut_back(rest, MiB * 2);
  EXPECT_EQ(front->end().value, rest->address.value);
  EXPECT_EQ(rest->end().value, tail->address.value);
  EXPECT_EQ(tail->end().value, segment.range.end().value);
  EXPECT(front->previous == nullptr && front->next == rest && rest->next == tail && tail->next == nullptr);
  front->state = BlockState::live;
  map.index(tail);
  map.merge(rest);  // with the free tail, not with the live front
  EXPECT_EQ(rest->size.count, (GiB - MiB).count);
  map.index(rest);
  front->state = BlockState::free;
  map.merge(front);
  EXPECT(front->is_whole_segment());
  EXPECT_EQ(front->size.count, segment.range.size.count);
}

}  // namespace
}  // namespace memlake
