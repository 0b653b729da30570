// Replaying a record: beginning with its layout, in its addresses.

#include "emulated.hpp"
#include "policies/torch/torch_rules.hpp"
#include "replay/recorded_replay.hpp"
#include "replay/replay_device.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using Kind = RecordedEvent::Kind;

constexpr Address kBase{0x7f0000000000};
constexpr Address kAbove{0x7f1000000000};

/// The rows of a small trace, on one stream.
struct Rows {
  std::vector<std::uint8_t> op;
  std::vector<std::uint32_t> id;
  std::vector<std::uint64_t> bytes;

  void allocate(std::uint32_t which, Bytes size) { add(TraceColumns::allocate, which, size); }
  void free(std::uint32_t which) { add(TraceColumns::free, which, {0}); }

  RecordedOutcome replay(const Record& record, TieBreak tie_break = TieBreak::address,
                         bool is_expandable = false) const {
    const std::vector<std::remove_const_t<decltype(TraceColumns::stream)::element_type>> stream(op.size());
    ReplayDevice device(test::emulator(), GiB * 64);
    TorchOptions options;
    options.is_expandable = is_expandable;
    return replay_record({op, id, bytes, stream}, record, tie_break, device.device(),
                         std::make_unique<TorchRules>(options));
  }

 private:
  void add(TraceColumns::Op what, std::uint32_t which, Bytes size) {
    op.push_back(what);
    id.push_back(which);
    bytes.push_back(size.count);
  }
};

RecordedSegment large_segment(Address address, std::vector<RecordedBlock> blocks) {
  RecordedSegment segment{.range = {address, {0}}, .blocks = std::move(blocks)};
  for (const RecordedBlock& block : segment.blocks) segment.range.size = segment.range.size + block.size;
  return segment;
}

TEST(a_new_segment_lies_where_the_record_has_it) {
  Rows rows;
  rows.allocate(0, MiB * 3);
  rows.allocate(1, MiB * 30);
  rows.free(0);
  Record record;
  record.events = {{0, Kind::alloc, {kAbove, MiB * 20}, 0}, {1, Kind::alloc, {kBase, MiB * 30}, 0}};
  const RecordedOutcome outcome = rows.replay(record);
  EXPECT_EQ(outcome.addresses[0], kAbove.value);
  EXPECT_EQ(outcome.addresses[1], kBase.value);
  EXPECT_EQ(outcome.events.size(), 2U);
  EXPECT_EQ(outcome.events[0].range.size.count, (MiB * 20).count);
  EXPECT_EQ(outcome.last.size(), 2U);
  EXPECT_EQ(outcome.last[0].range.begin.value, kBase.value);  // by address
  EXPECT_EQ(outcome.last[0].blocks[0].id, 1U);
  EXPECT_EQ(outcome.last[1].blocks.size(), 1U);  // freed and joined again
  EXPECT_EQ(outcome.last[1].blocks[0].id, RecordedBlock::kNoId);
}

TEST(a_replay_begins_with_the_layout_of_its_record) {
  Rows rows;
  rows.allocate(0, MiB * 4);  // before the first row, as the layout has it
  rows.allocate(1, MiB * 2);
  rows.free(0);
  Record record;
  record.first_row = 1;
  record.initial = {large_segment(kBase, {{MiB * 3, {0}, BlockState::free},
                                          {MiB * 5, MiB * 4, BlockState::live, 0},  // with slack
                                          {MiB * 12, {0}, BlockState::free}})};
  const RecordedOutcome outcome = rows.replay(record);
  EXPECT_EQ(outcome.addresses[1], kBase.value);  // the best fit, 3 MiB
  EXPECT_EQ(outcome.events.size(), 0U);
  EXPECT_EQ(outcome.last.size(), 1U);
  EXPECT_EQ(outcome.last[0].blocks.size(), 2U);
  EXPECT_EQ(outcome.last[0].blocks[0].size.count, (MiB * 3).count);  // 1 MiB is not split off
  EXPECT_EQ(outcome.last[0].blocks[1].size.count, (MiB * 17).count);
}

TEST(of_two_equal_blocks_the_lower_or_the_older_is_taken) {
  Rows rows;
  rows.allocate(0, MiB * 30);
  rows.allocate(1, MiB * 30);
  rows.free(0);
  rows.free(1);
  rows.allocate(2, MiB * 30);
  Record record;
  record.events = {{0, Kind::alloc, {kAbove, MiB * 30}, 0}, {1, Kind::alloc, {kBase, MiB * 30}, 0}};
  EXPECT_EQ(rows.replay(record, TieBreak::address).addresses[4], kBase.value);
  EXPECT_EQ(rows.replay(record, TieBreak::age).addresses[4], kAbove.value);
}

TEST(memory_is_given_back_when_the_record_says_so) {
  Rows rows;
  rows.allocate(0, MiB * 30);
  rows.free(0);
  rows.allocate(1, MiB * 40);
  Record record;
  record.events = {{0, Kind::alloc, {kBase, MiB * 30}, 0},
                   {2, Kind::free, {kBase, MiB * 30}, 0},
                   {2, Kind::alloc, {kBase, MiB * 40}, 0}};
  const RecordedOutcome outcome = rows.replay(record);
  EXPECT_EQ(outcome.events.size(), 3U);
  EXPECT(outcome.events[1].kind == Kind::free && outcome.events[1].range == record.events[1].range);
  EXPECT_EQ(outcome.addresses[2], kBase.value);
  EXPECT_EQ(outcome.last.size(), 1U);
}

TEST(pages_of_an_expandable_segment_come_and_go_as_the_record_names_them) {
  Rows rows;
  rows.allocate(0, MiB * 30);
  rows.allocate(1, MiB * 30);
  rows.free(0);
  rows.allocate(2, MiB * 50);
  Record record;
  record.events = {{0, Kind::map, {kBase, MiB * 40}, 0},
                   {1, Kind::map, {kBase + MiB * 40, MiB * 20}, 0},
                   {3, Kind::unmap, {kBase, MiB * 20}, 0},
                   {3, Kind::map, {kBase + MiB * 60, MiB * 60}, 0}};
  const RecordedOutcome outcome = rows.replay(record, TieBreak::address, true);
  EXPECT_EQ(outcome.events.size(), 4U);
  for (std::size_t i = 0; i < outcome.events.size(); ++i) {
    EXPECT(outcome.events[i].kind == record.events[i].kind);
    EXPECT_EQ(outcome.events[i].range.begin.value, record.events[i].range.begin.value);
    EXPECT_EQ(outcome.events[i].range.size.count, record.events[i].range.size.count);
  }
  EXPECT_EQ(outcome.addresses[1], (kBase + MiB * 30).value);
  EXPECT_EQ(outcome.addresses[3], (kBase + MiB * 60).value);
  EXPECT_EQ(outcome.last.size(), 1U);  // the mapped part: what was unmapped lies before it
  EXPECT_EQ(outcome.last[0].range.begin.value, (kBase + MiB * 20).value);
}

TEST(a_new_segment_that_the_record_lacks_lies_behind_everything) {
  Rows rows;
  rows.allocate(0, MiB * 30);
  const RecordedOutcome outcome = rows.replay({});
  EXPECT(outcome.addresses[0] > kAbove.value);
  EXPECT_EQ(outcome.events.size(), 1U);
}

TEST(a_layout_that_does_not_fit_is_refused) {
  Record record;
  record.initial = {large_segment(kBase, {{GiB * 65, {0}, BlockState::free}})};
  test::expect_error(ErrorKind::config, [&] { static_cast<void>(Rows{}.replay(record)); });
}

}  // namespace
}  // namespace memlake
