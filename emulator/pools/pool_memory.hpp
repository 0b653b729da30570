#pragma once

// The memory of one pool: segments of device memory, the blocks that tile them, and the rules by which a stream may
// reuse a free block (sections B4, B5 and B10 of the contract).
//
// A free block has a list of pending frees: frees in stream order that the host has not waited for. A stream that takes
// the block must be ordered behind all of them. A segment can be released only if it has no pending free.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "devices/device.hpp"
#include "memory/arena.hpp"
#include "pools/supply.hpp"
#include "system/storage.hpp"
#include "work/streams.hpp"
#include "work/work.hpp"

namespace memlake::emulator {

/// A free in stream order that the host has not waited for.
struct PendingFree {
  std::uint64_t stream;
  std::uint64_t position;
  std::uint64_t context;
  CompletionRef completion;
};

/// The rule by which a stream got free memory. If the pending frees of a block need several rules, the last one counts.
enum class Reuse : unsigned {
  fresh,                ///< the memory was not used before
  synchronized,         ///< the host has waited for the free
  same_stream,          ///< the free was in the same stream
  event_dependency,     ///< events or the default stream order the stream behind the free
  opportunistic,        ///< the free has already run
  internal_dependency,  ///< the pool makes the stream wait for the free
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
  /// `most`: maxSize.
  PoolMemory(Arena& arena, const InFlight& in_flight, Supply supply, std::uint64_t most)
      : arena_(arena), in_flight_(in_flight), supply_(supply), most_(most) {}
  ~PoolMemory();
  PoolMemory(const PoolMemory&) = delete;
  PoolMemory& operator=(const PoolMemory&) = delete;

  struct Taken {
    std::uint64_t block;  ///< its address
    std::uint64_t size;
    Reuse rule;
    std::vector<PendingFree> after = {};    ///< the pending frees of the block
    std::vector<CompletionRef> waits = {};  ///< the completions that the stream must wait for before it uses the block
  };

  /// Takes a block for an operation of `stream` that comes after `before`. Throws Refusal OUT_OF_MEMORY.
  /// `file_of` is called only for a new segment. It returns the file of its bytes, or null if it has none. The bytes
  /// are shown at the segment's addresses if `is_shown`.
  template <class FileOf>
  Taken take(std::uint64_t size, const Stream& stream, const Clock& before, const ReuseSwitches& switches,
             bool is_shown, FileOf&& file_of) {
    if (auto found = take_free(size, stream, before, switches)) return *found;
    const std::uint64_t segment = segment_for(size);
    std::shared_ptr<HeapFile> file = segment == 0 ? nullptr : file_of();
    if (segment != 0) return take_new(size, segment, std::move(file), is_shown);
    if (auto found = take_with_waits(size, stream, before, switches)) return *found;
    refuse_size(size);
  }

  /// Makes a live block free, with this pending free if there is one.
  void give_back(std::uint64_t block, const std::optional<PendingFree>& after);

  /// Undoes a take() after a later step failed.
  void put_back(Taken taken);

  /// Removes the pending frees that `is_waited_for` selects, because the host has waited for them.
  template <class IsWaitedFor>
  void observe(IsWaitedFor&& is_waited_for) {
    const std::vector<std::uint64_t> asked(behind_frees_.begin(), behind_frees_.end());
    for (const std::uint64_t address : asked) {
      const auto found = blocks_.find(address);
      if (found == blocks_.end()) continue;  // it was joined with the block before it
      if (std::erase_if(found->second.after, is_waited_for) > 0 && found->second.after.empty()) {
        behind_frees_.erase(address);
        join(found);
      }
    }
  }

  /// Releases idle segments while the pool holds more than `threshold`.
  void release_above(std::uint64_t threshold);
  /// Releases idle segments as long as the pool still holds `keep` afterwards.
  void trim(std::uint64_t keep);

  /// Whether all pending frees have run.
  [[nodiscard]] bool is_idle() const;

  /// The offset of a live block's bytes in the pool's file.
  [[nodiscard]] std::uint64_t offset_in_file(std::uint64_t address) const;

  /// Whether work is running on the memory.
  [[nodiscard]] bool is_in_use() const;

  [[nodiscard]] const Supply& supply() const { return supply_; }
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
  Taken take_new(std::uint64_t size, std::uint64_t segment, std::shared_ptr<HeapFile> file, bool is_shown);
  [[noreturn]] void refuse_size(std::uint64_t size) const;

  /// The rule by which the stream may take the block; empty if no rule allows it.
  static std::optional<Reuse> rule_for(const Block& block, const Stream& stream, const Clock& before,
                                       const ReuseSwitches& switches);
  template <class Allows>
  Blocks::iterator find_block(std::uint64_t size, Allows&& allows);
  /// Merges adjacent allowed free blocks that are large enough together into one.
  template <class Allows>
  Blocks::iterator find_neighbours(std::uint64_t size, Allows&& allows);
  Taken take_block(Blocks::iterator block, std::uint64_t size, Reuse rule);

  /// The size of a new segment for the block; 0 if there is no room for it. May release idle segments to make room.
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
  Supply supply_;
  std::uint64_t most_;  ///< the most bytes that it may hold and hand out; 0: no limit
  std::map<std::uint64_t, Segment> segments_;
  Blocks blocks_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> free_;  // size, address
  std::set<std::uint64_t> behind_frees_;                    // free blocks with pending frees
  std::set<std::uint64_t> idle_;                            // segments that are one free block without pending frees
  std::uint64_t held_ = 0;
  std::uint64_t held_high_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t used_high_ = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(Reuse::count_)> reuses_{};
};

/// The rounding of a pool: blocks are multiples of 512 bytes, segments are multiples of 2 MiB.
inline constexpr std::uint64_t kPoolUnit = 512;
inline constexpr std::uint64_t kPoolGranule = std::uint64_t{2} << 20;

}  // namespace memlake::emulator
