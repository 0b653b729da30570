#include "policies/torch/torch_policy.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "policies/option_table.hpp"
#include "policies/segments/segment_space.hpp"
#include "policies/torch/torch_rules.hpp"
#include "policies/torch/torch_sizes.hpp"

namespace memlake {
namespace {

std::vector<OptionRow<TorchOptions>> rows() {
  return {
      {.key = "large_segment_size_mb",
       .member = &TorchOptions::large_segment_size,
       .value = "a whole number of MiB, more than 10",
       .help = "the size of segments for requests of 1 to 10 MiB, and of the pages of large expandable segments",
       .is_in_mib = true,
       .accepts = [](const TorchOptions& is) { return is.large_segment_size > torch::kMinLarge; }},
      {.key = "max_split_size_mb",
       .member = &TorchOptions::max_split_size,
       .value = "a whole number of MiB, at least large_segment_size_mb",
       .help = "blocks of at least this size are never split",
       .is_in_mib = true,
       .default_words = "no such size"},
      {.key = "max_non_split_rounding_mb",
       .member = &TorchOptions::max_non_split_rounding,
       .value = "a whole number of MiB, at least large_segment_size_mb",
       .help = "by how much a block that is not split may exceed the request",
       .is_in_mib = true,
       .default_words = "large_segment_size_mb"},
      {.key = "roundup_power2_divisions",
       .member = &TorchOptions::roundup_power2_divisions,
       .value = "a power of two (or 0: off), or a list such as [256:1,512:2,>:8]",
       .help = "rounds requests up to one of this many sizes between two powers of two"},
      {.key = "garbage_collection_threshold",
       .member = &TorchOptions::garbage_collection_threshold,
       .value = "a number between 0 and 1; leave it out to turn it off",
       .help = "releases old free segments above this share of the limit; only if there is a limit",
       .default_words = "off",
       .accepts =
           [](const TorchOptions& is) {
             return is.garbage_collection_threshold > 0 && is.garbage_collection_threshold < 1;
           }},
      {.key = "per_process_memory_fraction",
       .member = &TorchOptions::memory_fraction,
       .value = "a number from 0 to 1",
       .help = "the share of the device that the pool may hold; 1: no limit",
       .accepts = [](const TorchOptions& is) { return is.memory_fraction <= 1; }},
  };
}

void require_at_least(Bytes value, Bytes least, const char* key) {
  if (value < least)
    throw Error(ErrorKind::config, std::string(key) + " must be at least large_segment_size_mb, " +
                                       std::to_string(least.count / MiB.count) + ", got " +
                                       std::to_string(value.count / MiB.count));
}

void finish(TorchOptions& options, const std::vector<Setting>& given) {
  const Bytes large = options.large_segment_size;
  require_at_least(options.max_split_size, large, "max_split_size_mb");
  if (std::ranges::find(given, "max_non_split_rounding_mb", &Setting::key) == given.end())
    options.max_non_split_rounding = large;
  require_at_least(options.max_non_split_rounding, large, "max_non_split_rounding_mb");
}

// The keys of torch 2.13 that have no effect here.
std::vector<IgnoredKey> ignored_keys() {
  constexpr const char* host_memory = "it is about pinned host memory";
  constexpr const char* a_lock = "it is about a lock, and changes no placement";
  return {
      {"pinned_use_cuda_host_register", host_memory},
      {"pinned_use_hip_host_register", host_memory},
      {"pinned_num_register_threads", host_memory},
      {"pinned_use_background_threads", host_memory},
      {"pinned_reserve_segment_size_mb", host_memory},
      {"pinned_free_catch_all", host_memory},
      {"pinned_max_round_threshold_mb", host_memory},
      {"pinned_max_cached_size_mb", host_memory},
      {"release_lock_on_cudamalloc", a_lock},
      {"release_lock_on_hipmalloc", a_lock},
      {"graph_capture_record_stream_reuse", "it acts only while a CUDA graph is captured, which no trace records"},
  };
}

std::vector<RefusedKey> refused_keys() {
  constexpr const char* too_new = "it is newer than torch 2.13, whose allocator this is";
  return {
      {"backend", "native", "only native is PyTorch's own allocator; cudaMallocAsync leaves memory to the driver"},
      {"throw_on_cudamalloc_oom", "False", "refusing before anything is tried is not reproduced; leave it at False"},
      {"expandable_segments_reserve", "", too_new},
      {"expandable_segments_reserve_by_class", "", too_new},
  };
}

PolicyEntry torch_entry(const PolicyTable<TorchOptions>& table) {
  PolicyEntry entry = entry_of(table);
  entry.flag = "expandable_segments";
  entry.flag_value = table.defaults.is_expandable;
  // PyTorch's own keys mean its default allocator.
  entry.is_meant_by_its_keys = !table.defaults.is_expandable;
  entry.ignored = ignored_keys();
  entry.refused = refused_keys();
  return entry;
}

std::unique_ptr<Space> make(const TorchOptions& options, const Devices& devices, EventSource& events,
                            std::shared_ptr<Budget> budget) {
  return std::make_unique<SegmentSpace>(devices.front(), std::make_unique<TorchRules>(options), events,
                                        std::move(budget));
}

}  // namespace

const TorchOptions* torch_options(const PolicyOptions& options) {
  const auto* read = dynamic_cast<const ReadOptions<TorchOptions>*>(&options);
  return read == nullptr ? nullptr : &read->options();
}

const PolicyEntry& caching_policy() {
  static const auto& table = *new PolicyTable<TorchOptions>{
      .name = "caching",
      .summary = "PyTorch's native caching allocator",
      .capabilities = {.sharing = true, .preallocation = true, .in_pytorch = true},
      .defaults = {},
      .rows = rows(),
      .make = make,
      .finish = finish,
  };
  static const auto& entry = *new PolicyEntry(torch_entry(table));
  return entry;
}

const PolicyEntry& expandable_policy() {
  static const auto& table = *new PolicyTable<TorchOptions>{
      .name = "expandable",
      .summary = "PyTorch's expandable segments",
      .capabilities =
          {.sharing = true, .preallocation = true, .peers = true, .in_pytorch = true, .virtual_memory = true},
      .defaults = {.is_expandable = true},
      .rows = rows(),
      .make = make,
      .finish = finish,
  };
  static const auto& entry = *new PolicyEntry(torch_entry(table));
  return entry;
}

}  // namespace memlake
