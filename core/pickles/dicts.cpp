#include "pickles/dicts.hpp"

#include <algorithm>

namespace memlake::pickles {
namespace {

std::uint32_t key_in(Value value) { return static_cast<std::uint32_t>(value.place()); }

bool has_twice(std::span<const std::uint32_t> keys) {
  for (std::size_t place = 1; place < keys.size(); ++place)
    if (std::ranges::count(keys.first(place), keys[place]) != 0) return true;
  return false;
}

}  // namespace

Dicts::Dicts() { shapes_.emplace_back(); }

std::uint32_t Dicts::shape_with(Allowance& allowance, std::span<const std::uint32_t> keys) {
  const std::uint64_t hashed = hash_(std::as_bytes(keys));
  const std::uint32_t known =
      index_.find(hashed, [&](std::uint32_t shape) { return std::ranges::equal(shapes_[shape], keys); });
  if (known != InternIndex::kNone) return known;
  if (has_twice(keys) || shapes_.size() >= kLoose) return kLoose;
  allowance.spend(keys.size_bytes() + 2 * sizeof(std::span<const std::uint32_t>) + sizeof(keys_.front()));
  const auto shape = static_cast<std::uint32_t>(shapes_.size());
  shapes_.emplace_back(keys_.emplace_back(keys.begin(), keys.end()));
  index_.add(allowance, hashed, shape, [this](std::uint32_t other) { return hash_(std::as_bytes(shapes_[other])); });
  return shape;
}

void Dicts::set(Allowance& allowance, std::uint64_t place, std::span<const Value> entries) {
  Dict& dict = dicts_[place];
  const std::size_t count = entries.size() / 2;
  if (dict.shape == kEmptyShape && count <= kMostKeys) {
    std::array<std::uint32_t, kMostKeys> keys;
    std::array<Value, kMostKeys> values;
    for (std::size_t number = 0; number < count; ++number) {
      keys[number] = key_in(entries[2 * number]);
      values[number] = entries[2 * number + 1];
    }
    if (count == 0) return;
    const std::uint32_t shape = shape_with(allowance, std::span(keys).first(count));
    if (shape != kLoose) {
      dict.values = values_.keep(allowance, std::span(values).first(count));
      dict.shape = shape;
      return;
    }
  }
  Loose& loose = loosen(allowance, dict);
  for (std::size_t number = 0; number < count; ++number)
    set_loose(allowance, loose, key_in(entries[2 * number]), entries[2 * number + 1]);
}

Dicts::Loose& Dicts::loosen(Allowance& allowance, Dict& dict) {
  if (dict.shape == kLoose) return *dict.loose;
  allowance.spend(kLooseBytes);
  Loose& loose = loose_.emplace_back();
  const std::span<const std::uint32_t> keys = keys_of(dict.shape);
  for (std::size_t number = 0; number < keys.size(); ++number)
    set_loose(allowance, loose, keys[number], dict.values[number]);
  dict.shape = kLoose;
  dict.loose = &loose;
  return loose;
}

void Dicts::set_loose(Allowance& allowance, Loose& loose, std::uint32_t key, Value value) {
  const auto found = loose.places.find(key);
  if (found != loose.places.end()) {
    loose.entries[found->second].second = value;
    return;
  }
  allowance.spend(kLooseEntryBytes);
  loose.places.emplace(key, loose.entries.size());
  loose.entries.emplace_back(key, value);
}

std::uint64_t Dicts::num_entries(std::uint64_t dict) const {
  const Dict& found = dicts_[dict];
  return found.shape == kLoose ? found.loose->entries.size() : keys_of(found.shape).size();
}

std::pair<std::uint32_t, Value> Dicts::entry(std::uint64_t dict, std::uint64_t number) const {
  const Dict& found = dicts_[dict];
  if (found.shape == kLoose) return found.loose->entries[number];
  return {keys_of(found.shape)[number], found.values[number]};
}

std::optional<Value> Dicts::get(std::uint64_t dict, std::uint32_t key) const {
  const Dict& found = dicts_[dict];
  if (found.shape == kLoose) {
    const auto place = found.loose->places.find(key);
    if (place == found.loose->places.end()) return std::nullopt;
    return found.loose->entries[place->second].second;
  }
  const std::span<const std::uint32_t> keys = keys_of(found.shape);
  const auto place = std::ranges::find(keys, key);
  if (place == keys.end()) return std::nullopt;
  return found.values[place - keys.begin()];
}

}  // namespace memlake::pickles
