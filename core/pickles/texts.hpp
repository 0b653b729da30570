#pragma once

// The texts of a pickle. Equal texts have one number, and their bytes stay in the file's content.

#include <cstdint>
#include <string_view>

#include "pickles/intern_index.hpp"
#include "pickles/seeded_hash.hpp"
#include "pickles/storage.hpp"

namespace memlake::pickles {

class Texts {
 public:
  /// The number of a text; `text` must outlive this object.
  std::uint32_t number_of(Allowance& allowance, std::string_view text);
  /// The number of a text, or kNone if the pickle has no such text.
  [[nodiscard]] std::uint32_t find(std::string_view text) const;
  [[nodiscard]] std::string_view operator[](std::uint32_t number) const { return texts_[number]; }
  [[nodiscard]] std::uint64_t size() const { return texts_.size(); }

  static constexpr std::uint32_t kNone = InternIndex::kNone;

 private:
  [[nodiscard]] std::uint64_t hash(std::string_view text) const;

  SeededHash hash_;
  Table<std::string_view> texts_;
  InternIndex index_;
};

}  // namespace memlake::pickles
