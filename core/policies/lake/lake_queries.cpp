// The part of LakeSpace that answers questions about its blocks and figures.

#include <algorithm>

#include "base/error.hpp"
#include "policies/lake/lake_space.hpp"

namespace memlake {

void LakeSpace::for_each_owner(const Block& block, const std::function<void(StreamId)>& visit) const {
  const auto& mine = static_cast<const LakeBlock&>(block);
  visit(static_cast<const Range&>(*mine.memory).lane.stream);
  if (mine.view == nullptr) return;
  for (const View::Piece& piece : mine.view->pieces) visit(piece.lent->stream);
}

void LakeSpace::for_each(const std::function<void(const Block&)>& visit) const { map_.lanes().for_each_block(visit); }

Bytes LakeSpace::largest_free() const {
  Bytes largest{0};
  for (std::size_t stream = 0; stream < map_.lanes().stream_count(); ++stream)
    largest = std::max(largest, largest_free(static_cast<StreamId>(stream)));
  return largest;
}

Bytes LakeSpace::largest_free(StreamId stream) const {
  Bytes largest{0};
  for (const bool is_small : {true, false})
    if (const Lane* lane = map_.lanes().known(stream, is_small); lane != nullptr)
      for (const FreeIndex* index : {&lane->free, &lane->spilled})
        if (!index->is_empty()) largest = std::max(largest, index->last()->size);
  return largest;
}

SmallPart LakeSpace::small_part() const {
  SmallPart part;
  for (const auto& chunk : map_.chunks())
    if (chunk->is_small && !chunk->is_spilled) part.held = part.held + chunk->size;
  map_.lanes().for_each([&](const Lane& lane) { part.segments += lane.is_small() ? lane.ranges.size() : 0; });
  return part;
}

std::vector<Counter> LakeSpace::counters() const {
  return {{"aliasing", word_of(level_)},
          {"moved_chunks", gatherer_.moved_chunks()},
          {"borrowed_pieces", gatherer_.borrowed_pieces()},
          {"stream_waits", waits_.stream_waits},
          {"reused_by_event", waits_.reused_by_event},
          {"reused_opportunistically", waits_.reused_opportunistically},
          {"chunks", map_.chunks().size()},
          {"reserved_addresses", reserved_addresses().count}};
}

void LakeSpace::for_each_piece(const Block& block, const std::function<void(std::size_t, Bytes)>& visit) const {
  const auto& mine = static_cast<const LakeBlock&>(block);
  Address at = mine.address;
  if (mine.view != nullptr) {
    const auto& pieces = mine.view->pieces;  // from high to low
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
      visit(piece->chunk->device, piece->lent->size);
      at = at + piece->lent->size;
    }
  }
  const Range& range = static_cast<const Range&>(*mine.memory);
  while (at < mine.end()) {
    const LakeChunk* chunk = range.chunk_at(at);
    const Address end = std::min(chunk->at().end(), mine.end());
    visit(chunk->device, end - at);
    at = end;
  }
}

void LakeSpace::change_access(const Devices& added, const Devices& removed) {
  std::vector<AddressRange> ranges;
  for (const auto& chunk : map_.chunks()) ranges.push_back(chunk->at());
  map_.lanes().for_each_block([&](const LakeBlock& block) {
    if (block.view == nullptr) return;
    for (const View::Piece& piece : block.view->pieces) ranges.push_back(piece.mapping.range());
  });
  reach_.change_rights(ranges, added, removed);
}

ExportedRange LakeSpace::export_chunks(const Block& block) const {
  if (!homes_.is_exportable())
    throw Error(ErrorKind::config,
                "the chunks of this pool were not made to be passed to other processes, or the device cannot do that");
  const auto& mine = static_cast<const LakeBlock&>(block);
  ExportedRange exported;
  const auto add = [&](const LakeChunk& chunk, Bytes size) {
    if (chunk.device >= homes_.count())
      throw Error(ErrorKind::config, "a part of the memory lies on the host, which other processes cannot be given");
    exported.chunks.push_back({Descriptor(chunk.memory->export_fd()), size, chunk.device});
  };
  Address at = mine.address;
  if (mine.view != nullptr) {
    const auto& pieces = mine.view->pieces;  // from high to low
    exported.offset = mine.address - pieces.back().mapping.range().begin;
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece)
      add(*piece->chunk, piece->mapping.range().size);  // it ends where the next one begins
    at = mine.view->top;
  } else {
    exported.offset = at - static_cast<const Range&>(*mine.memory).chunk_at(at)->address;
  }
  while (at < mine.end()) {
    const LakeChunk* chunk = static_cast<const Range&>(*mine.memory).chunk_at(at);
    add(*chunk, chunk->size);
    at = chunk->at().end();
  }
  return exported;
}

std::uint64_t LakeSpace::generation(const Block& block) const {
  const auto& mine = static_cast<const LakeBlock&>(block);
  const Range& range = static_cast<const Range&>(*mine.memory);
  std::uint64_t latest = mine.view == nullptr ? 0 : mine.view->since;
  for (Address at = mine.view == nullptr ? mine.address : mine.view->top; at < mine.end();) {
    const LakeChunk* chunk = range.chunk_at(at);
    latest = std::max(latest, chunk->since);
    at = chunk->at().end();
  }
  return latest;
}

}  // namespace memlake
