#pragma once

// The content of a pickle of plain data: its root, and the tables of everything that the root refers to.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "pickles/dicts.hpp"
#include "pickles/sequences.hpp"
#include "pickles/storage.hpp"
#include "pickles/texts.hpp"
#include "pickles/value.hpp"

namespace memlake::pickles {

struct Document {
  explicit Document(std::uint64_t allowed) : allowance(allowed) {}
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  [[nodiscard]] bool is(Value value, Kind kind) const { return value.kind() == kind; }
  /// pre: the value is a text.
  [[nodiscard]] std::string_view text(Value value) const { return texts[static_cast<std::uint32_t>(value.place())]; }
  /// The items of a list or of a tuple. pre: the value is one.
  [[nodiscard]] std::span<const Value> items(Value value) const {
    return value.kind() == Kind::list ? sequences.list(value.place()) : sequences.tuple(value.place());
  }
  /// The value of a key of a dict. Nothing if the value is no dict, or has no such key.
  [[nodiscard]] std::optional<Value> get(Value value, std::string_view key) const;
  /// The whole number, if the value is one from 0 to 2^64 - 1.
  [[nodiscard]] std::optional<std::uint64_t> whole(Value value) const;
  /// The whole number, if the value is one of at most 64 bits with its sign.
  [[nodiscard]] std::optional<std::int64_t> signed_whole(Value value) const;
  [[nodiscard]] bool is_whole(Value value) const { return value.kind() == Kind::integer || value.kind() == Kind::wide; }

  Allowance allowance;
  Texts texts;
  Sequences sequences;
  Dicts dicts;
  Table<Wide> wides;
  Table<double> reals;
  Value root;
};

}  // namespace memlake::pickles
