// The allocator of address ranges against a model that is too simple to be wrong: one flag per byte.

#include "system/address_space.hpp"

#include <optional>
#include <random>
#include <vector>

#include "test.hpp"

namespace memlake::test {

using emulator::AddressSpace;

namespace {

class NaiveSpace {
 public:
  NaiveSpace(std::uint64_t base, std::size_t size) : base_(base), is_taken_(size) {}

  bool take_at(std::uint64_t address, std::uint64_t size) {
    if (size == 0 || address < base_ || address - base_ > is_taken_.size()) return false;
    const std::uint64_t start = address - base_;
    if (size > is_taken_.size() - start) return false;
    for (std::uint64_t i = start; i < start + size; ++i)
      if (is_taken_[i]) return false;
    set(address, size, true);
    return true;
  }

  std::optional<std::uint64_t> take(std::uint64_t size, std::uint64_t alignment) {
    for (std::uint64_t address = base_; address < base_ + is_taken_.size(); ++address)
      if (address % alignment == 0 && take_at(address, size)) return address;
    return std::nullopt;
  }

  void give_back(std::uint64_t address, std::uint64_t size) { set(address, size, false); }

 private:
  void set(std::uint64_t address, std::uint64_t size, bool is_taken) {
    for (std::uint64_t i = address - base_; i < address - base_ + size; ++i) is_taken_[i] = is_taken;
  }

  std::uint64_t base_;
  std::vector<bool> is_taken_;
};

struct Range {
  std::uint64_t address;
  std::uint64_t size;
};

void compare_with_the_model(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint64_t bound) { return std::uint64_t{random()} % bound; };
  const std::uint64_t base = below(1000);
  const std::size_t room = 1 + below(400);
  AddressSpace space(base, room);
  NaiveSpace model(base, room);
  std::vector<Range> taken;
  for (int step = 0; step < 400; ++step) {
    const std::uint64_t size = below(2) == 0 ? below(8) : below(room + 2);
    switch (below(4)) {
      case 0: {
        const std::uint64_t address = base - std::min<std::uint64_t>(base, 3) + below(room + 6);
        const bool is_ours = space.take_at(address, size);
        EXPECT_EQ(is_ours, model.take_at(address, size));
        if (is_ours) taken.push_back({address, size});
        break;
      }
      case 1: {
        const std::uint64_t alignment = std::uint64_t{1} << below(8);
        const auto address = space.take(size, alignment);
        EXPECT(address == model.take(size, alignment));
        if (address) taken.push_back({*address, size});
        break;
      }
      default:
        if (taken.empty()) break;
        std::swap(taken[below(taken.size())], taken.back());
        // Also in two pieces, as a range that was taken whole may be.
        const Range gone = taken.back();
        taken.pop_back();
        const std::uint64_t first = below(gone.size + 1);
        if (first > 0) space.give_back(gone.address, first);
        if (first < gone.size) space.give_back(gone.address + first, gone.size - first);
        model.give_back(gone.address, gone.size);
    }
    if (running_test_has_failed()) {
      std::cout << "  with seed " << seed << " at step " << step << "\n";
      return;
    }
  }
}

}  // namespace

TEST(address_space_takes_what_the_naive_model_takes) {
  for (unsigned seed = 0; seed < 300 && !running_test_has_failed(); ++seed) compare_with_the_model(seed);
}

TEST(address_space_refuses_absurd_sizes_and_alignments) {
  const std::uint64_t base = std::uint64_t{1} << 45;
  AddressSpace space(base, std::uint64_t{1} << 44);
  for (const std::uint64_t size : {std::uint64_t{0}, UINT64_MAX, std::uint64_t{1} << 63, (std::uint64_t{1} << 44) + 1})
    EXPECT(!space.take(size, 1));
  EXPECT(!space.take(4096, std::uint64_t{1} << 63));
  EXPECT(!space.take(4096, std::uint64_t{1} << 46));
  EXPECT(!space.take_at(UINT64_MAX - 10, 100));
  EXPECT(!space.take_at(base, UINT64_MAX));
  EXPECT(!space.take_at(base - 1, 2));
  EXPECT(!space.take_at(base + 4096, 0));
  EXPECT_EQ(space.take(std::uint64_t{1} << 44, 4096).value_or(0), base);  // nothing was taken by the refused calls
}

TEST(an_empty_address_space_has_nothing) {
  AddressSpace space;
  EXPECT(!space.take(1, 1));
  EXPECT(!space.take_at(0, 1));
  EXPECT(!space.contains(0));
}

TEST(an_address_space_at_the_very_end_of_the_addresses_does_not_wrap) {
  AddressSpace space(UINT64_MAX - 8190, 8190);
  EXPECT(!space.take(1, 8192));
  EXPECT(space.contains(UINT64_MAX - 1));
  EXPECT(!space.contains(UINT64_MAX - 8191));
  EXPECT(space.take(8190, 1).has_value());
}

}  // namespace memlake::test
