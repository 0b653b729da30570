#include "policies/torch/graph_rules.hpp"

#include <atomic>

#include "base/error.hpp"
#include "policies/segments/segment_space.hpp"
#include "policies/torch/torch_sizes.hpp"
#include "vmm/feature_probe.hpp"

namespace memlake {

namespace {

// No rung releases memory of the space.
constexpr Rung kGraphLadder[] = {Rung::grow, Rung::wait_for_events, Rung::search, Rung::grow};
// The pages that are free go to the place of the request, as in PyTorch's expandable segments.
constexpr Rung kUncapturedLadder[] = {Rung::grow, Rung::wait_for_events, Rung::search,
                                      Rung::grow, Rung::release_cached,  Rung::grow};

/// The numbers of segments of graph pools differ from each other and from those of a policy's segments, so that another
/// segment at the same addresses is another generation.
std::uint64_t next_serial() {
  constexpr std::uint32_t first = std::uint32_t{1} << 31;
  static std::atomic<std::uint32_t> made{0};
  return first | made.fetch_add(1, std::memory_order_relaxed);
}

/// Whether the pages of TorchRules can be mapped on the device.
bool can_map_pages(const std::shared_ptr<Device>& device) {
  return has_feature(device, Feature::virtual_memory) &&
         torch::kSmallSegment.count % device->granularity(CU_MEM_ALLOC_GRANULARITY_MINIMUM).count == 0;
}

}  // namespace

Ladder GraphRules::ladder() const {
  if (graph_pool_->is_captured) return kGraphLadder;
  return kUncapturedLadder;
}

Step GraphRules::next(Climb& climb, const SegmentView& view) const {
  Step step = torch_.next(climb, view);
  switch (step.kind) {
    case Step::Kind::new_segment:
    case Step::Kind::new_expandable:
      step.serial = next_serial();
      return step;
    case Step::Kind::map:
      // PyTorch compares the limit with the size of a segment alone, and whole pages may be more.
      if (step.size.rounded_up(step.block->memory->page) > view.room()) return {.kind = Step::Kind::next_rung};
      return step;
    default:
      return step;
  }
}

void GraphRules::choose_everything(const BlockMap& blocks, std::vector<Block*>& victims) const {
  victims.clear();
  if (!graph_pool_->keeps_memory()) torch_.choose_everything(blocks, victims);
}

std::unique_ptr<Space> make_graph_space(const Space& policy, const Devices& devices, std::size_t device_number,
                                        EventSource& events, std::shared_ptr<GraphPool> graph_pool) {
  if (policy.devices().location() != Location::device)
    throw Error(ErrorKind::config,
                "the memory of this pool lies on the host, and graph pools have memory of a device; use a pool with "
                "location=\"device\"");
  std::unique_ptr<SegmentRules> rules;
  if (const GraphMemory* memory = policy.facets().graph_memory) rules = memory->graph_rules(graph_pool);
  if (rules == nullptr) {
    // Other devices get access to mapped memory only.
    const bool is_expandable = policy.facets().peer_access != nullptr && can_map_pages(devices[device_number]);
    TorchOptions options{.is_expandable = is_expandable};
    // A graph pool keeps its free memory from all other requests, so it grows in small steps.
    if (is_expandable) options.large_segment_size = torch::kLargeRounding;
    rules = std::make_unique<GraphRules>(options, graph_pool);
  }
  const bool maps_memory = rules->maps_its_memory();
  Devices all{devices[device_number]};
  for (std::size_t i = 0; i < devices.size(); ++i)
    if (i != device_number) all.push_back(devices[i]);
  auto space = std::make_unique<SegmentSpace>(all, std::move(rules), events,
                                              Ledger::on_device(policy.ledger().budget(), device_number));
  space->set_policy_name(policy.policy_name());
  space->set_graph_pool(std::move(graph_pool), device_number);
  const ChunkExports* exports = policy.facets().chunk_exports;
  if (maps_memory && exports != nullptr && exports->makes_exportable_chunks()) space->make_exportable();
  return space;
}

}  // namespace memlake
