// Events and segments of snapshots. tests/unit/trace/ has the meaning of every field; these tests also run under the
// sanitizers.

#include <memory>
#include <string>

#include "pickles/read_pickle.hpp"
#include "snapshots/events.hpp"
#include "test.hpp"

namespace memlake {
namespace {

using namespace std::string_literals;

std::string text(const std::string& content) { return "\x8c"s + static_cast<char>(content.size()) + content; }
std::string byte(unsigned number) { return "K"s + static_cast<char>(number); }
std::string entry(const std::string& key, const std::string& value) { return text(key) + value; }
std::string dict(const std::string& entries) { return "}(" + entries + "u"; }
std::string list(const std::string& items) { return "](" + items + "e"; }

std::string frame(unsigned line) {
  return dict(entry("filename", text("a.py")) + entry("line", byte(line)) + entry("name", text("f")));
}
std::string event(const std::string& action, unsigned address, const std::string& frames) {
  return dict(entry("action", text(action)) + entry("addr", byte(address)) + entry("size", byte(100)) +
              entry("stream", byte(0)) + entry("time_us", byte(9)) + entry("frames", list(frames)));
}

struct Loaded {
  explicit Loaded(std::string content) : pickle(std::move(content)) {
    auto result = pickles::read_pickle(std::as_bytes(std::span(pickle)), std::uint64_t{1} << 30, {});
    document = std::get<std::unique_ptr<pickles::Document>>(std::move(result));
  }
  std::string pickle;
  std::unique_ptr<pickles::Document> document;
};

TEST(events_become_rows_and_equal_stacks_have_one_number) {
  const Loaded loaded(list(event("alloc", 1, frame(1) + frame(2)) + event("alloc", 2, frame(1) + frame(2)) +
                           event("free_requested", 1, frame(3)) + event("free_completed", 1, "") +
                           event("free_completed", 7, frame(2)) + event("oom", 0, frame(1))) +
                      ".");
  snapshots::Stacks stacks(*loaded.document);
  auto result = snapshots::read_events(*loaded.document, loaded.document->items(loaded.document->root), {}, 0, stacks);
  const auto& events = std::get<snapshots::DeviceEvents>(result);
  const std::vector<std::uint8_t> op = {0, 0, 0, 1, 1, 0, 1};
  const std::vector<std::uint32_t> id = {0, 1, 2, 1, 0, 3, 3};
  EXPECT(events.rows.op == op);
  EXPECT(events.rows.id == id);
  EXPECT_EQ(events.num_carried, 1U);
  EXPECT_EQ(events.rows.stack[1], events.rows.stack[2]);
  EXPECT_EQ(events.others.row.at(0), 5U);
  const snapshots::StackTable table = stacks.take();
  EXPECT_EQ(table.line.size(), 3U);
  EXPECT_EQ(table.starts.size(), 6U);
  EXPECT_EQ(table.texts.size(), 2U);
}

TEST(the_first_wrong_event_is_named) {
  const Loaded loaded(list(event("alloc", 1, "") + dict(entry("action", byte(3))) + "N") + ".");
  snapshots::Stacks stacks(*loaded.document);
  auto result = snapshots::read_events(*loaded.document, loaded.document->items(loaded.document->root), {}, 0, stacks);
  EXPECT_EQ(std::get<snapshots::WrongEvent>(result).event, 1U);
}

TEST(a_wrong_block_is_named_with_its_segment) {
  const std::string good = dict(entry("size", byte(8)) + entry("state", text("inactive")));
  const std::string bad = dict(entry("size", byte(8)) + entry("state", text("odd")));
  const auto segment = [](const std::string& blocks) {
    return dict(entry("address", byte(1)) + entry("total_size", byte(8)) + entry("blocks", list(blocks)));
  };
  const Loaded loaded(list(segment(good) + segment(good + bad)) + ".");
  snapshots::Stacks stacks(*loaded.document);
  auto result = snapshots::read_segments(*loaded.document, loaded.document->items(loaded.document->root), stacks);
  const auto wrong = std::get<snapshots::WrongSegment>(result);
  EXPECT_EQ(wrong.segment, 1U);
  EXPECT_EQ(wrong.block.value_or(0), 1U);
}

}  // namespace
}  // namespace memlake
