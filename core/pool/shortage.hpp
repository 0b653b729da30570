#pragma once

// Shortage: why a request found no memory. The numbers, the reason, what binds, what to do and the text for people are
// made here; Python, C and replays show them.

#include <optional>
#include <string>
#include <vector>

#include "driver/driver.hpp"
#include "policies/attempt.hpp"
#include "policies/outlook.hpp"
#include "supply/limits.hpp"
#include "supply/placement.hpp"

namespace memlake {

enum class Reason {
  addresses,   ///< no range of addresses is left to map memory to
  limit,       ///< the device has it, a limit of the pool forbids it
  pages,       ///< there is enough, but not in the whole pages that the policy takes
  contiguous,  ///< there is enough, but not in one piece that the request may use
  pending,     ///< there would be enough, but streams still use it, or did when the policy searched
  physical,    ///< too little is there, wherever it lies
};

/// Who has to give way.
enum class Binding {
  nothing,          ///< there is enough memory: it lies in the wrong place, or waits for streams
  limit,            ///< the pool's
  max_size,         ///< of the pool
  memory_fraction,  ///< PyTorch's setting
  device,           ///< it is too small, or this pool fills it
  other_pools,      ///< of this process
  elsewhere,        ///< other processes, or what this process has from the driver without a pool
};

struct Shortage {
  /// What waits for one stream.
  struct Waiting {
    StreamId stream;
    Bytes bytes;
    std::optional<CUstream> handle = {};  ///< where the pool has streams of the driver
  };

  Request request{};
  Bytes rounded{0};  ///< what the policy makes of the request
  Limits limits{};
  Bytes held{0};
  Bytes held_on_host{0};    ///< beside that
  Bytes live{0};            ///< blocks of callers, with slack
  Bytes pending{0};         ///< freed, but awaited by some stream
  Bytes free{0};            ///< cached, in any group and of any stream
  Bytes largest_free{0};    ///< the largest free block of any stream
  Bytes largest_usable{0};  ///< the largest free block of the request's stream
  Outlook outlook{};
  Bytes device_total{0};         ///< of all devices of the pool, or of the host if its memory lies there
  Bytes device_free{0};          ///< what the driver can still give, to anyone
  Bytes held_by_other_pools{0};  ///< of this process, on the same devices
  std::vector<Waiting> pending_on{};
  std::vector<Tried> tried{};
  const char* policy = "";
  Location location = Location::device;
  std::size_t streams_with_memory = 0;
  bool has_no_addresses = false;

  /// What the pool may hold: by its limits, and by what the device has in all.
  [[nodiscard]] Bytes most() const { return std::min(limits.most(), device_total); }
  /// What the pool could hold if it had no limit.
  [[nodiscard]] Bytes within_reach() const { return held + held_on_host + device_free; }
  [[nodiscard]] Bytes in_use() const { return live + pending; }
  /// What the pool would have to hold at least.
  [[nodiscard]] Bytes needed() const { return in_use() + rounded; }
  /// What other processes, and users of the driver without a pool, have of the devices.
  [[nodiscard]] Bytes held_elsewhere() const;
  [[nodiscard]] bool has_tried(Tried::What what) const;
  [[nodiscard]] bool has_driver_refused() const;
};

[[nodiscard]] Reason reason_of(const Shortage& shortage);
[[nodiscard]] Binding binding_of(const Shortage& shortage);

/// In one word, for programs: "addresses", "limit", ...
[[nodiscard]] const char* word_of(Reason reason) noexcept;
/// The same as replays have always called it: "no physical memory", ...
[[nodiscard]] const char* replay_word_of(Reason reason) noexcept;
[[nodiscard]] const char* word_of(Binding binding) noexcept;

// For people (shortage_text.cpp).

/// What was tried, in order, without repetitions.
[[nodiscard]] std::vector<std::string> tried_in_words(const Shortage& shortage);
/// What to do about it.
[[nodiscard]] std::string hint_of(const Shortage& shortage);
/// All of it, in a few sentences.
[[nodiscard]] std::string to_text(const Shortage& shortage);

}  // namespace memlake
