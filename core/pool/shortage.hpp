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

  // The values that programs are told, in their order.
#define FIGURE(name) Bytes name{0};
#define FACT(type, name, none) type name = none;
#define ANSWER(name, value)
#include "pool/shortage.inc"
#undef FIGURE
#undef FACT
#undef ANSWER

  // What the answers and the text are made of.
  Request request{};
  Limits limits{};
  Outlook outlook{};
  std::vector<Tried> tried{};
  std::vector<std::pair<const char*, Bytes>> other_pools{};  ///< each by the name of its policy, most first
  std::size_t device_count = 1;
  std::size_t streams_with_memory = 0;

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
/// The reason in the words of replay reports: "no physical memory", ...
[[nodiscard]] const char* replay_word_of(Reason reason) noexcept;
[[nodiscard]] const char* word_of(Binding binding) noexcept;

// Text for users (shortage_text.cpp).

/// All attempts in order, without immediate repetitions.
[[nodiscard]] std::vector<std::string> tried_in_words(const Shortage& shortage);
/// The advice to the user.
[[nodiscard]] std::string hint_of(const Shortage& shortage);
/// The whole description, in a few sentences.
[[nodiscard]] std::string to_text(const Shortage& shortage);

/// Calls `tell(name, value)` for every value of the list, under the name that programs use.
template <class Tell>
void for_each_value(const Shortage& shortage, Tell&& tell) {
#define FIGURE(name) tell(#name, shortage.name);
#define FACT(type, name, none) tell(#name, shortage.name);
#define ANSWER(name, value) tell(#name, value);
#include "pool/shortage.inc"
#undef FIGURE
#undef FACT
#undef ANSWER
}

}  // namespace memlake
