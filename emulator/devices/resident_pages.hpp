#pragma once

// The pages of managed memory that lie in the memory of one device, in the order of their arrival. They leave when the
// device needs the room: the oldest first.

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace memlake::emulator {

class ResidentPages {
 public:
  /// The pages arrive. Pages that were here already count as new arrivals.
  void add(std::uint64_t address, std::uint64_t size);
  void remove(std::uint64_t address, std::uint64_t size);

  /// Evicts the oldest pages until at most `most` bytes are left.
  void shrink_to(std::uint64_t most);

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// The number of resident bytes in a range.
  [[nodiscard]] std::uint64_t bytes_in(std::uint64_t address, std::uint64_t size) const;

 private:
  struct Piece {
    std::uint64_t size;
    std::uint64_t arrival;
  };

  void insert(std::uint64_t address, Piece piece);
  void erase(std::map<std::uint64_t, Piece>::iterator piece);

  std::map<std::uint64_t, Piece> pieces_;                         // by address
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_arrival_;  // arrival, address
  std::uint64_t next_arrival_ = 1;
  std::uint64_t bytes_ = 0;
};

}  // namespace memlake::emulator
