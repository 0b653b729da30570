#pragma once

// The lists and tuples of a pickle. Lists that are filled at once with equal items share them: of a million stack
// traces in a snapshot, few differ.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "pickles/intern_index.hpp"
#include "pickles/seeded_hash.hpp"
#include "pickles/storage.hpp"
#include "pickles/value.hpp"

namespace memlake::pickles {

class Sequences {
 public:
  std::uint64_t add_list(Allowance& allowance) { return lists_.add(allowance, {}); }
  std::uint64_t add_tuple(Allowance& allowance, std::span<const Value> items);
  void append(Allowance& allowance, std::uint64_t list, std::span<const Value> items);

  [[nodiscard]] std::span<const Value> list(std::uint64_t place) const { return lists_[place]; }
  [[nodiscard]] std::span<const Value> tuple(std::uint64_t place) const { return tuples_[place]; }

 private:
  /// A longer list is no stack trace, and is not looked up. Python writes lists in parts of 1000 items.
  static constexpr std::size_t kLongestShared = 1000;
  /// About what an entry of `grown_` takes in addition to its items.
  static constexpr std::uint64_t kGrownBytes = 64;

  [[nodiscard]] std::uint64_t hash(std::span<const Value> items) const { return hash_(std::as_bytes(items)); }
  std::span<const Value> share(Allowance& allowance, std::span<const Value> items);

  SeededHash hash_;
  ValueStore values_;
  Table<std::span<const Value>> lists_;
  Table<std::span<const Value>> tuples_;
  Table<std::span<const Value>> shared_;
  InternIndex index_;
  /// The items of lists that were filled in several steps.
  std::unordered_map<std::uint64_t, std::vector<Value>> grown_;
};

}  // namespace memlake::pickles
