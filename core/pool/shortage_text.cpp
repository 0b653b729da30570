// The text of a Shortage for users. Every sentence must be true for the figures that select it; a sentence that may be
// wrong says so. tests/native/test_shortage.cpp has an input for each.

#include <algorithm>
#include <sstream>

#include "base/bytes_text.hpp"
#include "pool/shortage.hpp"

namespace memlake {

namespace {

// The C functions keep a text of 2 KiB, and the hint is at its end.
constexpr std::size_t kMostStreams = 4;
constexpr std::size_t kMostPools = 4;  // the others are counted
constexpr std::size_t kMostTried = 12;

const char* words_for(Tried::What what) {
  switch (what) {
    case Tried::What::new_segment:
      return "a new segment";
    case Tried::What::new_addresses:
      return "new addresses";
    case Tried::What::map:
      return "more pages";
    case Tried::What::wait_for_events:
      return "waiting for all streams";
    case Tried::What::release:
      return "giving cached memory back";
    case Tried::What::wait_on_device:
      return "letting streams wait on the device";
    case Tried::What::gather:
      return "gathering free memory";
    case Tried::What::spill:
      return "memory of the host";
  }
  return "";
}

/// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

/// The size as text, rounded up: a limit of this text is enough.
std::string to_text_above(Bytes bytes) {
  std::uint64_t unit = 1;
  while (unit < std::uint64_t{1} << 50 && bytes.count >= unit << 10) unit <<= 10;
  const std::uint64_t hundredths = bytes.count / unit * 100 + (bytes.count % unit * 100 + unit - 1) / unit;
  return to_text(Bytes{hundredths / 100 * unit + (hundredths % 100 * unit + 99) / 100});
}

/// The least share of the device that allows `needed`, with two decimals. 1 is no limit.
std::string fraction_for(Bytes needed, Bytes total) {
  const auto all = static_cast<double>(total.count);
  unsigned hundredths = 0;
  while (hundredths < 100 && static_cast<std::uint64_t>(hundredths / 100.0 * all) < needed.count) ++hundredths;
  if (hundredths == 100) return "1";
  const std::string digits = std::to_string(hundredths);
  return (digits.size() == 1 ? "0.0" : "0.") + (digits.ends_with('0') ? digits.substr(0, 1) : digits);
}

/// How to let the pool hold what it needs; empty if its settings allow it.
std::string how_to_raise(const Shortage& shortage) {
  const Bytes needed = shortage.least_limit();
  const Limits& limits = shortage.limits;
  std::vector<std::string> ways;
  if (limits.limit < needed) ways.push_back("raise the pool's limit to at least " + to_text_above(needed));
  if (limits.memory_fraction < needed)
    ways.push_back("make a pool with a memory fraction of at least " + fraction_for(needed, shortage.device_total) +
                   " (or call memlake_torch_fraction, if that set it)");
  if (limits.max_size < needed)
    ways.push_back("make a pool whose max_size is at least " + to_text_above(needed) +
                   ", because max_size cannot be changed");
  return listed(ways);
}

const char* device_of(const Shortage& shortage) {
  if (shortage.location != Location::device) return "the host";
  return shortage.device_count == 1 ? "the device" : "the devices";
}

/// "the device has", ...: the device as a subject, with the verb.
std::string device_has(const Shortage& shortage) {
  const bool is_one = shortage.location != Location::device || shortage.device_count == 1;
  return std::string(device_of(shortage)) + (is_one ? " has" : " have");
}

/// To be appended to a hint about something else that is in the way.
std::string limit_as_well(const Shortage& shortage) {
  const std::string raise = how_to_raise(shortage);
  return raise.empty() ? "" : "; the pool may not hold so much either: " + raise;
}

std::string hint_about_addresses(const Shortage& shortage) {
  const std::string text = "no range of addresses is left to map memory to; ";
  if (shortage.streams_with_memory <= 1) return text + "close buffers and call trim(), or ask for less";
  return text +
         "every stream that has buffers keeps addresses of its own, so use fewer streams, use them again, or close "
         "buffers of some and call trim()";
}

std::string hint_about_pending(const Shortage& shortage) {
  if (shortage.outlook.is_there_now)
    return std::string("memory for it became free while the pool waited for streams, after the policy ") +
           shortage.policy + " had searched; ask again";
  return to_text(shortage.pending) + " are freed, but streams still use them; wait for these streams, then ask again";
}

std::string hint_about_limit(const Shortage& shortage) {
  const Outlook::Need& need = shortage.outlook.need;
  const Bytes most = shortage.limits.most();
  const Bytes with_live = shortage.live + shortage.rounded;
  const bool is_for_pages = shortage.needed() <= shortage.allowed();
  std::string text;
  if (is_for_pages) {
    const Bytes before = need.limit - need.more;
    text = std::string("the policy ") + shortage.policy + " needs " + to_text(need.more) +
           " more for this request, and the pool may take only " + to_text(most.excess_over(before)) + "; ";
  }
  if (shortage.live.count > 0 && std::max(need.alone, shortage.rounded) <= most) {
    text += with_live > shortage.allowed() ? "free at least " + to_text(with_live - shortage.allowed()) + " first"
                                           : std::string("free buffers first");
    if (shortage.pending.count > 0) text += " and wait for the streams that use what is pending";
    text += ", or ";
  } else if (most >= std::min(shortage.outlook.page, kMovable) && most.count > 0) {
    text += "ask for less, or ";
  }
  text += how_to_raise(shortage);
  if (need.from_driver > shortage.device_free)
    text += ", which is enough only if " + to_text(need.from_driver) + " are free on " + device_of(shortage) +
            ", and " + to_text(shortage.device_free) + " are";
  // A lake needs pieces, too, but small ones.
  if (is_for_pages && shortage.outlook.page > kMovable &&
      shortage.rounded.rounded_up(kMovable) <= shortage.outlook.room)
    text += ", or use the policy lake, which takes multiples of " + to_text(kMovable);
  if (shortage.has_tried(Tried::What::spill)) text += "; the host has no memory for it either";
  return text;
}

std::string hint_about_pages(const Shortage& shortage) {
  const Outlook& outlook = shortage.outlook;
  const Bytes missing = shortage.rounded - outlook.grows_from;
  const Bytes in_pages = missing.rounded_up(outlook.page);
  const std::string policy = std::string("the policy ") + shortage.policy;
  const std::string room = to_text(outlook.room);
  std::string text = policy + " takes new memory in multiples of " + to_text(outlook.page) +
                     ", so this request needs " + to_text(in_pages) + " more, and only " + room +
                     " may be taken; ask for less";
  // A lake needs pieces, too, but small ones.
  if (outlook.page > kMovable && missing.rounded_up(kMovable) <= outlook.room)
    text += ", or use the policy lake, which takes multiples of " + to_text(kMovable);
  return text + limit_as_well(shortage);
}

std::string hint_about_pieces(const Shortage& shortage) {
  const std::string raise = how_to_raise(shortage);
  if (raise.empty() || shortage.outlook.need.from_driver > shortage.device_free) return shortage.outlook.advice;
  return shortage.outlook.advice + "; new memory would serve it, too: " + raise;
}

/// Those who have what is missing, if they have enough; else empty.
std::string hint_about_others(const Shortage& shortage) {
  const Bytes missing = shortage.needed() - shortage.within_reach();
  const Bytes pools = shortage.held_by_other_pools;
  const Bytes elsewhere = shortage.held_elsewhere();
  if (pools + elsewhere < missing) return {};
  const bool names_pools = pools.count > 0;
  const bool names_others = pools < missing || elsewhere >= missing;
  std::string text;
  if (names_pools)
    text = "other pools of this process hold " + to_text(pools) + " of " + device_of(shortage) +
           ": trim() gives back what is free in them, and closing buffers there frees the rest";
  if (names_others)
    text += (text.empty() ? "" : "; ") + std::string("other processes, or this one without a pool, hold ") +
            to_text(elsewhere) + " of " + device_of(shortage) + ": free memory there";
  return text + ", or ask for less";
}

std::string hint_about_memory(const Shortage& shortage) {
  const bool is_on_device = shortage.location == Location::device;
  if (shortage.has_tried(Tried::What::spill))
    return "neither the devices nor the host have the memory; free some, or ask for less" + limit_as_well(shortage);
  if (shortage.rounded > shortage.device_total)
    return device_has(shortage) + " only " + to_text(shortage.device_total) + " in all; ask for less" +
           (is_on_device ? ", or use a larger device" : "") + limit_as_well(shortage);
  if (!is_on_device)
    return "the host has no more memory to give; free some here or in other programs, or ask for less" +
           limit_as_well(shortage);
  if (shortage.needed() <= shortage.within_reach()) {
    if (!shortage.has_driver_refused())
      return "by its numbers the pool has the memory now, so it may have become free meanwhile; ask again";
    const std::string although = shortage.device_free < shortage.rounded
                                     ? ""
                                     : " although it says that " + to_text(shortage.device_free) + " are free";
    return "the driver refused new memory" + although +
           ": another program may have taken it meanwhile, or the driver needs it; ask again, or ask for less";
  }
  std::string text = hint_about_others(shortage);
  if (text.empty())
    text = to_text(shortage.live) + " of the pool are live and " + to_text(shortage.pending) + " pending, and " +
           device_has(shortage) + " only " + to_text(shortage.device_free) +
           " left; free some, ask for less, or use a larger device";
  return text + limit_as_well(shortage);
}

}  // namespace

std::vector<std::string> tried_in_words(const Shortage& shortage) {
  std::vector<std::string> words;
  for (const Tried& tried : shortage.tried) {
    std::string text = words_for(tried.what);
    if (tried.has_failed) text += " (the driver has no memory)";
    if (words.empty() || words.back() != text) words.push_back(std::move(text));
  }
  return words;
}

namespace {

std::string hint_without_graphs(const Shortage& shortage) {
  switch (reason_of(shortage)) {
    case Reason::addresses:
      return hint_about_addresses(shortage);
    case Reason::limit:
      return hint_about_limit(shortage);
    case Reason::pages:
      return hint_about_pages(shortage);
    case Reason::contiguous:
      return hint_about_pieces(shortage);
    case Reason::pending:
      return hint_about_pending(shortage);
    case Reason::physical:
      return hint_about_memory(shortage);
  }
  return {};
}

}  // namespace

std::string hint_of(const Shortage& shortage) {
  std::string hint = hint_without_graphs(shortage);
  if (shortage.kept_for_graphs.count > 0)
    hint += "; graph pools keep " + to_text(shortage.kept_for_graphs) +
            " that are free: close those whose graphs will not be launched again";
  return hint;
}

std::string to_text(const Shortage& shortage) {
  std::ostringstream text;
  text << "no memory for " << to_text(shortage.request.requested);
  if (shortage.rounded != shortage.request.requested) text << " (rounded up to " << to_text(shortage.rounded) << ")";
  text << ". The pool holds " << to_text(shortage.held) << " of " << to_text(shortage.most()) << " it may hold";
  if (shortage.held_on_host.count > 0) text << ", and " << to_text(shortage.held_on_host) << " on the host";
  text << ": " << to_text(shortage.live) << " live, " << to_text(shortage.pending) << " pending, "
       << to_text(shortage.free) << " free";
  if (shortage.kept_for_graphs.count > 0) text << ", " << to_text(shortage.kept_for_graphs) << " kept for graphs";
  // CUDA's own pools do not tell their largest free block.
  if (shortage.free.count == 0 || shortage.largest_contiguous.count > 0)
    text << ", the largest free block " << to_text(shortage.largest_contiguous);
  text << "; in one range the policy " << shortage.policy << " could have given "
       << to_text(shortage.outlook.in_one_range) << ". T" << device_has(shortage).substr(1) << " "
       << to_text(shortage.device_free) << " of " << to_text(shortage.device_total) << " left.";
  if (shortage.held_by_other_pools.count > 0) {
    text << " Other pools of this process hold " << to_text(shortage.held_by_other_pools);
    const auto& pools = shortage.other_pools;
    for (std::size_t i = 0; i < std::min(pools.size(), kMostPools); ++i)
      text << (i == 0 ? " (" : ", ") << pools[i].first << " " << to_text(pools[i].second);
    if (pools.size() > kMostPools) text << ", and " << pools.size() - kMostPools << " more";
    text << (pools.empty() ? "." : ").");
  }
  for (std::size_t i = 0; i < shortage.pending_on.size(); ++i) {
    if (i == kMostStreams) {
      text << " and " << shortage.pending_on.size() - i << " more streams";
      break;
    }
    const Shortage::Waiting& waiting = shortage.pending_on[i];
    text << (i == 0 ? " Waiting: " : ", ") << to_text(waiting.bytes) << " on ";
    if (waiting.handle.value_or(nullptr) != nullptr) {
      text << "stream " << static_cast<const void*>(*waiting.handle);
    } else if (waiting.stream == 0 || waiting.handle) {
      text << "the default stream";
    } else {
      text << "stream " << waiting.stream;
    }
  }
  if (!shortage.pending_on.empty()) text << ".";
  const std::vector<std::string> tried = tried_in_words(shortage);
  for (std::size_t i = 0; i < std::min(tried.size(), kMostTried); ++i) text << (i == 0 ? " Tried: " : ", ") << tried[i];
  if (tried.size() > kMostTried) text << " and more";
  if (!tried.empty()) text << ".";
  text << " Hint: " << hint_of(shortage) << ".";
  return text.str();
}

}  // namespace memlake
