#include "snapshots/segments.hpp"

#include <string_view>

#include "snapshots/fields.hpp"
#include "snapshots/limits.hpp"

namespace memlake::snapshots {
namespace {

using pickles::Kind;
using pickles::Value;

// What a segment and a block take in these columns and later as objects of Python.
constexpr std::uint64_t kSegmentBytes = 512;
constexpr std::uint64_t kBlockBytes = 384;
constexpr std::uint64_t kLargestDevice = (std::uint64_t{1} << 31) - 1;
// The size of a small segment in all versions of PyTorch: kSmallBuffer in c10/core/AllocatorConfig.h.
constexpr std::uint64_t kSmallSegment = 2 * 1024 * 1024;

std::optional<BlockState> state_in(const pickles::Document& document, std::optional<Value> field) {
  if (!field || field->kind() != Kind::text) return std::nullopt;
  const std::string_view state = document.text(*field);
  if (state == "active_allocated") return BlockState::live;
  if (state == "active_pending_free" || state == "active_awaiting_free") return BlockState::pending;
  if (state == "inactive") return BlockState::free;
  return std::nullopt;
}

class SegmentReader {
 public:
  SegmentReader(pickles::Document& document, Stacks& stacks)
      : document_(document),
        stacks_(stacks),
        segment_fields_(document, {"device", "address", "total_size", "segment_type", "segment_pool_id", "blocks",
                                   "stream", "is_expandable"}),
        block_fields_(document, {"size", "state", "frames", "history", "requested_size", "address"}),
        history_fields_(document, {"real_size", "frames"}) {}

  std::optional<WrongSegment> read(std::uint64_t number, Value value) {
    const WrongSegment wrong{number};
    if (value.kind() != Kind::dict) return wrong;
    document_.allowance.spend(kSegmentBytes);
    const auto [device, address, nbytes, type, pool, blocks, stream, is_expandable] = segment_fields_.of(value);
    const auto on = number_in(document_, device, kLargestDevice, 0);
    const auto begin = number_in(document_, address, ~std::uint64_t{0});
    const auto size = number_in(document_, nbytes, kLargestSize);
    if (!on || !begin || !size || (type && type->kind() != Kind::text)) return wrong;
    if (blocks && blocks->kind() != Kind::none) {
      if (blocks->kind() != Kind::list) return wrong;
      if (const auto place = read_blocks(document_.items(*blocks), *begin)) return WrongSegment{number, place};
    }
    const auto handle = stream_in(document_, stream);
    if (!handle) return wrong;
    columns_.device.push_back(static_cast<std::uint32_t>(*on));
    columns_.address.push_back(*begin);
    columns_.nbytes.push_back(*size);
    columns_.stream.push_back(*handle);
    columns_.is_small.push_back(type ? document_.text(*type) == "small" : *size <= kSmallSegment);
    columns_.is_expandable.push_back(is_expandable && *is_expandable == Value(Kind::boolean, 1));
    const auto [first, second] = pool_in(pool);
    columns_.pool_first.push_back(first);
    columns_.pool_second.push_back(second);
    columns_.first_block.push_back(columns_.blocks.address.size());
    return std::nullopt;
  }

  SegmentColumns take() { return std::move(columns_); }

 private:
  /// The place of the first wrong block. Blocks of torch 2.0 have no address: they tile their segment.
  std::optional<std::uint64_t> read_blocks(std::span<const Value> blocks, std::uint64_t expected) {
    for (std::uint64_t place = 0; place < blocks.size(); ++place) {
      if (blocks[place].kind() != Kind::dict || !read_block(blocks[place], expected)) return place;
      expected = columns_.blocks.address.back() + columns_.blocks.nbytes.back();
    }
    return std::nullopt;
  }

  bool read_block(Value block, std::uint64_t expected) {
    document_.allowance.spend(kBlockBytes);
    auto [nbytes, state_field, frames, history, requested_field, address] = block_fields_.of(block);
    const auto size = number_in(document_, nbytes, kLargestSize);
    const auto state = state_in(document_, state_field);
    if (!size || !state) return false;
    std::uint64_t asked = *size;
    if (history && history->kind() == Kind::list && !document_.items(*history).empty()) {
      const Value first = document_.items(*history).front();
      if (first.kind() == Kind::dict) {
        const auto [real_size, real_frames] = history_fields_.of(first);
        asked = number_in(document_, real_size, *size, *size).value_or(*size);
        frames = real_frames;
      }
    }
    // PyTorch keeps the size of the last request in a free block.
    const auto requested = *state == BlockState::free ? std::optional<std::uint64_t>(0)
                                                      : number_in(document_, requested_field, kLargestSize, asked);
    const auto at = number_in(document_, address, ~std::uint64_t{0}, expected);
    if (!requested || !at) return false;
    columns_.blocks.address.push_back(*at);
    columns_.blocks.nbytes.push_back(*size);
    columns_.blocks.requested.push_back(*requested);
    columns_.blocks.state.push_back(static_cast<std::uint8_t>(*state));
    columns_.blocks.stack.push_back(frames ? stacks_.number_of(*frames) : 0);
    return true;
  }

  /// The two numbers of a pool; zeros for PyTorch's own pool, and for what names no pool.
  std::pair<std::int64_t, std::int64_t> pool_in(std::optional<Value> field) const {
    if (!field || (field->kind() != Kind::tuple && field->kind() != Kind::list)) return {0, 0};
    const std::span<const Value> parts = document_.items(*field);
    if (parts.size() != 2) return {0, 0};
    const auto first = document_.signed_whole(parts[0]);
    const auto second = document_.signed_whole(parts[1]);
    return first && second ? std::pair(*first, *second) : std::pair<std::int64_t, std::int64_t>{0, 0};
  }

  pickles::Document& document_;
  Stacks& stacks_;
  Fields<8> segment_fields_;
  Fields<6> block_fields_;
  Fields<2> history_fields_;
  SegmentColumns columns_;
};

}  // namespace

std::variant<SegmentColumns, WrongSegment> read_segments(pickles::Document& document, std::span<const Value> segments,
                                                         Stacks& stacks) {
  SegmentReader reader(document, stacks);
  std::uint64_t number = 0;
  for (const Value segment : segments)
    if (const auto wrong = reader.read(number++, segment)) return *wrong;
  return reader.take();
}

}  // namespace memlake::snapshots
