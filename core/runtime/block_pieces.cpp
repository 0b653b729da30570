#include "runtime/block_pieces.hpp"

#include <algorithm>

namespace memlake {

std::vector<std::pair<std::size_t, Bytes>> pieces_of(const Space& space, const Block& block, Bytes size) {
  std::vector<std::pair<std::size_t, Bytes>> pieces;
  Bytes left = size;
  const auto add = [&](std::size_t device, Bytes bytes) {
    bytes = std::min(bytes, left);
    left = left - bytes;
    if (bytes.count == 0) return;
    if (!pieces.empty() && pieces.back().first == device) {
      pieces.back().second = pieces.back().second + bytes;
    } else {
      pieces.emplace_back(device, bytes);
    }
  };
  if (const SeveralPlaces* places = space.facets().several_places) {
    places->for_each_piece(block, add);
  } else {
    add(space.device_number(), block.size);
  }
  return pieces;
}

}  // namespace memlake
