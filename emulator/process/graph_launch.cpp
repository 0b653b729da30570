#include "process/graph_launch.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "process/graph_kernel.hpp"
#include "process/graph_params.hpp"
#include "process/transfer.hpp"

namespace memlake::emulator {

namespace {

/// One piece of work, and what changes at once when it is queued.
struct Step {
  Work work;
  std::function<void()> when_queued = {};
};

/// The physical memory of all devices' graphs, as it was before a launch. The destructor restores it unless keep() was
/// called.
class MemoryUndo {
 public:
  void save(GraphMemory& memory) {
    for (const auto& [saved, snapshot] : saved_)
      if (saved == &memory) return;
    saved_.emplace_back(&memory, memory.snapshot());
  }
  void keep() { saved_.clear(); }
  MemoryUndo() = default;
  ~MemoryUndo() {
    for (const auto& [memory, snapshot] : saved_) memory->restore(snapshot);
  }
  MemoryUndo(const MemoryUndo&) = delete;
  MemoryUndo& operator=(const MemoryUndo&) = delete;

 private:
  std::vector<std::pair<GraphMemory*, GraphMemory::Snapshot>> saved_;
};

/// Makes the steps of one launch. Nothing but the physical memory of graphs changes meanwhile, and that is undone.
class Plan {
 public:
  Plan(Driver& driver, Exec& exec, Stream& stream, const Origin& origin)
      : driver_(driver), exec_(exec), stream_(stream), origin_(origin), before_(driver.streams.before(stream)) {
    before_.merge(exec.after);
  }

  std::vector<Step> make() {
    for_each_range(exec_.top, [&](const GraphRangeRef& range) { free_earlier(range); });
    add_all(exec_.top);
    if (!steps_.empty() && is_pending(exec_.last) && exec_.last->stream != &stream_)
      steps_.front().work.waits.push_back(exec_.last);
    if (!steps_.empty()) keep_until(steps_.back().work);
    return std::move(steps_);
  }

  void keep() { undo_.keep(); }

 private:
  /// The program may destroy the executable graph meanwhile: what it keeps alive ends with the last work.
  void keep_until(Work& last) {
    last.at_end = [kept = exec_.objects, before = std::move(last.at_end)] {
      if (before) before();
    };
  }

  /// Calls `body` with the range of each allocation node.
  template <class Body>
  void for_each_range(const ExecGraph& graph, Body&& body) {
    for (const ExecNode& node : graph.nodes) {
      if (const auto* alloc = std::get_if<AllocNode>(&node.params)) body(alloc->range);
      for (const ExecGraph& child : node.bodies) for_each_range(child, body);
    }
  }

  [[nodiscard]] bool is_live(const GraphRange& range) const {
    if (const auto found = live_.find(&range); found != live_.end()) return found->second;
    const PoolAllocation* allocation = driver_.pools.allocations().find(range.address());
    return allocation != nullptr && allocation->range.get() == &range;
  }

  /// The position that the next step gets: each step is one operation of the stream.
  [[nodiscard]] std::uint64_t next_position() const { return stream_.position + steps_.size() + 1; }

  void free_earlier(const GraphRangeRef& range) {
    if (!is_live(*range)) return;
    if (!exec_.frees_on_launch())
      invalid("the memory at ", Hex{range->address()}, ", which an earlier launch of the graph allocated, is not ",
              "freed; free it, or instantiate the graph with AUTO_FREE_ON_LAUNCH");
    add_free(range, std::nullopt);
  }

  void add_all(const ExecGraph& graph) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const ExecNode& node = graph.nodes[i];
      if (node.is_enabled) std::visit([&](const auto& params) { add(params, graph, i); }, node.params);
    }
  }

  void add(const EmptyNode&, const ExecGraph&, std::size_t) {}

  void add(const CopyNode& node, const ExecGraph& graph, std::size_t place) {
    const NodeBoxes boxes = boxes_of(node, &find_context(node.context));
    if (boxes.extent.is_empty()) return;
    add_transfer(copy_work(driver_, origin_, boxes.destination, boxes.source, boxes.extent), graph, place);
  }

  void add(const FillNode& node, const ExecGraph& graph, std::size_t place) {
    const CUDA_MEMSET_NODE_PARAMS_v2& params = node.params;
    const Extent extent{params.width * params.elementSize, params.height};
    if (extent.bytes() == 0) return;
    const Context& context = find_context(reinterpret_cast<std::uint64_t>(params.ctx));
    add_transfer(fill_work(driver_, origin_, {{params.dst, Side::device, &context}, params.pitch, 0}, params.value,
                           params.elementSize, extent),
                 graph, place);
  }

  void add(const DeclaredNode& node, const ExecGraph& graph, std::size_t place) {
    add_transfer(declared_work(driver_, node.name, origin_, node.touches, stream_.context), graph, place);
  }

  void add(const KernelNode& node, const ExecGraph&, std::size_t) {
    Function& function = function_of(driver_, node, origin_);
    steps_.push_back({skipped_work(function, origin_),
                      [this, &function] { driver_.skipped.count(driver_.ledger, function, origin_); }});
  }

  void add(const HostNode& node, const ExecGraph&, std::size_t) {
    steps_.push_back({Work{.name = text(origin_.call, ", a host node"),
                           .origin = origin_,
                           .body = host_function([params = node.params] { params.fn(params.userData); })}});
  }

  void add(const EventRecordNode& node, const ExecGraph&, std::size_t) {
    Event& event = find_event(node.event);
    if (event.context != stream_.context)
      refuse(CUDA_ERROR_INVALID_HANDLE, "the event of a record node belongs to another context than the stream");
    Work marker{.name = text(origin_.call, ", an event record node"), .origin = origin_};
    recorded_[node.event] = true;
    steps_.push_back({std::move(marker), [this, handle = node.event] {
                        Event& recorded = find_event(handle);
                        recorded.recorded = stream_.last;
                        recorded.before = driver_.streams.before(stream_);
                        recorded.capture.reset();
                        recorded.capture_tips.clear();
                      }});
  }

  void add(const EventWaitNode& node, const ExecGraph&, std::size_t) {
    const Event& event = find_event(node.event);
    if (recorded_.contains(node.event)) return;  // an earlier node of this launch records it
    Work marker{.name = text(origin_.call, ", an event wait node"), .origin = origin_};
    if (is_pending(event.recorded)) marker.waits.push_back(event.recorded);
    before_.merge(event.before);
    steps_.push_back({std::move(marker), [this, clock = event.before] { stream_.before.merge(clock); }});
  }

  void add(const ChildNode&, const ExecGraph& graph, std::size_t place) { add_all(graph.nodes[place].bodies.front()); }

  void add(const AllocNode& node, const ExecGraph& graph, std::size_t place) {
    const GraphRangeRef& range = node.range;
    if (is_live(*range)) invalid("the memory at ", Hex{range->address()}, " is allocated twice without a free");
    GraphMemory& memory = range->memory();
    undo_.save(memory);
    const auto is_ordered = [&](const PendingFree& free) {
      if (free.stream != stream_.handle) return false;
      if (free.position <= stream_.position) return true;
      // A free of this launch: the edges must lead from it to this node.
      const auto found = frees_.find(free.position);
      return found != frees_.end() && found->second.first == &graph && reaches(graph, found->second.second, place);
    };
    Work work{.name = text(origin_.call, ", an allocation node of ", range->size(), " bytes"), .origin = origin_};
    work.waits = memory.take(*range, before_, is_ordered);
    work.check = [range, pages = range->pages()]() -> std::string {
      try {
        range->memory().show(*range, pages);
      } catch (const Refusal& refusal) {
        return refusal.sentence;
      }
      return "";
    };
    live_[range.get()] = true;
    steps_.push_back({std::move(work),
                      [this, range] { driver_.pools.begin_graph_allocation(range, stream_, stream_.last, origin_); }});
  }

  void add(const FreeNode& node, const ExecGraph& graph, std::size_t place) {
    if (!is_live(*node.range))
      invalid("a free node frees the memory at ", Hex{node.range->address()}, ", which is not allocated then");
    add_free(node.range, std::pair{&graph, place});
  }

  void add(const ConditionalNode& node, const ExecGraph& graph, std::size_t place) {
    const std::vector<ExecGraph>& bodies = graph.nodes[place].bodies;
    const auto found = exec_.conditions.find(node.handle);
    const unsigned value = found == exec_.conditions.end() ? 0 : found->second;
    if (node.type == CU_GRAPH_COND_TYPE_WHILE && value != 0)
      refuse(CUDA_ERROR_NOT_SUPPORTED, "the loop of a conditional node would never end: only a kernel can change its ",
             "condition, and the emulator runs no kernels");
    if (node.type == CU_GRAPH_COND_TYPE_IF) {
      if (value != 0) add_all(bodies[0]);
      if (value == 0 && bodies.size() == 2) add_all(bodies[1]);
    } else if (node.type == CU_GRAPH_COND_TYPE_SWITCH && value < bodies.size()) {
      add_all(bodies[value]);
    }
  }

  void add_free(const GraphRangeRef& range, std::optional<std::pair<const ExecGraph*, std::size_t>> place) {
    const PoolAllocation* live = driver_.pools.allocations().find(range->address());
    if (live != nullptr && live->range == range && !live_.contains(range.get()))
      driver_.pools.allocations().check_free(*live, before_);
    const auto leave = std::make_shared<std::function<void()>>();
    Work marker{.name = text(origin_.call, ", a free node"), .origin = origin_, .at_end = [leave] {
                  if (*leave) (*leave)();
                }};
    undo_.save(range->memory());
    range->memory().give_back(*range, PendingFree{stream_.handle, next_position(), stream_.context, marker.completion});
    if (place) frees_[next_position()] = *place;
    live_[range.get()] = false;
    steps_.push_back({std::move(marker), [this, leave, range] {
                        *leave = driver_.pools.begin_graph_free(*driver_.pools.allocations().find(range->address()));
                      }});
  }

  void add_transfer(Work work, const ExecGraph& graph, std::size_t place) {
    driver_.pools.allocations().check_made(before_, work.touches);
    for (const Touch& touch : work.touches) check_order_in_graph(touch, graph, place);
    steps_.push_back({std::move(work)});
  }

  /// A node that uses memory of an allocation node of the same graph must be ordered behind it, and before its free.
  void check_order_in_graph(const Touch& touch, const ExecGraph& graph, std::size_t place) const {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const auto* alloc = std::get_if<AllocNode>(&graph.nodes[i].params);
      const auto* free = std::get_if<FreeNode>(&graph.nodes[i].params);
      if (alloc == nullptr && free == nullptr) continue;
      const GraphRange& range = alloc != nullptr ? *alloc->range : *free->range;
      if (!touch.overlaps(range.address(), range.extent()) ||
          range.memory().device().config.relaxes(Switch::inflight_unmap))
        continue;
      if (alloc != nullptr && !reaches(graph, i, place))
        violate("a node of the graph uses the memory at ", Hex{touch.address},
                " but no edges lead to it from the node ", "that allocates the memory");
      if (free != nullptr && !reaches(graph, place, i))
        violate("a node of the graph uses the memory at ", Hex{touch.address},
                " but no edges lead from it to the node ", "that frees the memory");
    }
  }

  /// Whether edges lead from one node to another.
  static bool reaches(const ExecGraph& graph, std::size_t from, std::size_t to) {
    if (from >= to) return from == to;
    std::vector<bool> is_seen(to + 1);
    std::vector<std::size_t> open{to};
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      if (at == from) return true;
      for (const std::size_t before : graph.nodes[at].before)
        if (before >= from && !is_seen[before]) {
          is_seen[before] = true;
          open.push_back(before);
        }
    }
    return false;
  }

  const Context& find_context(std::uint64_t handle) {
    driver_.contexts.check_alive(handle);
    return *driver_.contexts.find(handle);
  }

  Event& find_event(std::uint64_t handle) { return driver_.events.find(reinterpret_cast<CUevent>(handle)); }

  Driver& driver_;
  Exec& exec_;
  Stream& stream_;
  Origin origin_;
  Clock before_;  ///< of the next step
  MemoryUndo undo_;
  std::vector<Step> steps_;
  std::unordered_map<const GraphRange*, bool> live_;  // what the steps so far have allocated and freed
  std::unordered_map<std::uint64_t, std::pair<const ExecGraph*, std::size_t>> frees_;  // by position
  std::unordered_map<std::uint64_t, bool> recorded_;                                   // events
};

}  // namespace

void launch_graph(Driver& driver, Exec& exec, Stream& stream, const Origin& origin) {
  Plan plan(driver, exec, stream, origin);
  std::vector<Step> steps = plan.make();
  for (Step& step : steps) {
    driver.enqueue(stream, std::move(step.work));  // only the first can fail, for want of a thread
    plan.keep();
    stream.before.merge(exec.after);
    if (step.when_queued) step.when_queued();
  }
  plan.keep();
  ++exec.launches;
  if (steps.empty()) return;
  exec.last = stream.last;
  exec.after = driver.streams.before(stream);
}

}  // namespace memlake::emulator
