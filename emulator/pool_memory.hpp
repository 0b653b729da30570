#pragma once

// The memory of one pool: segments taken from the device, blocks that tile them, and which free block may serve which
// stream (sections B4, B5 and B10 of the contract).
//
// A free block remembers the frees that it still stands behind: the host has not waited for them. Whoever takes the
// block must come after all of them, and only a block without any can go back to the device.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "arena.hpp"
#include "device.hpp"
#include "storage.hpp"
#include "stream.hpp"
#include "work.hpp"

namespace memlake::emulator {

/// A free in the order of a stream, which the host has not waited for.
struct PendingFree {
  std::uint64_t stream;
  std::uint64_t position;
  std::uint64_t context;
  CompletionRef completion;
};

/// By which rule a stream was given memory that lay free. Later ones ask for more.
enum class Reuse : unsigned {
  fresh,                ///< nobody had it before
  synchronized,         ///< the host has waited for the free
  same_stream,          ///< the free was in the same stream
  event_dependency,     ///< the stream comes after the free, through events or the default stream
  opportunistic,        ///< the free has happened
  internal_dependency,  ///< the stream was made to wait for the free
  count_
};
inline constexpr std::array<const char*, static_cast<std::size_t>(Reuse::count_)> kReuseNames{
    "fresh", "synchronized", "same_stream", "event_dependency", "opportunistic", "internal_dependency"};

struct ReuseSwitches {
  int follow_event_dependencies = 1;
  int allow_opportunistic = 1;
  int allow_internal_dependencies = 1;
};

class PoolMemory {
 public:
  /// `device` null: the host. `most`: maxSize.
  PoolMemory(Arena& arena, const InFlight& in_flight, Device* device, HostMemory& host, std::uint64_t most)
      : arena_(arena), in_flight_(in_flight), device_(device), host_(host), most_(most) {}
  ~PoolMemory();
  PoolMemory(const PoolMemory&) = delete;
  PoolMemory& operator=(const PoolMemory&) = delete;

  struct Taken {
    std::uint64_t block;  ///< its address
    std::uint64_t size;
    Reuse rule;
    std::vector<PendingFree> after = {};    ///< the frees it stood behind
    std::vector<CompletionRef> waits = {};  ///< what the stream must wait for before it may use the block
  };

  /// A block for an operation of `stream` that comes after `before`. Throws Refusal OUT_OF_MEMORY.
  /// `file` is asked for if a segment must be made: the file its bytes lie in, null if it has none.
  template <class FileOf>
  Taken take(std::uint64_t size, const Stream& stream, const Clock& before, const ReuseSwitches& switches,
             FileOf&& file_of) {
    if (auto found = take_free(size, stream, before, switches)) return *found;
    const std::uint64_t segment = segment_for(size);
    std::shared_ptr<HeapFile> file = segment == 0 ? nullptr : file_of();
    if (segment != 0) return take_new(size, segment, std::move(file));
    if (auto found = take_with_waits(size, stream, before, switches)) return *found;
    refuse_size(size);
  }

  /// A live block lies free from now on, behind this free; behind nothing if there is none.
  void give_back(std::uint64_t block, const std::optional<PendingFree>& after);

  /// Undoes a take() that led to nothing.
  void put_back(Taken taken);

  /// The host has waited for the frees that `is_waited_for` selects.
  template <class IsWaitedFor>
  void observe(IsWaitedFor&& is_waited_for) {
    const std::vector<std::uint64_t> asked(behind_frees_.begin(), behind_frees_.end());
    for (const std::uint64_t address : asked) {
      const auto found = blocks_.find(address);
      if (found == blocks_.end()) continue;  // joined with the one before it meanwhile
      if (std::erase_if(found->second.after, is_waited_for) > 0 && found->second.after.empty()) {
        behind_frees_.erase(address);
        join(found);
      }
    }
  }

  /// Gives segments back that nobody needs, while the pool holds more than `threshold`.
  void release_above(std::uint64_t threshold);
  /// The same, but never below `keep`.
  void trim(std::uint64_t keep);

  /// Are all frees complete, so that everything can go?
  [[nodiscard]] bool is_idle() const;

  /// Where a live block's bytes lie in the pool's file.
  [[nodiscard]] std::uint64_t offset_in_file(std::uint64_t address) const;

  /// Does work run on it now?
  [[nodiscard]] bool is_in_use() const;

  [[nodiscard]] std::uint64_t held() const { return held_; }
  [[nodiscard]] std::uint64_t used() const { return used_; }
  [[nodiscard]] std::uint64_t held_high() const { return held_high_; }
  [[nodiscard]] std::uint64_t used_high() const { return used_high_; }
  void reset_held_high() { held_high_ = held_; }
  void reset_used_high() { used_high_ = used_; }
  [[nodiscard]] const auto& reuses() const { return reuses_; }

 private:
  struct Block {
    std::uint64_t size;
    std::uint64_t segment;  ///< its address
    bool is_live;
    bool was_used;
    std::vector<PendingFree> after = {};
  };
  using Blocks = std::map<std::uint64_t, Block>;

  struct Segment {
    std::uint64_t size;
    Storage storage;
    bool is_shown;
  };

  std::optional<Taken> take_free(std::uint64_t size, const Stream& stream, const Clock& before,
                                 const ReuseSwitches& switches);
  std::optional<Taken> take_with_waits(std::uint64_t size, const Stream& stream, const Clock& before,
                                       const ReuseSwitches& switches);
  Taken take_new(std::uint64_t size, std::uint64_t segment, std::shared_ptr<HeapFile> file);
  [[noreturn]] void refuse_size(std::uint64_t size) const;

  /// The rule by which the stream may have the block; empty if by none.
  static std::optional<Reuse> rule_for(const Block& block, const Stream& stream, const Clock& before,
                                       const ReuseSwitches& switches);
  template <class Allows>
  Blocks::iterator find_block(std::uint64_t size, Allows&& allows);
  /// Neighbouring free blocks that are allowed and large enough together become one.
  template <class Allows>
  Blocks::iterator find_neighbours(std::uint64_t size, Allows&& allows);
  Taken take_block(Blocks::iterator block, std::uint64_t size, Reuse rule);

  /// How large a segment must be made for the block; 0 if there is no room for one. May release idle ones for it.
  std::uint64_t segment_for(std::uint64_t size);
  [[nodiscard]] std::uint64_t room() const;

  Blocks::iterator join(Blocks::iterator block);
  [[nodiscard]] static bool can_join(const Block& one, const Block& other);
  void note_free(Blocks::iterator block);
  void forget_free(Blocks::iterator block);
  bool release(std::uint64_t segment);
  void hide(std::uint64_t address, const Segment& segment);

  Arena& arena_;
  const InFlight& in_flight_;
  Device* device_;
  HostMemory& host_;
  std::uint64_t most_;  ///< bytes it may hold and hand out; 0: no limit of its own
  std::map<std::uint64_t, Segment> segments_;
  Blocks blocks_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> free_;  // size, address
  std::set<std::uint64_t> behind_frees_;                    // free blocks with frees before them
  std::set<std::uint64_t> idle_;                            // segments that are one free block behind nothing
  std::uint64_t held_ = 0;
  std::uint64_t held_high_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t used_high_ = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(Reuse::count_)> reuses_{};
};

/// How a pool rounds: blocks are multiples of this many bytes, and segments of 2 MiB.
inline constexpr std::uint64_t kPoolUnit = 512;
inline constexpr std::uint64_t kPoolGranule = std::uint64_t{2} << 20;

}  // namespace memlake::emulator
