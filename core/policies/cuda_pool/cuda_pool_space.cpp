#include "policies/cuda_pool/cuda_pool_space.hpp"

#include <algorithm>
#include <utility>

#include "base/undo_failure.hpp"
#include "driver/stream.hpp"
#include "policies/address_check.hpp"

namespace memlake {

namespace {

constexpr std::uint64_t kAlignment = 512;  // of what pools give
constexpr std::uint64_t kPromised = 256;   // of what CUDA gives; its driver was seen to give 512
constexpr std::uint64_t kGranule = std::uint64_t{2} << 20;

constexpr Rung kLadder[] = {Rung::grow, Rung::wait_for_events, Rung::grow_with_rest, Rung::release_cached};

}  // namespace

CudaPoolSpace::CudaPoolSpace(std::shared_ptr<Device> device, const CudaPoolOptions& options, EventSource& events,
                             std::shared_ptr<Budget> budget)
    : Space(device, events, std::move(budget)), pool_(std::move(device), options.max_size) {
  facets_ = {.ordered_frees = this, .reuse = this, .peer_access = this, .driver_counts = this, .counters = this};
  pool_.set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
  if (options.reuse != ReuseRules{}) set_reuse_rules(options.reuse);
}

Bytes CudaPoolSpace::round(Bytes requested) const {
  const std::uint64_t most = UINT64_MAX / kAlignment * kAlignment;  // more is refused by the driver as it is
  return {requested.count > most ? requested.count : (requested.count + kAlignment - 1) / kAlignment * kAlignment};
}

std::unique_ptr<CudaPoolSpace::Slot> CudaPoolSpace::allocate(Bytes size, CUstream stream) {
  // Whole granules are not padded in advance: they would take one more each.
  Bytes padding = size.count % kGranule == 0 ? Bytes{0} : padding_;
  while (true) {
    PoolAllocation given(pool_, size + padding, stream);
    const Address address{(given.range().begin.value + kAlignment - 1) / kAlignment * kAlignment};
    if (address + size <= given.range().end())
      return std::make_unique<Slot>(AddressRange{address, size}, std::move(given));
    padding_ = padding = {kAlignment - kPromised};
    given.close(stream);
  }
}

Block* CudaPoolSpace::try_to_allocate(Attempt& attempt) {
  if (attempt.rounded > reach_.total()) return nullptr;  // with its padding it might not be a number any more
  if (events_.progress().is_capturing(attempt.request.stream))
    throw Error(
        ErrorKind::invalid_argument,
        "the stream is capturing a graph, and memory that CUDA's pool gives then belongs to the graph; allocate "
        "it from a graph pool, or before the capture");
  try {
    auto slot = allocate(attempt.rounded, events_.handles().handle_of(attempt.request.stream));
    slot->block = block_over(*slot, group_, attempt.request.stream);
    slot->block.give_back = GiveBack::with_calls;
    Slot& made = *slots_.emplace(slot->range.begin.value, std::move(slot)).first->second;
    live_ = live_ + made.range.size;
    watch_.allocated(made.range, attempt.request.stream);
    attempt.tried.push_back({Tried::What::new_segment, false});
    return &made.block;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    attempt.tried.push_back({Tried::What::new_segment, true});
    return nullptr;
  }
}

Ladder CudaPoolSpace::ladder(const Attempt&) const { return kLadder; }

Block* CudaPoolSpace::climb(Rung rung, Attempt& attempt) {
  if (is_over_limit(attempt.rounded)) return nullptr;
  attempt.is_retry = rung != Rung::grow;
  if (rung == Rung::release_cached) {
    // Memory that lies free in segments that are too small goes back, once the host has waited for its frees.
    release_everything();
    attempt.tried.push_back({Tried::What::release, false});
  }
  return try_to_allocate(attempt);
}

void CudaPoolSpace::free_in_order(Block& block, StreamId stream) {
  close(slot_of(block), stream, events_.handles().handle_of(stream));
}

void CudaPoolSpace::close(Slot& slot, StreamId stream, CUstream handle) {
  if (std::ranges::find(freed_on_, stream) == freed_on_.end()) freed_on_.push_back(stream);
  slot.allocation.close(handle);
  slot.is_freed = true;
  live_ = live_ - slot.range.size;
}

void CudaPoolSpace::give_back(Block* block) {
  Slot& slot = slot_of(*block);
  if (!slot.is_freed) {
    try {
      // The streams that used it have passed, so any stream will do.
      const auto handle = events_.handles().usable_handle_of(block->stream);
      close(slot, handle ? block->stream : StreamId{0}, handle.value_or(nullptr));
    } catch (const Error& error) {
      report_undo_failure(error);
      live_ = live_ - slot.range.size;
      stuck_.push_back(std::move(slot.allocation));
    }
  }
  watch_.released(slot.range, block->stream);
  slots_.erase(slot.range.begin.value);
}

void CudaPoolSpace::trim(Bytes keep) {
  std::vector<StreamId> busy;
  for (const StreamId stream : freed_on_) {
    if (!events_.progress().is_idle(stream)) {
      busy.push_back(stream);
    } else if (const auto handle = events_.handles().usable_handle_of(stream)) {
      stream_synchronize(*device_, *handle);
    }
  }
  freed_on_ = std::move(busy);
  pool_.trim(keep);
}

void CudaPoolSpace::release_everything() {
  events_.waits().prepare_device_wait();
  // Streams of other contexts than the primary one are not covered by that.
  for (const StreamId stream : freed_on_) static_cast<void>(events_.waits().wait_for_stream(stream));
  device_->synchronize();
  freed_on_.clear();
  ++synchronisations_;
  stuck_.clear();
  pool_.trim({0});
}

void CudaPoolSpace::for_each(const std::function<void(const Block&)>& visit) const {
  for (const auto& [address, slot] : slots_) visit(slot->block);
}

void CudaPoolSpace::refresh_ledger() const {
  if (!device_->can_undo()) return;
  try {
    const Bytes now{pool_.get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)};
    const Bytes high{pool_.get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)};
    if (now > ledger_.held()) {
      ledger_.add(now - ledger_.held());
    } else {
      ledger_.subtract(ledger_.held() - now);
    }
    Level& of_pool = ledger_.budget()->held;
    of_pool.peak = std::max(of_pool.peak, high + (of_pool.now - now));
  } catch (const Error&) {
    // Asked where nothing may be thrown, too: a driver that does not answer leaves what it said last.
  }
}

Bytes CudaPoolSpace::free_in_all() const {
  const std::uint64_t used = pool_.get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  const std::uint64_t now = ledger().held().count;
  return {now > used ? now - used : 0};
}

Outlook CudaPoolSpace::outlook(const Attempt& attempt, Bytes device_free) const {
  Outlook outlook;
  outlook.room = room_within(device_free);
  outlook.free_and_usable = free_in_all();
  outlook.in_one_range = outlook.room;
  // Unlike other policies, it compares only what is live with the limit.
  const Bytes used = ledger_.elsewhere() + live_;
  outlook.need = {.alone = attempt.rounded,
                  .more = attempt.rounded,
                  .limit = checked_add(used, attempt.rounded).value_or(Budget::kUnlimited),
                  .from_driver = attempt.rounded - std::min(attempt.rounded, outlook.free_and_usable)};
  outlook.advice =
      "there is enough memory, but not in one piece that CUDA's pool can give to this stream; close some buffers, or "
      "ask for less";
  return outlook;
}

ReuseRules CudaPoolSpace::reuse_rules() const {
  return {.follow_event_dependencies = pool_.get(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES) != 0,
          .allow_opportunistic = pool_.get(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC) != 0,
          .allow_internal_dependencies = pool_.get(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) != 0};
}

void CudaPoolSpace::set_reuse_rules(const ReuseRules& rules) {
  const ReuseRules before = reuse_rules();
  const auto set = [this](const ReuseRules& wanted) {
    pool_.set(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, wanted.follow_event_dependencies ? 1 : 0);
    pool_.set(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, wanted.allow_opportunistic ? 1 : 0);
    pool_.set(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, wanted.allow_internal_dependencies ? 1 : 0);
  };
  try {
    set(rules);
  } catch (...) {
    try {
      set(before);
    } catch (const Error& error) {
      report_undo_failure(error);
    }
    throw;
  }
}

void CudaPoolSpace::set_release_threshold(Bytes threshold) {
  pool_.set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, threshold.count);
}

void CudaPoolSpace::change_access(const Devices& added, const Devices& removed) {
  std::vector<CUmemAccessDesc> changes;
  const auto add = [&](const auto& devices, CUmemAccess_flags flags) {
    for (const auto& device : devices) changes.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal()}, flags});
  };
  add(added, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  add(removed, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  pool_.set_access(changes);
}

std::vector<Counter> CudaPoolSpace::counters() const {
  return {{"driver_used", pool_.get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT)},
          {"driver_used_peak", pool_.get(CU_MEMPOOL_ATTR_USED_MEM_HIGH)},
          {"synchronisations", synchronisations_}};
}

void CudaPoolSpace::check(InvariantReport& report) const {
  Bytes live{0};
  std::vector<AddressRange> ranges;
  for (const auto& [address, slot] : slots_) {
    const Block& block = slot->block;
    const AddressRange given = slot->allocation.range();
    if (block.address.value != address || block.size != slot->range.size || slot->is_freed ||
        block.address < given.begin || given.end() < block.end())
      report.add("I1: ", place(block), " is not what the driver gave");
    ranges.push_back(given);
    live = live + slot->range.size;
  }
  check_apart(std::move(ranges), report);
  if (live != live_) report.add("I7: ", live.count, " bytes are live, ", live_.count, " are counted");
  // In this order: streams go on meanwhile, so that the driver uses less and then holds less.
  const std::uint64_t held = ledger().held().count;
  const std::uint64_t used = pool_.get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  if (used < live.count)
    report.add("I7: ", live.count, " bytes are live, but the driver says that ", used, " are used");
  if (held < used) report.add("I7: the driver holds ", held, " bytes, less than are used, ", used);
}

}  // namespace memlake
