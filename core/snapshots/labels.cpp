#include "snapshots/labels.hpp"

namespace memlake::snapshots {

using pickles::Kind;
using pickles::Value;

namespace {

/// PyTorch writes this for code that is not compiled.
constexpr std::string_view kNotCompiled = "N/A";
/// About what an entry of the tables that are only used while reading takes.
constexpr std::uint64_t kLabelBytes = 96;

}  // namespace

std::uint32_t Label::number_of(std::optional<Value> field) {
  if (!field) return 0;
  if (field->kind() == Kind::tuple || field->kind() == Kind::list) return number_of_pool(*field);
  if (field->kind() != Kind::text) return 0;
  const auto known = by_text_.find(field->place());
  if (known != by_text_.end()) return known->second;
  const std::string_view text = document_.text(*field);
  const std::uint32_t number = text.empty() || text == kNotCompiled ? 0 : add_text(std::string(text));
  by_text_.emplace(field->place(), number);
  return number;
}

std::uint32_t Label::number_of_pool(Value value) {
  const std::span<const Value> parts = document_.items(value);
  if (parts.size() != 2) return 0;
  const auto first = document_.signed_whole(parts[0]);
  const auto second = document_.signed_whole(parts[1]);
  if (!first || !second || (*first == 0 && *second == 0)) return 0;
  std::string text("(");
  text.append(std::to_string(*first)).append(", ").append(std::to_string(*second)).append(")");
  const auto known = by_pool_.find(text);
  if (known != by_pool_.end()) return known->second;
  const std::uint32_t number = add_text(text);
  by_pool_.emplace(std::move(text), number);
  return number;
}

std::uint32_t Label::add_text(std::string text) {
  document_.allowance.spend(kLabelBytes + text.size());
  column_.texts.push_back(std::move(text));
  return static_cast<std::uint32_t>(column_.texts.size() - 1);
}

}  // namespace memlake::snapshots
