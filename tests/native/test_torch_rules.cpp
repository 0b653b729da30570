// PyTorch's two allocators, to the byte. The table is what torch 2.13.0's own library (libc10_cuda) answered to the
// same trace at the same capacities, with every event complete when it is first asked for.

#include "emulated.hpp"
#include "policies/torch/torch_rules.hpp"
#include "policies/torch/torch_sizes.hpp"
#include "replay/replay_device.hpp"
#include "synthetic_trace.hpp"
#include "test.hpp"

namespace memlake {
namespace {

constexpr std::size_t kRows = 8000;

struct Row {
  const char* name;
  std::uint64_t capacity;
  std::uint64_t peak_requested, peak_allocated, peak_held;
  std::int64_t failed_row;
  std::uint64_t retries, allocs, frees, creates, unmaps, event_records;
};

constexpr Row kTorch[] = {
    {"native", 5913968640, 2957791726, 2968424960, 5496635392, -1, 0, 77, 0, 0, 0, 224},
    {"native", 3399483392, 2671982291, 2688995840, 3372220416, 1907, 1, 62, 3, 0, 0, 47},
    {"native", 3015704576, 2270266550, 2285934592, 2906652672, 1853, 2, 70, 12, 0, 0, 46},
    {"expandable", 5913968640, 2957791726, 2957838848, 4607442944, -1, 0, 0, 0, 253, 0, 224},
    {"expandable", 3399483392, 2957791726, 2957838848, 3399483392, -1, 9, 0, 0, 554, 349, 224},
    {"expandable", 3015704576, 2671982291, 2672031232, 2938109952, 1907, 2, 0, 0, 207, 25, 47},
    {"split 32", 5913968640, 2957791726, 3064258560, 5913968640, -1, 1, 200, 90, 0, 0, 224},
    {"split 32", 3399483392, 2957791726, 3030510592, 3399483392, -1, 11, 375, 251, 0, 0, 224},
    {"split 32", 3015704576, 2671982291, 2755867648, 3009413120, 1907, 3, 131, 41, 0, 0, 47},
    {"split 64, rounding 128", 5913968640, 2957791726, 3273241088, 5886705664, -1, 1, 107, 34, 0, 0, 224},
    {"split 64, rounding 128", 3399483392, 2671982291, 3096535552, 3399483392, 1907, 2, 87, 13, 0, 0, 47},
    {"split 64, rounding 128", 3015704576, 2494951879, 2735435776, 2996830208, 1894, 2, 93, 18, 0, 0, 47},
    {"segments 32", 5913968640, 2957791726, 2968329728, 5370806272, -1, 0, 76, 0, 0, 0, 224},
    {"segments 32", 3399483392, 2671982291, 2687371264, 3351248896, 1907, 1, 61, 3, 0, 0, 47},
    {"segments 32", 3015704576, 2270266550, 2282614272, 2956984320, 1853, 2, 60, 5, 0, 0, 46},
    {"expandable, segments 32", 5913968640, 2957791726, 2957838848, 4640997376, -1, 0, 0, 0, 173, 0, 224},
    {"expandable, segments 32", 3399483392, 2957791726, 2957838848, 3359637504, -1, 9, 0, 0, 357, 192, 224},
    {"expandable, segments 32", 3015704576, 2494951879, 2494999552, 2919235584, 1894, 2, 0, 0, 141, 15, 47},
    {"divisions 4", 5913968640, 2957791726, 3200319488, 5546967040, -1, 0, 78, 0, 0, 0, 224},
    {"divisions 4", 3399483392, 2671982291, 2929676800, 3386900480, 1907, 2, 66, 6, 0, 0, 47},
    {"divisions 4", 3015704576, 2270266550, 2487349760, 3003121664, 1853, 3, 70, 9, 0, 0, 46},
    {"garbage 0.6", 5913968640, 2957791726, 2972815360, 3726639104, -1, 0, 116, 53, 0, 0, 224},
    {"garbage 0.6", 3399483392, 2494951879, 2514638848, 2996830208, 1894, 1, 75, 17, 0, 0, 47},
    {"garbage 0.6", 3015704576, 2175568730, 2188808192, 2711617536, 1615, 1, 67, 19, 0, 0, 41},
    {"fraction 0.8", 5913968640, 2957791726, 2968424960, 4584374272, -1, 1, 98, 31, 0, 0, 224},
    {"fraction 0.8", 3399483392, 2219250045, 2231383552, 2707423232, 1852, 3, 67, 14, 0, 0, 46},
    {"fraction 0.8", 3015704576, 1818559150, 1830546944, 2344615936, 1592, 2, 56, 14, 0, 0, 41},
};

struct Setting {
  TorchOptions options;
  double fraction = 1;  ///< of the device, as torch's memory fraction; 1: none
};

Setting setting(std::string_view name) {
  Setting made;
  TorchOptions& options = made.options;
  options.is_expandable = name.starts_with("expandable");
  if (name == "split 32") options.max_split_size = MiB * 32;
  if (name == "split 64, rounding 128") {
    options.max_split_size = MiB * 64;
    options.max_non_split_rounding = MiB * 128;
  }
  if (name.ends_with("segments 32")) options.large_segment_size = options.max_non_split_rounding = MiB * 32;
  if (name == "divisions 4") options.roundup_power2_divisions.fill(4);
  if (name == "garbage 0.6") {
    options.garbage_collection_threshold = 0.6;
    made.fraction = 0.9;
  }
  if (name == "fraction 0.8") made.fraction = 0.8;
  return made;
}

TEST(the_policies_are_pytorchs_to_the_byte) {
  const test::SyntheticTrace trace(kRows);
  for (const Row& torch : kTorch) {
    const Setting with = setting(torch.name);
    const Bytes limit = with.fraction == 1
                            ? TorchOptions::kUnlimited
                            : Bytes{static_cast<std::uint64_t>(with.fraction * static_cast<double>(torch.capacity))};
    ReplayDevice device(test::emulator(), {torch.capacity});
    TraceEvents events(EventMode::immediate, 0);
    Pool pool(device.device(), std::make_unique<TorchRules>(with.options), events, limit);
    const ReplayOutcome outcome = replay(trace.columns(), pool, events, {});
    const PoolStats& stats = pool.figures().stats();
    const Row ours{torch.name,
                   torch.capacity,
                   stats.requested.peak.count,
                   stats.allocated.peak.count,
                   stats.held.peak.count,
                   outcome.first_failure ? static_cast<std::int64_t>(outcome.first_failure->row) : -1,
                   stats.retries,
                   device.calls().count(Call::cuMemAlloc),
                   device.calls().count(Call::cuMemFree),
                   device.calls().count(Call::cuMemCreate),
                   device.calls().count(Call::cuMemUnmap),
                   events.records};
    const auto expect = [&](auto Row::* figure, const char* what) {
      test::expect_equal(ours.*figure, torch.*figure,
                         (std::string(torch.name) + " at " + std::to_string(torch.capacity) + ": " + what).c_str());
    };
    expect(&Row::peak_requested, "peak requested");
    expect(&Row::peak_allocated, "peak allocated");
    expect(&Row::peak_held, "peak held");
    expect(&Row::failed_row, "failed row");
    expect(&Row::retries, "retries");
    expect(&Row::allocs, "cuMemAlloc");
    expect(&Row::frees, "cuMemFree");
    expect(&Row::creates, "cuMemCreate");
    expect(&Row::unmaps, "cuMemUnmap");
    expect(&Row::event_records, "cuEventRecord");
  }
}

TEST(requests_are_rounded_as_pytorch_rounds_them) {
  TorchOptions options;
  EXPECT_EQ(torch::round_request({1}, options).count, 512U);
  EXPECT_EQ(torch::round_request({513}, options).count, 1024U);
  options.roundup_power2_divisions.fill(4);
  EXPECT_EQ(torch::round_request({1200}, options).count, 1536U);  // too small for four steps: 512 bytes
  EXPECT_EQ(torch::round_request(MiB * 5, options).count, (MiB * 5).count);
  EXPECT_EQ(torch::round_request(MiB * 5 + Bytes{1}, options).count, (MiB * 6).count);
  EXPECT_EQ(torch::round_request(MiB * 8, options).count, (MiB * 8).count);
}

TEST(segments_are_sized_as_pytorch_sizes_them) {
  const TorchOptions options;
  EXPECT_EQ(torch::segment_size(MiB, options).count, (MiB * 2).count);
  EXPECT_EQ(torch::segment_size(MiB + Bytes{512}, options).count, (MiB * 20).count);
  EXPECT_EQ(torch::segment_size(MiB * 10, options).count, (MiB * 10).count);
  EXPECT_EQ(torch::segment_size(MiB * 10 + Bytes{512}, options).count, (MiB * 12).count);
}

}  // namespace
}  // namespace memlake
