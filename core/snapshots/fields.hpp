#pragma once

// Finds the fields of many dicts by name. Where the fields are is looked up only when the shape changes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "pickles/document.hpp"

namespace memlake::snapshots {

/// The values of the fields of one dict; nothing for a field that it does not have.
template <std::size_t count>
using FieldValues = std::array<std::optional<pickles::Value>, count>;

template <std::size_t count>
class Fields {
 public:
  Fields(const pickles::Document& document, const std::array<std::string_view, count>& names) : document_(document) {
    for (std::size_t field = 0; field < count; ++field) keys_[field] = document.texts.find(names[field]);
  }

  /// pre: `dict` is one.
  FieldValues<count> of(pickles::Value dict) {
    FieldValues<count> values;
    const std::uint32_t shape = document_.dicts.shape_of(dict.place());
    if (shape == pickles::Dicts::kLoose) {
      for (std::size_t field = 0; field < count; ++field)
        if (keys_[field] != pickles::Texts::kNone) values[field] = document_.dicts.get(dict.place(), keys_[field]);
      return values;
    }
    const Places& places = places_in(shape);
    const pickles::Value* all = document_.dicts.values_of(dict.place());
    for (std::size_t field = 0; field < count; ++field)
      if (places[field] >= 0) values[field] = all[places[field]];
    return values;
  }

 private:
  /// The place of each field among the keys of a shape; -1 if it is not there.
  using Places = std::array<std::int8_t, count>;

  const Places& places_in(std::uint32_t shape) {
    if (shape == last_shape_) return last_;
    const std::span<const std::uint32_t> keys = document_.dicts.keys_of(shape);
    last_.fill(-1);
    for (std::size_t field = 0; field < count; ++field)
      for (std::size_t place = 0; place < keys.size(); ++place)
        if (keys[place] == keys_[field]) last_[field] = static_cast<std::int8_t>(place);
    last_shape_ = shape;
    return last_;
  }

  const pickles::Document& document_;
  std::array<std::uint32_t, count> keys_;
  std::uint32_t last_shape_ = pickles::Dicts::kLoose;
  Places last_;
};

}  // namespace memlake::snapshots
