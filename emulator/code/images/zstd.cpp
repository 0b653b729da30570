#include "code/images/zstd.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "code/images/entropy.hpp"

namespace memlake::emulator {

namespace {

constexpr std::uint32_t kMagic = 0xFD2FB528;
constexpr std::uint64_t kLargestBlock = 128 << 10;

struct Code {
  std::uint32_t base;
  std::uint8_t bits;
};

constexpr std::array<Code, 36> kLiteralCodes{
    {{0, 0},   {1, 0},   {2, 0},     {3, 0},     {4, 0},     {5, 0},     {6, 0},      {7, 0},      {8, 0},
     {9, 0},   {10, 0},  {11, 0},    {12, 0},    {13, 0},    {14, 0},    {15, 0},     {16, 1},     {18, 1},
     {20, 1},  {22, 1},  {24, 2},    {28, 2},    {32, 3},    {40, 3},    {48, 4},     {64, 6},     {128, 7},
     {256, 8}, {512, 9}, {1024, 10}, {2048, 11}, {4096, 12}, {8192, 13}, {16384, 14}, {32768, 15}, {65536, 16}}};

constexpr std::array<Code, 53> kMatchCodes = [] {
  std::array<Code, 53> codes{};
  for (std::uint32_t i = 0; i < 32; ++i) codes[i] = {i + 3, 0};
  constexpr std::array<Code, 21> kLong{{{35, 1},     {37, 1},     {39, 1},    {41, 1},    {43, 2},    {47, 2},
                                        {51, 3},     {59, 3},     {67, 4},    {83, 4},    {99, 5},    {131, 7},
                                        {259, 8},    {515, 9},    {1027, 10}, {2051, 11}, {4099, 12}, {8195, 13},
                                        {16387, 14}, {32771, 15}, {65539, 16}}};
  std::ranges::copy(kLong, codes.begin() + 32);
  return codes;
}();

constexpr std::array<int, 36> kLiteralProbabilities{4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
                                                    2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
constexpr std::array<int, 53> kMatchProbabilities{1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                                  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                                  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};
constexpr std::array<int, 29> kOffsetProbabilities{1, 1, 1, 1, 1, 1, 2, 2, 2, 1,  1,  1,  1,  1, 1,
                                                   1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};

/// Decompresses the blocks of one frame. Tables and offsets go on from block to block.
class Decoder {
 public:
  explicit Decoder(std::uint64_t size) : size_(size) {}

  std::vector<char> frame(Bytes bytes) {
    std::uint64_t at = header_size(bytes);
    for (bool is_last = false; !is_last;) {
      const auto low = bytes.number<std::uint16_t>(at, "a compressed part");
      const std::uint32_t head = low | std::uint32_t{bytes.number<std::uint8_t>(at + 2, "a compressed part")} << 16;
      at += 3;
      is_last = (head & 1) != 0;
      const unsigned kind = head >> 1 & 3;
      const std::uint64_t size = head >> 3;
      if (kind == 3 || size > kLargestBlock) cannot_decompress();
      const Bytes content = bytes.part(at, kind == 1 ? 1 : size, "a compressed part");
      at += content.size();
      if (kind == 2) {
        block(content);
      } else {
        check_room(size);
        if (kind == 0) out_.insert(out_.end(), content.data(), content.data() + size);
        if (kind == 1) out_.insert(out_.end(), size, content.data()[0]);
      }
    }
    if (out_.size() != size_) cannot_decompress();
    return std::move(out_);
  }

 private:
  enum Kind : std::size_t { literals = 0, offsets = 1, matches = 2 };

  static std::uint64_t header_size(Bytes bytes) {
    if (bytes.number<std::uint32_t>(0, "a compressed part") != kMagic) cannot_decompress();
    const auto flags = bytes.number<std::uint8_t>(4, "a compressed part");
    constexpr std::array<std::uint64_t, 4> kSizes{0, 2, 4, 8};
    const bool is_single = (flags & 0x20) != 0;
    if ((flags & 3) != 0) cannot_decompress();  // a dictionary, which fatbins do not have
    const std::uint64_t content = flags >> 6 == 0 && is_single ? 1 : kSizes[flags >> 6];
    return 5 + (is_single ? 0 : 1) + content;
  }

  void check_room(std::uint64_t more) const {
    if (more > size_ - out_.size()) cannot_decompress();
  }

  void block(Bytes bytes) {
    std::uint64_t at = 0;
    const std::vector<char> plain = read_literals(bytes, at);
    std::uint64_t used = 0;
    const auto count = bytes.number<std::uint8_t>(at++, "a compressed part");
    std::uint64_t sequences = count;
    if (count >= 128 && count < 255) {
      sequences = (count - 128U) * 256U + bytes.number<std::uint8_t>(at++, "a compressed part");
    } else if (count == 255) {
      sequences = std::uint64_t{bytes.number<std::uint16_t>(at, "a compressed part")} + 0x7F00;
      at += 2;
    }
    if (sequences > 0) {
      const auto modes = bytes.number<std::uint8_t>(at++, "a compressed part");
      read_table(literals, modes >> 6, bytes, at, {kLiteralProbabilities, 6}, 9, kLiteralCodes.size());
      read_table(offsets, modes >> 4 & 3, bytes, at, {kOffsetProbabilities, 5}, 8, 32);
      read_table(matches, modes >> 2 & 3, bytes, at, {kMatchProbabilities, 6}, 9, kMatchCodes.size());
      run_sequences(BackwardBits(bytes.part(at, bytes.size() - at, "a compressed part")), sequences, plain, used);
    }
    check_room(plain.size() - used);
    out_.insert(out_.end(), plain.begin() + static_cast<std::ptrdiff_t>(used), plain.end());
  }

  std::vector<char> read_literals(Bytes bytes, std::uint64_t& at) {
    const auto byte = [&](std::uint64_t i) {
      return std::uint64_t{bytes.number<std::uint8_t>(i, "a compressed part")};
    };
    const unsigned kind = byte(0) & 3;
    const unsigned format = byte(0) >> 2 & 3;
    if (kind < 2) {  // plain bytes, or one byte repeated
      at = format == 1 ? 2 : format == 3 ? 3 : 1;
      const std::uint64_t size = at == 1   ? byte(0) >> 3
                                 : at == 2 ? byte(0) >> 4 | byte(1) << 4
                                           : byte(0) >> 4 | byte(1) << 4 | byte(2) << 12;
      if (size > kLargestBlock) cannot_decompress();
      const Bytes content = bytes.part(at, kind == 0 ? size : 1, "a compressed part");
      at += content.size();
      if (kind == 1) return std::vector<char>(size, content.data()[0]);
      return {content.data(), content.data() + size};
    }
    at = format < 2 ? 3 : format + 2;
    std::uint64_t head = 0;
    for (std::uint64_t i = 0; i < at; ++i) head |= byte(i) << (8 * i);
    const unsigned bits = format < 2 ? 10 : format == 2 ? 14 : 18;
    const std::uint64_t size = head >> 4 & ((1U << bits) - 1);
    const std::uint64_t compressed = head >> (4 + bits) & ((1U << bits) - 1);
    if (size > kLargestBlock) cannot_decompress();
    Bytes content = bytes.part(at, compressed, "a compressed part");
    at += compressed;
    if (kind == 2) {
      std::uint64_t table = 0;
      huffman_ = HuffmanTable::read(content, table);
      if (table > content.size()) cannot_decompress();
      content = content.part(table, content.size() - table, "a compressed part");
    }
    if (huffman_.is_empty()) cannot_decompress();
    return format == 0 ? one_stream(content, size) : four_streams(content, size);
  }

  [[nodiscard]] std::vector<char> one_stream(Bytes content, std::uint64_t size) const {
    std::vector<char> plain;
    huffman_.decode(content, size, plain);
    return plain;
  }

  [[nodiscard]] std::vector<char> four_streams(Bytes content, std::uint64_t size) const {
    std::vector<char> plain;
    const std::uint64_t each = (size + 3) / 4;
    if (3 * each > size) cannot_decompress();
    std::uint64_t at = 6;
    for (std::uint64_t i = 0; i < 4; ++i) {
      const std::uint64_t length = i < 3 ? content.number<std::uint16_t>(2 * i, "a compressed part")
                                         : content.size() - std::min(at, content.size());
      huffman_.decode(content.part(at, length, "a compressed part"), i < 3 ? each : size - 3 * each, plain);
      at += length;
    }
    return plain;
  }

  struct Default {
    std::span<const int> probabilities;
    int accuracy;
  };

  void read_table(Kind kind, unsigned mode, Bytes bytes, std::uint64_t& at, const Default& known, int most_accuracy,
                  std::size_t most_symbols) {
    FseTable& table = tables_[kind];
    if (mode == 0) {
      table = FseTable(known.probabilities, known.accuracy);
    } else if (mode == 1) {
      const auto symbol = bytes.number<std::uint8_t>(at++, "a compressed part");
      if (symbol >= most_symbols) cannot_decompress();
      table = FseTable::of_one(symbol);
    } else if (mode == 2) {
      std::uint64_t size = 0;
      table = FseTable::read(bytes.part(at, bytes.size() - at, "a compressed part"), most_accuracy, most_symbols, size);
      at += size;
    } else if (table.is_empty()) {
      cannot_decompress();
    }
  }

  void run_sequences(BackwardBits bits, std::uint64_t count, const std::vector<char>& plain, std::uint64_t& used) {
    std::array<std::uint64_t, 3> states{};
    for (const Kind kind : {literals, offsets, matches}) states[kind] = bits.read(tables_[kind].accuracy());
    for (std::uint64_t i = 0; i < count; ++i) {
      const int offset_bits = tables_[offsets].symbol(states[offsets]);
      const Code match = kMatchCodes[tables_[matches].symbol(states[matches])];
      const Code literal = kLiteralCodes[tables_[literals].symbol(states[literals])];
      const std::uint64_t value = (std::uint64_t{1} << offset_bits) + bits.read(offset_bits);
      const std::uint64_t length = match.base + bits.read(match.bits);
      const std::uint64_t before = literal.base + bits.read(literal.bits);
      if (i + 1 < count)
        for (const Kind kind : {literals, matches, offsets}) states[kind] = tables_[kind].next(states[kind], bits);
      if (bits.left() < 0 || before > plain.size() - used) cannot_decompress();
      check_room(before + length);
      const auto start = plain.begin() + static_cast<std::ptrdiff_t>(used);
      out_.insert(out_.end(), start, start + static_cast<std::ptrdiff_t>(before));
      used += before;
      copy_match(distance_of(value, before == 0), length);
    }
    if (bits.left() != 0) cannot_decompress();
  }

  /// Large values are new distances; the values 1 to 3 name one of the last three.
  std::uint64_t distance_of(std::uint64_t value, bool has_no_literals) {
    if (value > 3) {
      last_ = {value - 3, last_[0], last_[1]};
      return last_[0];
    }
    const std::uint64_t index = value - 1 + (has_no_literals ? 1 : 0);
    if (index == 0) return last_[0];
    const std::uint64_t distance = index == 3 ? last_[0] - 1 : last_[index];
    if (index != 1) last_[2] = last_[1];
    last_[1] = last_[0];
    last_[0] = distance;
    return distance;
  }

  void copy_match(std::uint64_t distance, std::uint64_t length) {
    if (distance == 0 || distance > out_.size()) cannot_decompress();
    for (std::uint64_t i = 0; i < length; ++i) out_.push_back(out_[out_.size() - distance]);
  }

  std::uint64_t size_;
  std::vector<char> out_;
  HuffmanTable huffman_;
  std::array<FseTable, 3> tables_;
  std::array<std::uint64_t, 3> last_{1, 4, 8};
};

}  // namespace

std::vector<char> decompress_zstd(Bytes frame, std::uint64_t size) { return Decoder(size).frame(frame); }

}  // namespace memlake::emulator
