#pragma once

// The dicts of a pickle. A dict that is filled at once has a shape, the list of its keys, which it shares with others
// that have the same keys in the same order, and an array of values. Other dicts are loose: they list their entries.

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pickles/intern_index.hpp"
#include "pickles/seeded_hash.hpp"
#include "pickles/storage.hpp"
#include "pickles/value.hpp"

namespace memlake::pickles {

class Dicts {
 public:
  Dicts();

  std::uint64_t add(Allowance& allowance) { return dicts_.add(allowance, {}); }
  /// Sets entries in order: key, value, key, value. pre: every key is a text.
  void set(Allowance& allowance, std::uint64_t dict, std::span<const Value> entries);

  [[nodiscard]] std::uint64_t size() const { return dicts_.size(); }
  [[nodiscard]] std::uint64_t num_entries(std::uint64_t dict) const;
  /// Key and value of an entry, in the order in which the keys were first set.
  [[nodiscard]] std::pair<std::uint32_t, Value> entry(std::uint64_t dict, std::uint64_t number) const;
  [[nodiscard]] std::optional<Value> get(std::uint64_t dict, std::uint32_t key) const;

  /// The number of the dict's shape; kLoose if it has none.
  [[nodiscard]] std::uint32_t shape_of(std::uint64_t dict) const { return dicts_[dict].shape; }
  [[nodiscard]] std::span<const std::uint32_t> keys_of(std::uint32_t shape) const { return shapes_[shape]; }
  /// pre: the dict has a shape. One value per key of the shape.
  [[nodiscard]] const Value* values_of(std::uint64_t dict) const { return dicts_[dict].values; }

  static constexpr std::uint32_t kLoose = InternIndex::kNone;

 private:
  /// A dict with more keys is none of many equal ones, and would make look-ups in its shape slow.
  static constexpr std::size_t kMostKeys = 32;
  /// About what a loose dict and one of its entries take.
  static constexpr std::uint64_t kLooseBytes = 160;
  static constexpr std::uint64_t kLooseEntryBytes = 80;
  static constexpr std::uint32_t kEmptyShape = 0;

  struct Loose {
    std::vector<std::pair<std::uint32_t, Value>> entries;
    std::unordered_map<std::uint32_t, std::uint64_t> places;
  };
  struct Dict {
    std::uint32_t shape = kEmptyShape;
    union {
      Value* values = nullptr;
      Loose* loose;
    };
  };

  std::uint32_t shape_with(Allowance& allowance, std::span<const std::uint32_t> keys);
  Loose& loosen(Allowance& allowance, Dict& dict);
  static void set_loose(Allowance& allowance, Loose& loose, std::uint32_t key, Value value);

  SeededHash hash_;
  ValueStore values_;
  Table<Dict> dicts_;
  std::vector<std::span<const std::uint32_t>> shapes_;
  std::deque<std::vector<std::uint32_t>> keys_;
  InternIndex index_;
  std::deque<Loose> loose_;
};

}  // namespace memlake::pickles
