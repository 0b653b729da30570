// Verifies what must always hold of a lake, from its blocks and chunks.

#include <map>

#include "policies/lake/lake_space.hpp"

namespace memlake {

namespace {

bool is_used(const LakeBlock& block) { return block.state == BlockState::live || block.state == BlockState::pending; }

/// Every page under [begin, end) is that of a chunk that is at home there.
bool has_memory(const Range& range, Address begin, Address end) {
  while (begin < end) {
    const LakeChunk* chunk = range.chunk_at(begin);
    if (chunk == nullptr || chunk->range != &range || !chunk->at().contains(begin)) return false;
    begin = chunk->at().end();
  }
  return true;
}

/// Free memory of the host lies apart from that of devices.
bool is_of_one_kind(const Range& range, const LakeBlock& block) {
  for (Address at = block.address; at < block.end(); at = range.chunk_at(at)->at().end())
    if (range.chunk_at(at) == nullptr || range.chunk_at(at)->is_spilled != block.is_spilled) return false;
  return true;
}

bool has_no_memory(const Range& range, AddressRange part) {
  for (Address at = part.begin; at < part.end(); at = at + range.page)
    if (range.chunk_at(at) != nullptr) return false;
  return true;
}

}  // namespace

void LakeSpace::check(InvariantReport& report) const {
  std::map<const LakeBlock*, int> shown;  // lent blocks, by how many views show them
  Bytes used{0};
  std::size_t free_blocks = 0;
  Bytes home_bytes{0};
  for (const auto& lanes : lanes_)
    for (const auto& lane : lanes) {
      if (lane == nullptr) continue;
      for (const auto& range : lane->ranges) {
        home_bytes = home_bytes + range->home;
        Address next = range->range.begin;
        const LakeBlock* below = nullptr;
        for (const LakeBlock* block = range->lowest; block != nullptr; block = block->above()) {
          if (block->address != next || block->size.count == 0)
            report.add("I1: ", place(*block), " leaves a gap or overlaps what is below it");
          if (block->below() != below) report.add("I1: ", place(*block), " is not linked to its neighbour");
          if (below != nullptr && below->state == block->state &&
              ((block->state == BlockState::free && below->is_spilled == block->is_spilled) ||
               block->state == BlockState::unmapped))
            report.add("I2: ", place(*block), " is in the same state as the block below it, but was not merged");
          Address begin = block->address;
          if (block->view != nullptr) {
            begin = block->view->top;
            Bytes lent{0};
            for (const View::Piece& piece : block->view->pieces) {
              ++shown[piece.lent];
              lent = lent + piece.lent->size;
              if (piece.lent->address != piece.chunk->address + piece.begin)
                report.add("I3: ", place(*block), " shows other bytes than were lent to it");
            }
            if (block->address + lent != begin || !is_used(*block))
              report.add("I3: ", place(*block), " shows more or less than was lent to it");
          }
          const bool is_mapped = is_used(*block) || block->state == BlockState::free ||
                                 block->state == BlockState::lent || block->state == BlockState::claimed;
          if (is_mapped && !has_memory(*range, begin, block->end()))
            report.add("I3: ", place(*block), " has a page without memory");
          if (block->state == BlockState::unmapped && !has_no_memory(*range, {block->address, block->size}))
            report.add("I3: ", place(*block), " is unmapped but has memory behind it");
          if (block->state == BlockState::free && !is_of_one_kind(*range, *block))
            report.add("I6: ", place(*block), " is offered as memory of ", block->is_spilled ? "the host" : "devices",
                       ", but lies elsewhere, too");
          if (is_used(*block)) used = used + block->size;
          free_blocks += block->state == BlockState::free ? 1U : 0U;
          if (block->state == BlockState::free && block->stream != lane->stream)
            report.add("I6: ", place(*block), " is offered to another stream without an event");
          next = block->end();
          below = block;
        }
        if (next != range->range.end() || range->highest != below)
          report.add("I1: the last block of a range does not reach its end");
      }
      for (const FreeIndex* index : {&lane->free, &lane->spilled})
        for (const Block* block = index->first(); block != nullptr; block = index->after(block)) {
          --free_blocks;
          if (block->state != BlockState::free) report.add("I6: ", place(*block), " is offered but not free");
          if (static_cast<const LakeBlock*>(block)->is_spilled != (index == &lane->spilled))
            report.add("I6: ", place(*block), " is offered as what it is not");
        }
    }
  if (free_blocks != 0) report.add("I6: a free block is not offered");
  for_each([&](const Block& block) {
    const auto found = shown.find(static_cast<const LakeBlock*>(&block));
    const int times = found == shown.end() ? 0 : found->second;
    if (times != (block.state == BlockState::lent ? 1 : 0))
      report.add("I3: ", place(block), " is lent, but shown by ", times, " views");
  });
  Bytes held{0};
  Bytes on_host{0};
  for (const auto& chunk : chunks_) {
    (chunk->is_spilled ? on_host : held).count += chunk->size.count;
    if (chunk->range == nullptr || !chunk->home || chunk->home->range() != chunk->at())
      report.add("I4: a chunk of ", chunk->size.count, " bytes is not at home anywhere");
    if (chunks_[chunk->place] != chunk) report.add("I4: a chunk is not where the pool looks for it");
  }
  if (held != ledger_.held() || on_host != ledger_.spilled().now || home_bytes != held + on_host)
    report.add("I4: chunks have ", held.count, " bytes and ", on_host.count, " on the host, ranges ", home_bytes.count,
               ", but ", ledger_.held().count, " and ", ledger_.spilled().now.count, " are held");
  std::vector<Bytes> on(homes_.size());
  for (const auto& chunk : chunks_)
    if (!chunk->is_spilled) on[home_of(*chunk)] = on[home_of(*chunk)] + chunk->size;
  for (std::size_t i = 0; i < on.size(); ++i)
    if (on[i] != ledger_.held_on(i))
      report.add("I4: chunks on device ", i, " have ", on[i].count, " bytes, but ", ledger_.held_on(i).count,
                 " are held");
  if (used != used_) report.add("I7: ", used.count, " bytes are in use, but ", used_.count, " are counted");
}

}  // namespace memlake
