#pragma once

// The memory of the values of a pickle: what it may take altogether, and tables that grow without moving.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pickles/fault.hpp"
#include "pickles/value.hpp"

namespace memlake::pickles {

/// Counts what the values take, and refuses the pickle when it is too much.
class Allowance {
 public:
  explicit Allowance(std::uint64_t allowed) : left_(allowed) {}

  /// Throws Refused. The reader of the opcodes adds the byte.
  void spend(std::uint64_t nbytes) {
    if (nbytes > left_) throw Refused{{.kind = FaultKind::memory}};
    left_ -= nbytes;
  }

  [[nodiscard]] std::uint64_t left() const { return left_; }

 private:
  std::uint64_t left_;
};

/// A list of elements in chunks. Elements never move, so growing needs no copy.
template <class T>
class Table {
 public:
  [[nodiscard]] std::uint64_t size() const { return size_; }

  T& operator[](std::uint64_t place) { return chunks_[place >> kBits][place & kMask]; }
  const T& operator[](std::uint64_t place) const { return chunks_[place >> kBits][place & kMask]; }

  std::uint64_t add(Allowance& allowance, const T& element) {
    allowance.spend(sizeof(T));
    if (size_ >> kBits == chunks_.size()) chunks_.push_back(std::make_unique_for_overwrite<T[]>(kMask + 1));
    chunks_[size_ >> kBits][size_ & kMask] = element;
    return size_++;
  }

 private:
  static constexpr unsigned kBits = 13;
  static constexpr std::uint64_t kMask = (std::uint64_t{1} << kBits) - 1;

  std::vector<std::unique_ptr<T[]>> chunks_;
  std::uint64_t size_ = 0;
};

/// Arrays of values that stay until the end.
class ValueStore {
 public:
  Value* keep(Allowance& allowance, std::span<const Value> values);

 private:
  static constexpr std::size_t kChunk = 8192;

  std::vector<std::unique_ptr<Value[]>> chunks_;
  Value* next_ = nullptr;
  std::size_t left_ = 0;
};

}  // namespace memlake::pickles
