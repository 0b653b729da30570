#pragma once

// Shortage: why a request found no memory: the figures, the reason, the constraint that binds, the advice and the text
// for users. Python, C and replays show them.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driver/driver.hpp"
#include "policies/attempt.hpp"
#include "policies/outlook.hpp"
#include "supply/limits.hpp"
#include "supply/placement.hpp"

namespace memlake {

enum class Reason {
  addresses,   ///< no range of addresses is left at which memory could be mapped
  limit,       ///< the device has the memory, but a limit of the pool forbids it
  pages,       ///< there is enough memory, but not in the whole pages that the policy needs
  contiguous,  ///< there is enough memory, but not in one piece that the request may use
  pending,     ///< there is enough memory, but streams still use it, or did at the policy's last search
  physical,    ///< there is too little memory in total
};

/// The constraint that would have to change.
enum class Binding {
  nothing,          ///< there is enough memory, but in the wrong place or pending
  limit,            ///< the pool's limit
  max_size,         ///< the pool's max_size
  memory_fraction,  ///< PyTorch's setting
  device,           ///< the device is too small, or this pool fills it
  other_pools,      ///< other pools of this process
  elsewhere,        ///< other processes, or memory that this process has from the driver without a pool
};

struct Shortage {
  /// Pending memory that waits for one stream.
  struct Waiting {
    StreamId stream;
    Bytes bytes;
    std::optional<CUstream> handle = {};  ///< set if the pool has streams of the driver
  };

  Request request{};
  Bytes rounded{0};  ///< the request after the policy's rounding
  Limits limits{};
  Bytes held{0};
  Bytes held_on_host{0};     ///< not part of `held`
  Bytes live{0};             ///< blocks of callers, after rounding
  Bytes pending{0};          ///< freed, but a stream may still use it
  Bytes kept_for_graphs{0};  ///< free, but in other graph pools than the request's, whose graphs use it
  Bytes free{0};             ///< cached, in any group and of any stream; without the above
  Bytes largest_free{0};     ///< the largest free block of any stream
  Bytes largest_usable{0};   ///< the largest free block of the request's stream
  Outlook outlook{};
  Bytes device_total{0};         ///< of all devices of the pool, or of the host if its memory lies there
  Bytes device_free{0};          ///< memory that the driver has left for any program
  Bytes held_by_other_pools{0};  ///< other pools of this process, on the same devices
  std::vector<std::pair<const char*, Bytes>> other_pools{};  ///< each by the name of its policy, most first
  std::vector<Waiting> pending_on{};
  std::vector<Tried> tried{};
  const char* policy = "";
  Location location = Location::device;
  std::size_t device_count = 1;
  std::size_t streams_with_memory = 0;
  bool has_no_addresses = false;

  /// The most that the pool may hold, by its limits and by the total memory of the device.
  [[nodiscard]] Bytes most() const { return std::min(limits.most(), device_total); }
  /// How much the pool could hold if it had no limit.
  [[nodiscard]] Bytes within_reach() const { return held + held_on_host + device_free; }
  [[nodiscard]] Bytes in_use() const { return live + pending + kept_for_graphs; }
  /// How much the pool would have to hold at least.
  [[nodiscard]] Bytes needed() const { return in_use() + rounded; }
  /// The least limit with which the policy would have asked the driver for the memory.
  [[nodiscard]] Bytes least_limit() const;
  /// The most that the pool may hold and have spilled: what it has spilled is beside its limits.
  [[nodiscard]] Bytes allowed() const;
  /// Device memory of other processes, and of this process without a pool.
  [[nodiscard]] Bytes held_elsewhere() const;
  [[nodiscard]] bool has_tried(Tried::What what) const;
  [[nodiscard]] bool has_driver_refused() const;
};

[[nodiscard]] Reason reason_of(const Shortage& shortage);
[[nodiscard]] Binding binding_of(const Shortage& shortage);

/// In one word, for programs: "addresses", "limit", ...
[[nodiscard]] const char* word_of(Reason reason) noexcept;
/// The same in the words of replay reports: "no physical memory", ...
[[nodiscard]] const char* replay_word_of(Reason reason) noexcept;
[[nodiscard]] const char* word_of(Binding binding) noexcept;

// Text for users (shortage_text.cpp).

/// All attempts in order, without immediate repetitions.
[[nodiscard]] std::vector<std::string> tried_in_words(const Shortage& shortage);
/// The advice to the user.
[[nodiscard]] std::string hint_of(const Shortage& shortage);
/// The whole description, in a few sentences.
[[nodiscard]] std::string to_text(const Shortage& shortage);

}  // namespace memlake
