#include "devices/resident_pages.hpp"

#include <algorithm>
#include <iterator>

namespace memlake::emulator {

void ResidentPages::insert(std::uint64_t address, Piece piece) {
  pieces_.emplace(address, piece);
  by_arrival_.emplace(piece.arrival, address);
  bytes_ += piece.size;
}

void ResidentPages::erase(std::map<std::uint64_t, Piece>::iterator piece) {
  by_arrival_.erase({piece->second.arrival, piece->first});
  bytes_ -= piece->second.size;
  pieces_.erase(piece);
}

void ResidentPages::add(std::uint64_t address, std::uint64_t size) {
  remove(address, size);
  insert(address, {size, next_arrival_++});
}

void ResidentPages::remove(std::uint64_t address, std::uint64_t size) {
  const std::uint64_t end = address + size;
  auto at = pieces_.upper_bound(address);
  if (at != pieces_.begin()) --at;
  while (at != pieces_.end() && at->first < end) {
    const auto found = at++;
    const std::uint64_t start = found->first;
    const Piece piece = found->second;
    const std::uint64_t piece_end = start + piece.size;
    if (piece_end <= address) continue;
    erase(found);
    if (start < address) insert(start, {address - start, piece.arrival});
    if (piece_end > end) insert(end, {piece_end - end, piece.arrival});
  }
}

void ResidentPages::shrink_to(std::uint64_t most) {
  while (bytes_ > most) {
    const std::uint64_t address = by_arrival_.begin()->second;
    remove(address, std::min(pieces_.at(address).size, bytes_ - most));
  }
}

std::uint64_t ResidentPages::bytes_in(std::uint64_t address, std::uint64_t size) const {
  const std::uint64_t end = address + size;
  auto at = pieces_.upper_bound(address);
  if (at != pieces_.begin()) --at;
  std::uint64_t found = 0;
  for (; at != pieces_.end() && at->first < end; ++at) {
    const std::uint64_t from = std::max(at->first, address);
    const std::uint64_t to = std::min(at->first + at->second.size, end);
    if (from < to) found += to - from;
  }
  return found;
}

}  // namespace memlake::emulator
