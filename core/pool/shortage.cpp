#include "pool/shortage.hpp"

#include <algorithm>
#include <array>

namespace memlake {

namespace {

struct Words {
  Reason reason;
  const char* word;
  const char* in_replays;  // docs/reference/replay_json.md
};

// A replay has five words for the six reasons: too few whole pages are no range of the size.
constexpr std::array kWords{
    Words{Reason::addresses, "addresses", "no addresses"},
    Words{Reason::limit, "limit", "limit"},
    Words{Reason::pages, "pages", "no contiguous range"},
    Words{Reason::contiguous, "contiguous", "no contiguous range"},
    Words{Reason::pending, "pending", "pending on a stream"},
    Words{Reason::physical, "physical", "no physical memory"},
};

const Words& words_of(Reason reason) { return *std::ranges::find(kWords, reason, &Words::reason); }

}  // namespace

const char* word_of(Reason reason) noexcept { return words_of(reason).word; }

const char* replay_word_of(Reason reason) noexcept { return words_of(reason).in_replays; }

const char* word_of(Binding binding) noexcept {
  switch (binding) {
    case Binding::nothing:
      return "nothing";
    case Binding::limit:
      return "limit";
    case Binding::max_size:
      return "max_size";
    case Binding::memory_fraction:
      return "memory_fraction";
    case Binding::device:
      return "device";
    case Binding::other_pools:
      return "other_pools";
    case Binding::elsewhere:
      return "elsewhere";
  }
  return "";
}

Bytes Shortage::held_elsewhere() const {
  const Bytes known = device_free + held + held_by_other_pools;
  return device_total.excess_over(known);
}

Bytes Shortage::least_limit() const {
  const Bytes all = needed() - std::min(needed(), held_on_host);
  return std::max(outlook.need.limit, all);
}

Bytes Shortage::allowed() const { return checked_add(limits.most(), held_on_host).value_or(Budget::kUnlimited); }

bool Shortage::has_tried(Tried::What what) const { return std::ranges::find(tried, what, &Tried::what) != tried.end(); }

bool Shortage::has_driver_refused() const { return std::ranges::any_of(tried, &Tried::has_failed); }

Reason reason_of(const Shortage& shortage) {
  const Outlook& outlook = shortage.outlook;
  if (shortage.has_no_addresses) return Reason::addresses;
  if (outlook.is_there_now) return Reason::pending;
  const Bytes most = std::min(shortage.allowed(), shortage.within_reach());
  if (shortage.needed() > most) {
    if (shortage.pending.count > 0 && shortage.live + shortage.rounded <= most) return Reason::pending;
    return shortage.needed() <= shortage.within_reach() ? Reason::limit : Reason::physical;
  }
  const bool is_enough_in_bytes = outlook.page.count > 1 && outlook.grows_from + outlook.room >= shortage.rounded;
  // The limit forbids what the driver would have given. If enough is free, but in pieces, it is about the pieces.
  const bool is_forbidden = shortage.limits.most() < shortage.least_limit();
  if (is_forbidden && outlook.need.from_driver <= shortage.device_free &&
      (is_enough_in_bytes || shortage.free < shortage.rounded))
    return Reason::limit;
  // What the policy could have done by its own account, it would have done: the driver gave less than it says it has.
  const Bytes grown = outlook.grows_from + outlook.room.rounded_down(outlook.page);
  if (std::max(outlook.in_one_range, grown) >= shortage.rounded) return Reason::physical;
  return is_enough_in_bytes ? Reason::pages : Reason::contiguous;
}

Binding binding_of(const Shortage& shortage) {
  switch (reason_of(shortage)) {
    case Reason::limit: {
      const Limits& limits = shortage.limits;
      if (limits.most() == limits.limit) return Binding::limit;
      return limits.most() == limits.max_size ? Binding::max_size : Binding::memory_fraction;
    }
    case Reason::physical: {
      const Bytes others = shortage.held_by_other_pools + shortage.held_elsewhere();
      const bool is_missing = shortage.needed() > shortage.within_reach();
      if (!is_missing || shortage.location != Location::device) return Binding::device;
      const Bytes missing = shortage.needed() - shortage.within_reach();
      if (others < missing) return Binding::device;
      return shortage.held_by_other_pools >= missing || shortage.held_by_other_pools >= shortage.held_elsewhere()
                 ? Binding::other_pools
                 : Binding::elsewhere;
    }
    default:
      return Binding::nothing;
  }
}

}  // namespace memlake
