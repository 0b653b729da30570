// Verifies what must always hold of a lake, from its blocks and chunks.

#include <map>
#include <unordered_set>

#include "policies/lake/lake_space.hpp"

namespace memlake {

namespace {

/// All chunks of a space: a pointer that is not among them must not be followed.
using Chunks = std::unordered_set<const LakeChunk*>;
/// Lent blocks, by how many views show them.
using Shown = std::map<const Block*, int>;

bool is_used(const LakeBlock& block) { return block.state == BlockState::live || block.state == BlockState::pending; }

/// The chunk that is at home at an address of the range; null if none is.
const LakeChunk* chunk_at(const Range& range, Address at, const Chunks& chunks) {
  const LakeChunk* chunk = range.chunk_at(at);
  const bool is_there = chunks.contains(chunk) && chunk->range == &range && chunk->at().contains(at);
  return is_there ? chunk : nullptr;
}

/// Every page under [begin, end) is that of a chunk that is at home there.
bool has_memory(const Range& range, Address begin, Address end, const Chunks& chunks) {
  while (begin < end) {
    const LakeChunk* chunk = chunk_at(range, begin, chunks);
    if (chunk == nullptr) return false;
    begin = chunk->at().end();
  }
  return true;
}

/// Free memory of the host lies apart from that of devices.
bool is_of_one_kind(const Range& range, const LakeBlock& block, const Chunks& chunks) {
  Address at = block.address;
  while (at < block.end()) {
    const LakeChunk* chunk = chunk_at(range, at, chunks);
    if (chunk == nullptr || chunk->is_spilled != block.is_spilled) return false;
    at = chunk->at().end();
  }
  return true;
}

bool has_no_memory(const Range& range, AddressRange part) {
  for (Address at = part.begin; at < part.end(); at = at + range.page)
    if (range.chunk_at(at) != nullptr) return false;
  return true;
}

/// I1. Ends at the first block that is wrong: from there the links may lead anywhere.
void check_tiling(const Range& range, InvariantReport& report) {
  Address next = range.range.begin;
  const LakeBlock* below = nullptr;
  for (const LakeBlock* block = range.lowest; block != nullptr && !report.sentence; block = block->above()) {
    if (block->address != next || block->size.count == 0)
      report.add("I1: ", place(*block), " leaves a gap or overlaps what is below it");
    if (block->below() != below) report.add("I1: ", place(*block), " is not linked to its neighbour");
    next = block->end();
    below = block;
  }
  if (next != range.range.end() || range.highest != below)
    report.add("I1: the last block of a range does not reach its end");
}

/// I3 of a block that shows what is at home elsewhere.
void check_view(const LakeBlock& block, const Chunks& chunks, Shown& shown, InvariantReport& report) {
  Bytes lent{0};
  for (const View::Piece& piece : block.view->pieces) {
    if (piece.lent == nullptr || !chunks.contains(piece.chunk) ||
        piece.lent->address != piece.chunk->address + piece.begin) {
      report.add("I3: ", place(block), " shows other bytes than were lent to it");
      return;
    }
    ++shown[piece.lent];
    lent = lent + piece.lent->size;
  }
  if (block.address + lent != block.view->top || !is_used(block))
    report.add("I3: ", place(block), " shows more or less than was lent to it");
}

/// I2 and I3 of one block, and that it may be offered as what it is (I6). pre: I1.
void check_block(const Range& range, const LakeBlock& block, const Chunks& chunks, InvariantReport& report) {
  const LakeBlock* below = block.below();
  if (below != nullptr && below->state == block.state &&
      ((block.state == BlockState::free && below->is_spilled == block.is_spilled) ||
       block.state == BlockState::unmapped))
    report.add("I2: ", place(block), " is in the same state as the block below it, but was not merged");
  const bool is_mapped = is_used(block) || block.state == BlockState::free || block.state == BlockState::lent ||
                         block.state == BlockState::claimed;
  const Address begin = block.view == nullptr ? block.address : block.view->top;
  if (is_mapped && !has_memory(range, begin, block.end(), chunks))
    report.add("I3: ", place(block), " has a page without memory");
  if (block.state == BlockState::unmapped && !has_no_memory(range, {block.address, block.size}))
    report.add("I3: ", place(block), " is unmapped but has memory behind it");
  if (block.state != BlockState::free) return;
  if (!is_of_one_kind(range, block, chunks))
    report.add("I6: ", place(block), " is offered as memory of ", block.is_spilled ? "the host" : "devices",
               ", but lies elsewhere, too");
  if (block.stream != range.lane.stream)
    report.add("I6: ", place(block), " is offered to another stream without an event");
}

/// I6: the lane offers free blocks of its own, each once and as what it is; `offered` collects them.
void check_offers(const Lane& lane, std::unordered_set<const Block*>& offered, InvariantReport& report) {
  for (const FreeIndex* index : {&lane.free, &lane.spilled})
    index->for_each_entry([&](const Block& block, bool is_current) {
      if (!offered.insert(&block).second) report.add("I6: ", place(block), " is offered twice");
      if (!is_current) {
        report.add("I6: ", place(block), " is offered with another size or at another address");
        return;
      }
      if (block.state != BlockState::free) report.add("I6: ", place(block), " is offered but not free");
      if (static_cast<const LakeBlock&>(block).is_spilled != (index == &lane.spilled))
        report.add("I6: ", place(block), " is offered as what it is not");
      if (&static_cast<const Range&>(*block.memory).lane != &lane)
        report.add("I6: ", place(block), " is offered by a lane that it does not lie in");
    });
}

/// Sums over the blocks of all lanes.
struct Sums {
  Bytes used{0};
  Bytes home{0};
  std::size_t free_blocks = 0;
};

/// I1 to I3 of the blocks of a lane, and I6 of its offers.
void check_lane(const Lane& lane, const Chunks& chunks, Shown& shown, std::unordered_set<const Block*>& offered,
                Sums& sums, InvariantReport& report) {
  for (const auto& range : lane.ranges) {
    sums.home = sums.home + range->home;
    for (const LakeBlock* block = range->lowest; block != nullptr; block = block->above()) {
      if (block->view != nullptr) check_view(*block, chunks, shown, report);
      check_block(*range, *block, chunks, report);
      if (is_used(*block)) sums.used = sums.used + block->size;
      sums.free_blocks += block->state == BlockState::free ? 1U : 0U;
    }
  }
  check_offers(lane, offered, report);
}

/// I3: a lent block is shown by one view, any other block by none.
void check_shown(const Block& block, const Shown& shown, InvariantReport& report) {
  const auto found = shown.find(&block);
  const int times = found == shown.end() ? 0 : found->second;
  const bool is_lent = block.state == BlockState::lent;
  if (times != (is_lent ? 1 : 0))
    report.add("I3: ", place(block), is_lent ? " is lent" : " is not lent", ", but shown by ", times, " views");
}

/// I4: every chunk is at home, and the map finds it.
void check_chunk(const LakeMap& map, const std::unique_ptr<LakeChunk>& chunk, InvariantReport& report) {
  if (chunk->range == nullptr || !chunk->home || chunk->home->range() != chunk->at())
    report.add("I4: a chunk of ", chunk->size.count, " bytes is not at home anywhere");
  if (chunk->place >= map.chunks().size() || map.chunks()[chunk->place] != chunk)
    report.add("I4: a chunk is not where the pool looks for it");
}

/// I4: the ledger has the bytes of the chunks. `home`: the bytes that ranges are the home of.
void check_ledger(const LakeMap& map, const LakeHomes& homes, const Ledger& ledger, Bytes home,
                  InvariantReport& report) {
  Bytes held{0};
  Bytes on_host{0};
  std::vector<Bytes> on(homes.count());
  for (const auto& chunk : map.chunks()) {
    (chunk->is_spilled ? on_host : held).count += chunk->size.count;
    if (!chunk->is_spilled) on[homes.home_of(*chunk)] = on[homes.home_of(*chunk)] + chunk->size;
  }
  if (held != ledger.held() || on_host != ledger.spilled().now || home != held + on_host)
    report.add("I4: chunks have ", held.count, " bytes and ", on_host.count, " on the host, ranges ", home.count,
               ", but ", ledger.held().count, " and ", ledger.spilled().now.count, " are held");
  for (std::size_t i = 0; i < on.size(); ++i)
    if (on[i] != ledger.held_on(i))
      report.add("I4: chunks on device ", i, " have ", on[i].count, " bytes, but ", ledger.held_on(i).count,
                 " are held");
}

}  // namespace

void LakeSpace::check(InvariantReport& report) const {
  map_.lanes().for_each_range([&](const Range& range) { check_tiling(range, report); });
  if (report.sentence) return;  // what follows trusts the links of the blocks

  Chunks chunks;
  for (const auto& chunk : map_.chunks()) chunks.insert(chunk.get());
  Shown shown;
  std::unordered_set<const Block*> offered;
  Sums sums;
  map_.lanes().for_each([&](const Lane& lane) { check_lane(lane, chunks, shown, offered, sums, report); });
  if (sums.free_blocks != offered.size())
    report.add("I6: ", sums.free_blocks, " blocks are free, but ", offered.size(), " are offered");
  for_each([&](const Block& block) { check_shown(block, shown, report); });
  for (const auto& chunk : map_.chunks()) check_chunk(map_, chunk, report);
  check_ledger(map_, homes_, ledger_, sums.home, report);
  if (sums.used != map_.used())
    report.add("I7: ", sums.used.count, " bytes are in use, but ", map_.used().count, " are counted");
}

}  // namespace memlake
