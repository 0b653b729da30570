#pragma once

// The two entropy codes of zstd (RFC 8878, section 4): finite-state entropy and Huffman codes. The
// bytes are not trusted: every error throws 200.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "code/images/bytes.hpp"

namespace memlake::emulator {

[[noreturn]] void cannot_decompress();

/// A stream of bits that is read from its end to its beginning. Behind the beginning there are zeros.
class BackwardBits {
 public:
  explicit BackwardBits(Bytes bytes);

  std::uint64_t read(int count);

  /// The number of bits that are left; negative if more was read than there is.
  [[nodiscard]] std::int64_t left() const { return left_; }

 private:
  Bytes bytes_;
  std::int64_t left_ = 0;
};

class FseTable {
 public:
  FseTable() = default;
  /// A table with a probability for each symbol; -1 is "less than one".
  FseTable(std::span<const int> probabilities, int accuracy);
  /// A table with one symbol.
  static FseTable of_one(std::uint8_t symbol);
  /// Reads the description of a table; `size` is set to its length in bytes.
  static FseTable read(Bytes bytes, int most_accuracy, std::size_t most_symbols, std::uint64_t& size);

  [[nodiscard]] int accuracy() const { return accuracy_; }
  [[nodiscard]] bool is_empty() const { return cells_.empty(); }
  [[nodiscard]] std::uint8_t symbol(std::uint64_t state) const { return cells_[state].symbol; }
  [[nodiscard]] std::uint64_t next(std::uint64_t state, BackwardBits& bits) const {
    return cells_[state].base + bits.read(cells_[state].bits);
  }

 private:
  struct Cell {
    std::uint8_t symbol;
    std::uint8_t bits;
    std::uint16_t base;
  };
  std::vector<Cell> cells_;
  int accuracy_ = 0;
};

class HuffmanTable {
 public:
  /// Reads the description of a table; `size` is set to its length in bytes.
  static HuffmanTable read(Bytes bytes, std::uint64_t& size);

  [[nodiscard]] bool is_empty() const { return cells_.empty(); }

  /// Decodes one stream to `count` symbols behind `to`.
  void decode(Bytes stream, std::uint64_t count, std::vector<char>& to) const;

 private:
  struct Cell {
    std::uint8_t symbol;
    std::uint8_t bits;
  };
  static HuffmanTable of_weights(std::vector<std::uint8_t> weights);

  std::vector<Cell> cells_;
  int most_bits_ = 0;
};

}  // namespace memlake::emulator
