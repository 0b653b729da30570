// The part of Pool that sets an earlier state of a graph pool again, as PyTorch's cudagraph trees do before they take
// another path. Everything is checked first, so a state that cannot be set leaves the graph pool as it was.

#include <algorithm>
#include <sstream>

#include "base/error.hpp"
#include "driver/relaxed_capture.hpp"
#include "pool/pool.hpp"

namespace memlake {

namespace {

constexpr std::uint64_t kAlignment = 512;  // of what pools give

[[noreturn]] void refuse_state(GraphPoolId id, AddressRange range, const char* reason) {
  std::ostringstream text;
  text << "the earlier state of the graph pool " << id.text() << " cannot be set again: " << range.size.count
       << " bytes at 0x" << std::hex << range.begin.value << ' ' << reason;
  throw Error(ErrorKind::invalid_argument, text.str());
}

/// A block that is free, or will be freed, and its space.
struct Tile {
  const Block* block;
  Space* space;

  [[nodiscard]] Address address() const { return block->address; }
};

std::vector<Tile> tiles_of(const PoolSpaces& spaces, GraphPoolId id) {
  std::vector<Tile> tiles;
  for (const auto& space : spaces) {
    const bool is_meant = space->graph_pool() != nullptr && space->graph_pool()->id == id;
    if (!is_meant || space->facets().chosen_addresses == nullptr) continue;
    space->for_each([&](const Block& block) {
      if (block.state == BlockState::free || block.state == BlockState::live) tiles.push_back({&block, space.get()});
    });
  }
  std::ranges::sort(tiles, {}, &Tile::address);
  return tiles;
}

/// The space in which the range can be allocated: one segment of the stream has tiles under all of it. Null if there is
/// none.
Space* space_with(const std::vector<Tile>& tiles, AddressRange range, StreamId stream) {
  const auto after = std::ranges::upper_bound(tiles, range.begin, {}, &Tile::address);
  if (after == tiles.begin()) return nullptr;
  const Tile& first = *std::prev(after);
  Address at = range.begin;
  Bytes left = range.size;
  // The end of the range is not computed: a caller may give any address, and the sum may be above the last one.
  for (auto tile = std::prev(after); tile != tiles.end(); ++tile) {
    const Block& block = *tile->block;
    if (block.memory != first.block->memory || block.stream != stream || at < block.address || block.end() <= at)
      return nullptr;
    if (left <= block.end() - at) return first.space;
    left = left - (block.end() - at);
    at = block.end();
  }
  return nullptr;
}

void require_aligned_and_apart(GraphPoolId id, std::span<const EarlierBlock> earlier) {
  std::vector<AddressRange> ranges;
  for (const EarlierBlock& block : earlier) {
    if (block.range.begin.value % kAlignment != 0 || block.range.size.count % kAlignment != 0 ||
        block.range.size.count == 0)
      refuse_state(id, block.range, "are not a whole number of 512 bytes at a multiple of 512");
    ranges.push_back(block.range);
  }
  std::ranges::sort(ranges, {}, &AddressRange::begin);
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].begin - ranges[i - 1].begin < ranges[i - 1].size) refuse_state(id, ranges[i], "are named twice");
}

}  // namespace

bool Pool::is_used_by_its_stream_alone(const Block& live) {
  const auto is_busy = [this](StreamId stream) { return !events_.progress().is_idle(stream); };
  return live.give_back == GiveBack::cached && (live.user == live.stream || !is_busy(live.user)) &&
         std::ranges::none_of(live.users, is_busy);
}

std::vector<Block*> Pool::restore(GraphPoolId id, std::span<Block* const> live, std::span<const EarlierBlock> earlier,
                                  const std::function<void()>& decided) {
  const RelaxedCapture relaxed(events_.driver());
  if (pending_.count() > 0) poll_events();
  require_aligned_and_apart(id, earlier);
  for (const Block* block : live)
    if (!is_used_by_its_stream_alone(*block))
      refuse_state(id, {block->address, block->size}, "are in use on another stream; wait for that stream first");
  const std::vector<Tile> tiles = tiles_of(spaces_, id);
  std::vector<Space*> spaces;
  for (const EarlierBlock& block : earlier) {
    spaces.push_back(space_with(tiles, block.range, block.stream));
    if (spaces.back() == nullptr)
      refuse_state(id, block.range,
                   "are not its memory for this stream, or another stream still uses what was freed there; keep the "
                   "graph pool captured, and wait for that stream first");
  }
  std::vector<Block*> taken;
  taken.reserve(earlier.size());
  decided();
  for (Block* block : live) {
    block->users.clear();  // their work is done
    note_free(*block, block->user);
    make_free(block);
  }
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    const auto& [range, requested, stream] = earlier[i];
    Block* block = spaces[i]->facets().chosen_addresses->take_range(range, stream);
    taken.push_back(
        hand_out(*spaces[i], block, requested, stream, begin_request(*spaces[i], requested, stream, nullptr)));
  }
  return taken;
}

}  // namespace memlake
