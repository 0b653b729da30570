#include "pickles/texts.hpp"

namespace memlake::pickles {

std::uint64_t Texts::hash(std::string_view text) const {
  return hash_(std::as_bytes(std::span(text.data(), text.size())));
}

std::uint32_t Texts::find(std::string_view text) const {
  return index_.find(hash(text), [&](std::uint32_t number) { return texts_[number] == text; });
}

std::uint32_t Texts::number_of(Allowance& allowance, std::string_view text) {
  const std::uint64_t hashed = hash(text);
  const std::uint32_t known = index_.find(hashed, [&](std::uint32_t number) { return texts_[number] == text; });
  if (known != kNone) return known;
  if (texts_.size() >= kNone) throw Refused{{.kind = FaultKind::memory}};
  const auto number = static_cast<std::uint32_t>(texts_.add(allowance, text));
  index_.add(allowance, hashed, number, [this](std::uint32_t other) { return hash(texts_[other]); });
  return number;
}

}  // namespace memlake::pickles
