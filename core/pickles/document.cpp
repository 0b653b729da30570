#include "pickles/document.hpp"

namespace memlake::pickles {

std::optional<Value> Document::get(Value value, std::string_view key) const {
  if (value.kind() != Kind::dict) return std::nullopt;
  const std::uint32_t number = texts.find(key);
  return number == Texts::kNone ? std::nullopt : dicts.get(value.place(), number);
}

std::optional<std::uint64_t> Document::whole(Value value) const {
  if (value.kind() == Kind::integer && value.number() >= 0) return static_cast<std::uint64_t>(value.number());
  if (value.kind() == Kind::wide && wides[value.place()].high == 0) return wides[value.place()].low;
  return std::nullopt;
}

std::optional<std::int64_t> Document::signed_whole(Value value) const {
  if (value.kind() == Kind::integer) return value.number();
  if (value.kind() != Kind::wide) return std::nullopt;
  const Wide wide = wides[value.place()];
  const auto low = static_cast<std::int64_t>(wide.low);
  return wide.high == (low < 0 ? -1 : 0) ? std::optional(low) : std::nullopt;
}

}  // namespace memlake::pickles
