#include "pickles/storage.hpp"

#include <algorithm>

namespace memlake::pickles {

Value* ValueStore::keep(Allowance& allowance, std::span<const Value> values) {
  if (values.empty()) return nullptr;
  allowance.spend(values.size_bytes());
  Value* place = nullptr;
  if (values.size() > kChunk / 4) {
    chunks_.push_back(std::make_unique_for_overwrite<Value[]>(values.size()));
    place = chunks_.back().get();
  } else {
    if (values.size() > left_) {
      chunks_.push_back(std::make_unique_for_overwrite<Value[]>(kChunk));
      next_ = chunks_.back().get();
      left_ = kChunk;
    }
    place = next_;
    next_ += values.size();
    left_ -= values.size();
  }
  std::ranges::copy(values, place);
  return place;
}

}  // namespace memlake::pickles
