#include "abi/conf.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "abi/conf_values.hpp"
#include "base/error.hpp"
#include "policies/torch/torch_sizes.hpp"

namespace memlake::abi {
namespace {

constexpr const char* kSyntax = "write key:value,key:value, for instance \"policy:expandable,limit:90%\"";

/// What was given beside its effect, for rules about several keys.
struct Given {
  std::optional<bool> expandable_segments;
  bool has_policy = false;
  bool has_torch_option = false;
  std::string lake_option;    // one that only policy:lake has
  std::string stitch_option;  // or policy:stitch
  bool has_rounding = false;
  std::string only_emulated;  // a key that needs driver:emulated
};

struct Reading {
  Conf conf = {};
  Given given = {};
};

void read_policy(Reading& reading, const Entry& entry) {
  reading.given.has_policy = true;
  if (entry.value == "lake") {
    reading.conf.policy = Conf::PolicyName::lake;
  } else if (entry.value == "caching") {
    reading.conf.policy = Conf::PolicyName::caching;
  } else if (entry.value == "expandable") {
    reading.conf.policy = Conf::PolicyName::expandable;
  } else if (entry.value == "stitch") {
    reading.conf.policy = Conf::PolicyName::stitch;
  } else if (entry.value == "direct") {
    reading.conf.policy = Conf::PolicyName::direct;
  } else if (entry.value == "driver") {
    reading.conf.policy = Conf::PolicyName::driver;
  } else {
    refuse(entry, "lake, caching, expandable, stitch, direct or driver");
  }
}

void read_limit(Reading& reading, const Entry& entry) {
  Limit limit;
  if (!parse_percentage(entry, limit.share)) limit.bytes = parse_size(entry);
  reading.conf.limit = limit;
}

void read_driver(Reading& reading, const Entry& entry) {
  if (entry.value != "cuda" && entry.value != "emulated" && entry.value.find('/') == std::string_view::npos)
    refuse(entry, "cuda, emulated, or the path of a driver's library");
  reading.conf.driver = entry.value;
}

void read_devices(Reading& reading, const Entry& entry) {
  if (entry.value.empty() || entry.value.size() > 4 ||
      entry.value.find_first_not_of("0123456789") != std::string_view::npos || entry.value.front() == '0')
    refuse(entry, "a number of devices, at least 1");
  reading.conf.devices = entry.value;
}

void read_backing(Reading& reading, const Entry& entry) {
  if (entry.value != "host" && entry.value != "none") refuse(entry, "host or none");
  reading.conf.backing = entry.value;
}

using Reader = void (*)(Reading&, const Entry&);

template <Bytes TorchOptions::* option>
void read_mib(Reading& reading, const Entry& entry) {
  reading.given.has_torch_option = true;
  reading.conf.torch.*option = parse_mib(entry);
}

template <Bytes StitchOptions::* option>
void read_stitch_size(Reading& reading, const Entry& entry) {
  reading.given.stitch_option = entry.key;
  reading.conf.stitch.*option = parse_size(entry);
}

template <std::uint64_t StitchOptions::* option>
void read_stitch_count(Reading& reading, const Entry& entry) {
  reading.given.stitch_option = entry.key;
  reading.conf.stitch.*option = parse_count(entry);
}

void read_chunk_size(Reading& reading, const Entry& entry) {
  read_stitch_size<&StitchOptions::chunk_size>(reading, entry);
  const Bytes size = reading.conf.stitch.chunk_size;
  if (size < MiB * 2 || !size.is_multiple_of(MiB)) refuse(entry, "whole MiB and at least 2 MiB");
}

void read_max_view_bytes(Reading& reading, const Entry& entry) {
  read_stitch_size<&StitchOptions::max_view_bytes>(reading, entry);
  if (reading.conf.stitch.max_view_bytes.count == 0) refuse(entry, "more than 0; write max_views:0 to stitch nothing");
}

void read_reuse_limit(Reading& reading, const Entry& entry) {
  reading.given.stitch_option = entry.key;
  reading.conf.stitch.reuse_limit = parse_number(entry, 1, 1e6);
}

/// The known keys, in the order in which a sentence lists them.
const std::vector<std::pair<std::string_view, Reader>>& readers() {
  static const auto& known = *new std::vector<std::pair<std::string_view, Reader>>{
      {"policy", read_policy},
      {"limit", read_limit},
      {"driver", read_driver},
      {"devices",
       [](Reading& reading, const Entry& entry) {
         read_devices(reading, entry);
         reading.given.only_emulated = entry.key;
       }},
      {"memory",
       [](Reading& reading, const Entry& entry) {
         reading.conf.memory = std::to_string(parse_size(entry).count);
         reading.given.only_emulated = entry.key;
       }},
      {"backing",
       [](Reading& reading, const Entry& entry) {
         read_backing(reading, entry);
         reading.given.only_emulated = entry.key;
       }},
      {"may_alias",
       [](Reading& reading, const Entry& entry) {
         reading.given.lake_option = entry.key;
         reading.conf.lake.may_alias = parse_boolean(entry);
       }},
      {"spill",
       [](Reading& reading, const Entry& entry) {
         if (entry.value != "host") refuse(entry, "host; leave it out to spill nothing");
         reading.given.lake_option = entry.key;
         reading.conf.lake.may_spill = true;
       }},
      {"frag_limit", read_stitch_size<&StitchOptions::frag_limit>},
      {"reuse_limit", read_reuse_limit},
      {"chunk_size", read_chunk_size},
      {"max_views", read_stitch_count<&StitchOptions::max_views>},
      {"max_view_bytes", read_max_view_bytes},
      {"max_mappings", read_stitch_count<&StitchOptions::max_mappings>},
      {"expandable_segments",
       [](Reading& reading, const Entry& entry) { reading.given.expandable_segments = parse_boolean(entry); }},
      {"large_segment_size_mb", read_mib<&TorchOptions::large_segment_size>},
      {"max_split_size_mb", read_mib<&TorchOptions::max_split_size>},
      {"max_non_split_rounding_mb",
       [](Reading& reading, const Entry& entry) {
         read_mib<&TorchOptions::max_non_split_rounding>(reading, entry);
         reading.given.has_rounding = true;
       }},
      {"garbage_collection_threshold",
       [](Reading& reading, const Entry& entry) {
         reading.given.has_torch_option = true;
         const double threshold = parse_share(entry);
         if (threshold <= 0 || threshold >= 1) refuse(entry, "between 0 and 1; leave it out to turn it off");
         reading.conf.torch.garbage_collection_threshold = threshold;
       }},
      {"per_process_memory_fraction",
       [](Reading& reading, const Entry& entry) { reading.conf.memory_fraction = parse_share(entry); }},
      {"roundup_power2_divisions",
       [](Reading& reading, const Entry& entry) {
         reading.given.has_torch_option = true;
         reading.conf.torch.roundup_power2_divisions = parse_divisions(entry);
       }},
  };
  return known;
}

void read(Reading& reading, const Entry& entry) {
  const auto found = std::ranges::find(readers(), entry.key, [](const auto& known) { return known.first; });
  if (found != readers().end()) return found->second(reading, entry);
  std::string known;
  for (const auto& [key, reader] : readers()) known += (known.empty() ? "" : ", ") + std::string(key);
  throw Error(ErrorKind::config, "unknown key " + shown(entry.key) + " in a configuration; known: " + known);
}

/// Takes the first entry off the text.
Entry next_entry(std::string_view& text) {
  const std::size_t colon = text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  const bool has_key = colon != 0 && colon != std::string_view::npos && text[colon] == ':';
  const std::size_t begin = has_key ? colon + 1 : 0;
  std::size_t end = text.find(',', begin);
  if (has_key && begin < text.size() && text[begin] == '[') {
    end = text.find(']', begin);
    end = end == std::string_view::npos ? end : end + 1;
  }
  end = std::min(end, text.size());
  if (!has_key || begin == end || (end < text.size() && text[end] != ','))
    throw Error(ErrorKind::config, "cannot read " + shown(text) + " in a configuration; " + kSyntax);
  const Entry entry{text.substr(0, colon), text.substr(begin, end - begin)};
  text.remove_prefix(std::min(end + 1, text.size()));
  return entry;
}

void require_at_least(Bytes value, Bytes least, const char* key) {
  if (value < least)
    throw Error(ErrorKind::config, std::string(key) + " must be at least large_segment_size_mb, " +
                                       std::to_string(least.count / MiB.count) + ", got " +
                                       std::to_string(value.count / MiB.count));
}

/// What no key alone can decide.
void finish(Reading& reading) {
  Conf& conf = reading.conf;
  const Given& given = reading.given;
  if (given.expandable_segments) {
    const auto meant = *given.expandable_segments ? Conf::PolicyName::expandable : Conf::PolicyName::caching;
    if (given.has_policy && conf.policy != meant)
      throw Error(ErrorKind::config, "policy and expandable_segments contradict each other; leave one of them out");
    conf.policy = meant;
  }
  conf.torch.is_expandable = conf.policy == Conf::PolicyName::expandable;
  const Bytes large = conf.torch.large_segment_size;
  if (large <= torch::kMinLarge)
    throw Error(ErrorKind::config,
                "large_segment_size_mb must be more than 10, got " + std::to_string(large.count / MiB.count));
  require_at_least(conf.torch.max_split_size, large, "max_split_size_mb");
  if (!given.has_rounding) conf.torch.max_non_split_rounding = large;
  require_at_least(conf.torch.max_non_split_rounding, large, "max_non_split_rounding_mb");
  // PyTorch's own keys mean PyTorch's own allocator.
  if (given.has_torch_option && !given.has_policy && !given.expandable_segments)
    conf.policy = Conf::PolicyName::caching;
  const bool is_torch = conf.policy == Conf::PolicyName::caching || conf.policy == Conf::PolicyName::expandable;
  if (given.has_torch_option && !is_torch)
    throw Error(ErrorKind::config,
                "PyTorch's options are for policy:caching and policy:expandable; leave them out, or name one of those");
  if (!given.lake_option.empty() && conf.policy != Conf::PolicyName::lake)
    throw Error(ErrorKind::config,
                given.lake_option + " is an option of policy:lake; leave it out, or name that policy");
  if (!given.stitch_option.empty() && conf.policy != Conf::PolicyName::stitch)
    throw Error(ErrorKind::config, given.stitch_option + " is an option of policy:stitch; name that policy, too");
  if (!conf.is_emulated() && !given.only_emulated.empty())
    throw Error(ErrorKind::config,
                given.only_emulated + " is about the emulator; add driver:emulated, or leave it out");
}

}  // namespace

Bytes Limit::of(Bytes device_total) const {
  return bytes ? *bytes : Bytes{static_cast<std::uint64_t>(share * static_cast<double>(device_total.count))};
}

Bytes Conf::limit_on(Bytes device_total) const {
  Bytes most = limit ? limit->of(device_total) : TorchOptions::kUnlimited;
  if (memory_fraction < 1)
    most = std::min(most, Bytes{static_cast<std::uint64_t>(memory_fraction * static_cast<double>(device_total.count))});
  return most;
}

Conf parse_conf(std::string_view text) {
  std::string stripped;
  std::ranges::copy_if(text, std::back_inserter(stripped),
                       [](char c) { return std::string_view(" \t\r\n\v\f").find(c) == std::string_view::npos; });
  Reading reading;
  for (std::string_view rest = stripped; !rest.empty();) read(reading, next_entry(rest));
  finish(reading);
  return std::move(reading.conf);
}

}  // namespace memlake::abi
