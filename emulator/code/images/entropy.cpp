#include "code/images/entropy.hpp"

#include <algorithm>
#include <bit>

namespace memlake::emulator {

namespace {

constexpr int kMostHuffmanBits = 11;
constexpr int kMostWeightAccuracy = 6;
constexpr std::uint8_t kDirectWeights = 128;  // from it on, the weights are not compressed

int highest_bit(std::uint64_t value) { return static_cast<int>(std::bit_width(value)) - 1; }

/// `count` bits from a position, the lowest first. pre: count <= 56.
std::uint64_t bits_at(Bytes bytes, std::uint64_t position, int count) {
  std::uint64_t value = 0;
  const std::uint64_t first = position / 8;
  const std::uint64_t last = (position + static_cast<std::uint64_t>(count) + 7) / 8;
  for (std::uint64_t i = first; i < last; ++i)
    value |= std::uint64_t{bytes.number<std::uint8_t>(i, "a compressed part")} << (8 * (i - first));
  return value >> position % 8 & ((std::uint64_t{1} << count) - 1);
}

}  // namespace

void cannot_decompress() {
  refuse(CUDA_ERROR_INVALID_IMAGE, "the image is damaged: a part that is compressed with zstd cannot be decompressed");
}

BackwardBits::BackwardBits(Bytes bytes) : bytes_(bytes) {
  if (bytes.size() == 0) cannot_decompress();
  const auto last = bytes.number<std::uint8_t>(bytes.size() - 1, "a compressed part");
  if (last == 0) cannot_decompress();
  left_ = static_cast<std::int64_t>(8 * (bytes.size() - 1)) + highest_bit(last);
}

std::uint64_t BackwardBits::read(int count) {
  left_ -= count;
  if (count == 0) return 0;
  if (left_ >= 0) return bits_at(bytes_, static_cast<std::uint64_t>(left_), count);
  const std::int64_t there = count + left_;
  if (there <= 0) return 0;
  return bits_at(bytes_, 0, static_cast<int>(there)) << -left_;
}

FseTable FseTable::of_one(std::uint8_t symbol) {
  FseTable table;
  table.cells_.push_back({symbol, 0, 0});
  return table;
}

FseTable::FseTable(std::span<const int> probabilities, int accuracy) : accuracy_(accuracy) {
  const std::uint64_t size = std::uint64_t{1} << accuracy;
  cells_.resize(size);
  std::vector<std::uint64_t> counts(probabilities.size());
  std::uint64_t high = size;
  for (std::size_t symbol = 0; symbol < probabilities.size(); ++symbol) {
    if (probabilities[symbol] != -1) continue;
    if (high == 0) cannot_decompress();
    cells_[--high].symbol = static_cast<std::uint8_t>(symbol);
    counts[symbol] = 1;
  }
  const std::uint64_t step = (size >> 1) + (size >> 3) + 3;
  std::uint64_t position = 0;
  for (std::size_t symbol = 0; symbol < probabilities.size(); ++symbol) {
    if (probabilities[symbol] <= 0) continue;
    counts[symbol] = static_cast<std::uint64_t>(probabilities[symbol]);
    for (int i = 0; i < probabilities[symbol]; ++i) {
      if (high == 0) cannot_decompress();
      cells_[position].symbol = static_cast<std::uint8_t>(symbol);
      do position = (position + step) & (size - 1);
      while (position >= high);
    }
  }
  if (position != 0) cannot_decompress();
  for (Cell& cell : cells_) {
    const std::uint64_t next = counts[cell.symbol]++;
    if (next == 0) cannot_decompress();
    const int bits = accuracy - highest_bit(next);
    if (bits < 0) cannot_decompress();
    cell.bits = static_cast<std::uint8_t>(bits);
    cell.base = static_cast<std::uint16_t>((next << bits) - size);
  }
}

FseTable FseTable::read(Bytes bytes, int most_accuracy, std::size_t most_symbols, std::uint64_t& size) {
  std::uint64_t at = 0;
  // The end of the bytes may lie inside the last read: the table itself ends before.
  const auto take = [&](int count) {
    const std::uint64_t room = 8 * bytes.size() > at ? 8 * bytes.size() - at : 0;
    const int there = static_cast<int>(std::min<std::uint64_t>(room, static_cast<std::uint64_t>(count)));
    const std::uint64_t value = there == 0 ? 0 : bits_at(bytes, at, there);
    at += static_cast<std::uint64_t>(count);
    return value;
  };
  const int accuracy = static_cast<int>(take(4)) + 5;
  if (accuracy > most_accuracy) cannot_decompress();
  std::int64_t remaining = std::int64_t{1} << accuracy;
  std::vector<int> probabilities;
  while (remaining > 0 && probabilities.size() < most_symbols) {
    const int bits = highest_bit(static_cast<std::uint64_t>(remaining + 1)) + 1;
    auto value = static_cast<std::int64_t>(take(bits));
    const std::int64_t lower_mask = (std::int64_t{1} << (bits - 1)) - 1;
    const std::int64_t threshold = (std::int64_t{1} << bits) - 1 - (remaining + 1);
    if ((value & lower_mask) < threshold) {
      --at;
      value &= lower_mask;
    } else if (value > lower_mask) {
      value -= threshold;
    }
    const std::int64_t probability = value - 1;
    remaining -= probability < 0 ? 1 : probability;
    probabilities.push_back(static_cast<int>(probability));
    if (probability != 0) continue;
    for (std::uint64_t zeros = 3; zeros == 3;) {
      zeros = take(2);
      if (probabilities.size() + zeros > most_symbols) cannot_decompress();
      probabilities.insert(probabilities.end(), zeros, 0);
    }
  }
  size = (at + 7) / 8;
  if (remaining != 0 || size > bytes.size()) cannot_decompress();
  return FseTable(probabilities, accuracy);
}

HuffmanTable HuffmanTable::read(Bytes bytes, std::uint64_t& size) {
  const auto header = bytes.number<std::uint8_t>(0, "a compressed part");
  std::vector<std::uint8_t> weights;
  if (header >= kDirectWeights) {
    const unsigned count = header - kDirectWeights + 1U;
    for (unsigned i = 0; i < count; ++i) {
      const auto pair = bytes.number<std::uint8_t>(1 + i / 2, "a compressed part");
      weights.push_back(i % 2 == 0 ? pair >> 4 : pair & 15);
    }
    size = 1 + (count + 1) / 2;
    return of_weights(std::move(weights));
  }
  size = std::uint64_t{1} + header;
  const Bytes compressed = bytes.part(1, header, "a compressed part");
  std::uint64_t table_size = 0;
  const FseTable table = FseTable::read(compressed, kMostWeightAccuracy, 256, table_size);
  BackwardBits bits(compressed.part(table_size, compressed.size() - table_size, "a compressed part"));
  std::array<std::uint64_t, 2> states{bits.read(table.accuracy()), 0};
  states[1] = bits.read(table.accuracy());
  for (std::size_t turn = 0; weights.size() < 255; turn ^= 1) {
    weights.push_back(table.symbol(states[turn]));
    states[turn] = table.next(states[turn], bits);
    if (bits.left() >= 0) continue;
    weights.push_back(table.symbol(states[turn ^ 1]));
    return of_weights(std::move(weights));
  }
  cannot_decompress();
}

HuffmanTable HuffmanTable::of_weights(std::vector<std::uint8_t> weights) {
  std::uint64_t sum = 0;
  for (const std::uint8_t weight : weights) {
    if (weight > kMostHuffmanBits) cannot_decompress();
    sum += weight == 0 ? 0 : std::uint64_t{1} << (weight - 1);
  }
  if (sum == 0) cannot_decompress();
  HuffmanTable table;
  table.most_bits_ = highest_bit(sum) + 1;
  const std::uint64_t left = (std::uint64_t{1} << table.most_bits_) - sum;
  if (table.most_bits_ > kMostHuffmanBits || !std::has_single_bit(left) || weights.size() > 255) cannot_decompress();
  weights.push_back(static_cast<std::uint8_t>(highest_bit(left) + 1));
  table.cells_.resize(std::size_t{1} << table.most_bits_);
  std::size_t at = 0;
  for (int weight = 1; weight <= table.most_bits_; ++weight)  // the longest codes come first
    for (std::size_t symbol = 0; symbol < weights.size(); ++symbol) {
      if (weights[symbol] != weight) continue;
      const std::size_t cells = std::size_t{1} << (weight - 1);
      if (at + cells > table.cells_.size()) cannot_decompress();
      for (std::size_t i = 0; i < cells; ++i)
        table.cells_[at++] = {static_cast<std::uint8_t>(symbol),
                              static_cast<std::uint8_t>(table.most_bits_ + 1 - weight)};
    }
  if (at != table.cells_.size()) cannot_decompress();
  return table;
}

void HuffmanTable::decode(Bytes stream, std::uint64_t count, std::vector<char>& to) const {
  BackwardBits bits(stream);
  const std::uint64_t mask = cells_.size() - 1;
  std::uint64_t state = bits.read(most_bits_);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Cell& cell = cells_[state];
    to.push_back(static_cast<char>(cell.symbol));
    state = ((state << cell.bits) + bits.read(cell.bits)) & mask;
    if (bits.left() < -most_bits_) cannot_decompress();
  }
  if (bits.left() != -most_bits_) cannot_decompress();
}

}  // namespace memlake::emulator
