#include "snapshots/stacks.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace memlake::snapshots {

using pickles::Kind;
using pickles::Value;

namespace {

/// About what an entry of the tables that are only used while reading takes.
constexpr std::uint64_t kStackBytes = 48;

}  // namespace

Stacks::Stacks(pickles::Document& document) : document_(document), fields_(document, {"filename", "line", "name"}) {}

std::uint32_t Stacks::number_of(Value frames) {
  if (frames.kind() != Kind::list) return 0;
  const std::span<const Value> items = document_.items(frames);
  if (items.empty()) return 0;
  const auto known = stack_of_items_.find(items.data());
  if (known != stack_of_items_.end()) return known->second;
  document_.allowance.spend(kStackBytes);
  found_.clear();
  for (const Value item : items)
    if (const std::uint32_t number = frame(item); number != kNone) found_.push_back(number);
  std::uint32_t stack = 0;
  if (!found_.empty()) {
    const std::uint64_t hashed = hash_(std::as_bytes(std::span(found_)));
    stack = stacks_by_content_.find(
        hashed, [this](std::uint32_t other) { return std::ranges::equal(frames_of(other), found_); });
    if (stack == kNone) {
      document_.allowance.spend(sizeof(std::uint64_t) + found_.size() * sizeof(std::uint32_t));
      if (table_.starts.size() > kNone) throw pickles::Refused{{.kind = pickles::FaultKind::memory}};
      stack = static_cast<std::uint32_t>(table_.starts.size() - 1);
      table_.frames.insert(table_.frames.end(), found_.begin(), found_.end());
      table_.starts.push_back(table_.frames.size());
      stacks_by_content_.add(document_.allowance, hashed, stack,
                             [this](std::uint32_t other) { return hash_(std::as_bytes(frames_of(other))); });
    }
  }
  stack_of_items_.emplace(items.data(), stack);
  return stack;
}

std::uint32_t Stacks::frame(Value value) {
  if (value.kind() != Kind::dict) return kNone;
  const auto known = frame_of_dict_.find(value.place());
  if (known != frame_of_dict_.end()) return known->second;
  document_.allowance.spend(kStackBytes);
  const auto [filename, line, name] = fields_.of(value);
  std::uint32_t number = kNone;
  if (filename && line && name && filename->kind() == Kind::text && name->kind() == Kind::text) {
    const auto at = document_.whole(*line);
    if (at && *at <= std::numeric_limits<std::uint32_t>::max())
      number = add_frame(text(static_cast<std::uint32_t>(filename->place())), static_cast<std::uint32_t>(*at),
                         text(static_cast<std::uint32_t>(name->place())));
  }
  frame_of_dict_.emplace(value.place(), number);
  return number;
}

std::uint32_t Stacks::add_frame(std::uint32_t filename, std::uint32_t line, std::uint32_t name) {
  const std::array<std::uint32_t, 3> content{filename, line, name};
  const std::uint64_t hashed = hash_(std::as_bytes(std::span(content)));
  const std::uint32_t known = frames_by_content_.find(hashed, [&](std::uint32_t other) {
    return table_.filename[other] == filename && table_.line[other] == line && table_.name[other] == name;
  });
  if (known != kNone) return known;
  document_.allowance.spend(sizeof(content));
  const auto number = static_cast<std::uint32_t>(table_.line.size());
  table_.filename.push_back(filename);
  table_.line.push_back(line);
  table_.name.push_back(name);
  frames_by_content_.add(document_.allowance, hashed, number,
                         [this](std::uint32_t other) { return hash_frame(other); });
  return number;
}

std::uint32_t Stacks::text(std::uint32_t number) {
  const auto [found, is_new] = place_of_text_.try_emplace(number, static_cast<std::uint32_t>(table_.texts.size()));
  if (is_new) {
    const std::string_view content = document_.texts[number];
    document_.allowance.spend(kStackBytes + sizeof(std::string) + content.size());
    table_.texts.emplace_back(content);
  }
  return found->second;
}

std::span<const std::uint32_t> Stacks::frames_of(std::uint32_t stack) const {
  return std::span(table_.frames).subspan(table_.starts[stack], table_.starts[stack + 1] - table_.starts[stack]);
}

std::uint64_t Stacks::hash_frame(std::uint32_t frame) const {
  const std::array<std::uint32_t, 3> content{table_.filename[frame], table_.line[frame], table_.name[frame]};
  return hash_(std::as_bytes(std::span(content)));
}

}  // namespace memlake::snapshots
