#pragma once

// Texts that PyTorch attaches to events: of the user, of the compiler, the category of the memory, the private pool.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pickles/document.hpp"

namespace memlake::snapshots {

/// The fields of an event that are labels.
inline constexpr std::array<std::string_view, 4> kLabels = {"user_metadata", "compile_context", "category", "pool_id"};

/// One label: a number for each row, and the text of each number. Text 0 is empty.
struct LabelColumn {
  std::vector<std::uint32_t> number;
  std::vector<std::string> texts = {""};
};

/// Numbers the texts of one label.
class Label {
 public:
  explicit Label(pickles::Document& document) : document_(document) {}

  /// The number of the text in a field. 0 if there is none, or if it says nothing.
  std::uint32_t number_of(std::optional<pickles::Value> field);
  void add(std::uint32_t number) { column_.number.push_back(number); }
  /// Whether any row has a text.
  [[nodiscard]] bool is_used() const { return column_.texts.size() > 1; }
  LabelColumn take() { return std::move(column_); }

 private:
  std::uint32_t add_text(std::string text);
  /// The number of a pool. PyTorch's own pool, (0, 0), says nothing.
  std::uint32_t number_of_pool(pickles::Value value);

  pickles::Document& document_;
  LabelColumn column_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_text_;
  std::unordered_map<std::string, std::uint32_t> by_pool_;
};

}  // namespace memlake::snapshots
