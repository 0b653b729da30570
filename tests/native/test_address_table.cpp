// AddressTable: what is in it is found, what is not is not, however often it changed.

#include "runtime/address_table.hpp"

#include <map>
#include <random>
#include <vector>

#include "test.hpp"

namespace memlake {
namespace {

TEST(an_empty_table_finds_nothing) {
  const AddressTable table;
  EXPECT(table.find({512}).block == nullptr);
  EXPECT(table.find({0}).block == nullptr);
  EXPECT_EQ(table.size(), 0u);
}

/// Random insertions and removals, compared with a map, at addresses of a kind.
template <class Draw>
void compare_with_map(Draw&& draw) {
  AddressTable table;
  std::map<std::uint64_t, Block*> expected;
  std::vector<Block> blocks(5000);
  std::mt19937_64 random(7);
  for (int step = 0; step < 60000; ++step) {
    const Address address{draw(random)};
    const AddressTable::Place place = table.find(address);
    const auto known = expected.find(address.value);
    EXPECT(place.block == (known == expected.end() ? nullptr : known->second));
    // First it grows, then it shrinks, and again.
    const bool wants_more = step / 15000 % 2 == 0 ? random() % 4 != 0 : random() % 4 == 0;
    if (place.block == nullptr && wants_more && expected.size() < blocks.size()) {
      Block* const block = &blocks[random() % blocks.size()];
      table.make_room();
      table.insert(address, block);
      expected.emplace(address.value, block);
    } else if (place.block != nullptr && !wants_more) {
      table.remove(place);
      expected.erase(known);
    }
    EXPECT_EQ(table.size(), expected.size());
  }
  for (const auto& [address, block] : expected) EXPECT(table.find({address}).block == block);
}

TEST(a_table_of_neighbours_is_right) {
  compare_with_map([](auto& random) { return 0x7F0000000000u + 512 * (1 + random() % 8000); });
}

TEST(a_table_of_large_blocks_is_right) {
  compare_with_map([](auto& random) { return 0x100000000u + (std::uint64_t{20} << 20) * (random() % 8000); });
}

TEST(a_table_of_scattered_addresses_is_right) {
  compare_with_map([](auto& random) { return (1 + random() % 8000) * 0x1F123BB5000u; });
}

}  // namespace
}  // namespace memlake
